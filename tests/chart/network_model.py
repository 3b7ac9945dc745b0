"""What network policies let through: a small model of the API's semantics.

A connection passes if the target's policies allow it in and the source's policies allow it out; an
end that no policy selects is open. What a policy may say and this model doesn't know is an error.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Any, NamedTuple

Rule = dict[str, Any]


class Port(NamedTuple):
    """As `7001`, or `53/UDP`."""

    number: int
    protocol: str = "TCP"

    def __str__(self) -> str:
        return f"{self.number}" if self.protocol == "TCP" else f"{self.number}/{self.protocol}"


def port_of(text: str) -> Port:
    number, _, protocol = text.partition("/")
    return Port(int(number), protocol or "TCP")


@dataclass(frozen=True, kw_only=True)
class End:
    """A pod of a namespace, or a host with an address."""

    labels: dict[str, str] = field(default_factory=dict)
    namespace: str = ""
    address: str = ""


class Policies:
    """The network policies among a chart's documents; `namespace` is that of the release."""

    def __init__(self, documents: list[dict[str, Any]], *, namespace: str) -> None:
        self._found = [
            (d["metadata"].get("namespace", namespace), d["spec"])
            for d in documents
            if d["kind"] == "NetworkPolicy"
        ]

    def ports(self) -> set[Port]:
        """Every port that a rule names."""
        return {
            port
            for _, spec in self._found
            for rule in [*spec.get("ingress", []), *spec.get("egress", [])]
            for port in _ports(rule) or ()
        }

    def are_about(self, end: End) -> bool:
        """Whether a policy selects it."""
        return bool(self._of(end, "Ingress") and self._of(end, "Egress"))

    def connects(self, source: End, target: End, port: Port) -> bool:
        return self.lets_in(target, source, port) and self.lets_out(source, target, port)

    def lets_in(self, target: End, source: End, port: Port) -> bool:
        own = self._of(target, "Ingress")
        return not own or any(_passes(*each, "from", source, port) for each in own)

    def lets_out(self, source: End, target: End, port: Port) -> bool:
        own = self._of(source, "Egress")
        return not own or any(_passes(*each, "to", target, port) for each in own)

    def _of(self, end: End, kind: str) -> list[tuple[str, list[Rule]]]:
        """Namespace and rules of the policies that are about this end."""
        return [
            (namespace, spec.get(kind.lower()) or [])
            for namespace, spec in self._found
            if kind in spec["policyTypes"]
            and namespace == end.namespace
            and _selects(spec["podSelector"], end.labels)
        ]


def _ports(rule: Rule) -> set[Port] | None:
    """None: all."""
    if "ports" not in rule:
        return None
    _known(rule, {"ports", "from", "to"})
    for each in rule["ports"]:
        _known(each, {"protocol", "port"})
    return {Port(each["port"], each.get("protocol", "TCP")) for each in rule["ports"]}


def _passes(namespace: str, rules: list[Rule], side: str, other: End, port: Port) -> bool:
    for rule in rules:
        ports = _ports(rule)
        if ports is not None and port not in ports:
            continue
        if side not in rule or any(_is(peer, namespace, other) for peer in rule[side]):
            return True
    return False


def _is(peer: Rule, namespace: str, other: End) -> bool:
    if "ipBlock" in peer:
        _known(peer, {"ipBlock"})
        _known(peer["ipBlock"], {"cidr"})
        block = ip_network(peer["ipBlock"]["cidr"])
        return bool(other.address) and ip_address(other.address) in block
    _known(peer, {"podSelector"})  # without a namespaceSelector: of the policy's own namespace
    return other.namespace == namespace and _selects(peer["podSelector"], other.labels)


def _selects(selector: Rule, labels: dict[str, str]) -> bool:
    _known(selector, {"matchLabels", "matchExpressions"})
    for expression in selector.get("matchExpressions", []):
        assert expression["operator"] == "In", expression
        if labels.get(expression["key"]) not in expression["values"]:
            return False
    return bool(selector.get("matchLabels", {}).items() <= labels.items())


def _known(found: Rule, words: set[str]) -> None:
    assert set(found) <= words, f"{sorted(set(found) - words)} is not modelled: {found}"

"""The chart's network policies let through what the parts need, and nothing else.

Judged by a small model of the API's semantics: a connection passes if the target's policies allow
it in and the source's policies allow it out; a pod that no policy selects is open.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytestmark = pytest.mark.chart

# charts/zonequake/README.md, "Network policies".
NEEDED = {
    ("store", "store", 7001),
    ("store", "store", 7002),
    ("load", "store", 7002),
    ("etcd", "etcd", 7001),
    ("load", "etcd", 2379),
    ("operator", "store", 7003),
    ("prometheus", "store", 8080),
    ("prometheus", "operator", 8080),
    ("prometheus", "load", 8081),
    ("test", "store", 8080),
    ("test", "operator", 8080),
    ("test", "prometheus", 9090),
}
PARTS = ("store", "operator", "prometheus", "load", "etcd")
COMPONENTS = (*PARTS, "test", "stranger")
PORTS = (2379, 7001, 7002, 7003, 8080, 8081, 9090)
API = "10.1.2.3"


def labels(component: str) -> dict[str, str]:
    if component == "stranger":
        return {"app": "something-else"}
    return {
        "app.kubernetes.io/name": "zonequake",
        "app.kubernetes.io/instance": "zq",
        "app.kubernetes.io/component": component,
    }


def selects(selector: dict, found: dict[str, str]) -> bool:
    wanted = selector.get("matchLabels", {})
    return wanted.items() <= found.items() and all(
        expression["operator"] == "In" and found.get(expression["key"]) in expression["values"]
        for expression in selector.get("matchExpressions", [])
    )


def passes(rules: list[dict], side: str, other: dict[str, str] | str, port: int) -> bool:
    """Does a rule let this port through, to or from the other: a pod's labels, or an address?"""
    for rule in rules:
        if "ports" in rule and port not in {p["port"] for p in rule["ports"]}:
            continue
        peers = rule.get(side)
        if peers is None:
            return True
        for peer in peers:
            if isinstance(other, str):
                if peer.get("ipBlock", {}).get("cidr") == "10.0.0.0/8":
                    return True
            elif "podSelector" in peer and selects(peer["podSelector"], other):
                return True
    return False


class Policies:
    def __init__(self, documents: list[dict]) -> None:
        self.specs = [d["spec"] for d in documents if d["kind"] == "NetworkPolicy"]

    def _of(self, component: str) -> list[dict]:
        return [s for s in self.specs if selects(s["podSelector"], labels(component))]

    def lets_in(self, target: str, source: dict[str, str] | str, port: int) -> bool:
        own = self._of(target)
        return not own or any(passes(spec["ingress"], "from", source, port) for spec in own)

    def lets_out(self, source: str, target: dict[str, str] | str, port: int) -> bool:
        own = self._of(source)
        return not own or any(passes(spec["egress"], "to", target, port) for spec in own)

    def connects(self, source: str, target: str, port: int) -> bool:
        return self.lets_in(target, labels(source), port) and self.lets_out(
            source, labels(target), port
        )


@pytest.fixture(scope="module")
def policies(render: Callable) -> Policies:
    return Policies(
        render(sets=["networkPolicy.enabled=true", "networkPolicy.apiServer.cidrs={10.0.0.0/8}"])
    )


def test_exactly_what_the_parts_need_gets_through(policies: Policies) -> None:
    # The pod of `helm test` is no target, and nobody's egress but the parts' is restricted.
    asked = [(s, t, p) for s in COMPONENTS for t in PARTS for p in PORTS]
    assert {each for each in asked if policies.connects(*each)} == NEEDED
    # Each side alone is as strict: the other one may be a pod that some other chart owns.
    assert {(s, t, p) for s, t, p in asked if policies.lets_in(t, labels(s), p)} == NEEDED
    own = {(s, t, p) for s, t, p in asked if s in PARTS}
    assert {(s, t, p) for s, t, p in own if policies.lets_out(s, labels(t), p)} == NEEDED & own


def test_without_tls_the_operator_gives_its_orders_where_the_reports_are(render: Callable) -> None:
    policies = Policies(render(sets=["networkPolicy.enabled=true", "tls.enabled=false"]))
    assert policies.connects("operator", "store", 8080)
    assert not policies.lets_in("store", labels("operator"), 7003)
    assert not policies.lets_out("operator", labels("store"), 7003)


def test_names_can_be_looked_up_and_the_api_reached_by_those_who_need_it(
    policies: Policies,
) -> None:
    for component in PARTS:
        assert policies.lets_out(component, {"k8s-app": "kube-dns"}, 53), component
    reaches = {c for c in PARTS if policies.lets_out(c, API, 6443)}
    assert reaches == {"store", "operator"}


def test_the_api_server_reaches_what_it_asks_for_people_and_for_the_harness(
    policies: Policies,
) -> None:
    asked = {
        ("store", 8080),
        ("operator", 8080),
        ("load", 8081),
        ("prometheus", 9090),
        ("etcd", 2379),
    }
    reached = {
        (target, port) for target in PARTS for port in PORTS if policies.lets_in(target, API, port)
    }
    assert reached == asked


def test_without_the_api_servers_addresses_it_can_be_reached_but_reaches_nobody(
    render: Callable,
) -> None:
    policies = Policies(render(sets=["networkPolicy.enabled=true"]))
    assert policies.lets_out("operator", "192.0.2.1", 443)
    assert not policies.lets_in("store", "192.0.2.1", 8080)


def test_clients_and_scrapers_of_ones_own_are_let_in(render: Callable) -> None:
    policies = Policies(
        render(
            sets=[
                "networkPolicy.enabled=true",
                "networkPolicy.clients[0].podSelector.matchLabels.app=something-else",
                "networkPolicy.scrapers[0].podSelector.matchLabels.app=monitoring",
            ]
        )
    )
    assert policies.connects("stranger", "store", 7002)
    assert not policies.connects("stranger", "store", 8080)
    monitoring = {"app": "monitoring"}
    assert policies.lets_in("store", monitoring, 8080)
    assert policies.lets_in("load", monitoring, 8081)
    assert not policies.lets_in("store", monitoring, 7002)


def test_policies_are_there_only_when_asked_for(render: Callable) -> None:
    assert not [d for d in render() if d["kind"] == "NetworkPolicy"]

"""What a rebalance has led to, without what may differ from run to run (tokens, terms, times)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import msgspec

from tests.patience import PATIENCE_S
from zonequake_protocol.admin import ReplicaRole, ReplicasReport, ReplicaStatus

if TYPE_CHECKING:
    from tests.kube.operator.api_server import ApiServer

RUNNING = (ReplicaRole.FOLLOWER, ReplicaRole.LEADER)
TOLD = ("DataNodesChanged", "NoDataNodes", "RebalanceBegun", "RebalanceEnded", "ChangeFailed")
"""Reasons of Events that are compared: of leaders more or less may have been seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Two rebalances ended alike if these are equal."""

    data_nodes: tuple[str, ...]
    is_accepted: bool
    """The newest spec is observed, and its revision handled."""
    conditions: Mapping[str, tuple[str, str]]
    stable: Mapping[str, tuple[str, ...]]
    unfinished: Mapping[str, tuple[str, ...]]
    """What a partition still holds of pending, planned, lock, stage."""
    states: Mapping[str, str]
    configurations: Mapping[str, Mapping[str, tuple[str, ...]]]
    """By group and node: the nodes of the configuration that the replica itself reports."""
    broken: tuple[str, ...]
    """Replicas that exist and don't run as follower or leader."""
    gates: Mapping[str, str]
    unreadable: tuple[str, ...] = ()
    told: Mapping[str, int] | None
    """Events by reason; None where they aren't compared."""

    def differences(self, other: Outcome) -> list[str]:
        """One line for each part in which `other` differs."""
        lines = []
        for field in fields(self):
            expected, found = getattr(self, field.name), getattr(other, field.name)
            if expected != found and not (field.name == "told" and expected is None):
                lines.append(f"{field.name}: expected {expected}, found {found}")
        return lines

    def problems(self) -> list[str]:
        """What no ended rebalance may show, whatever it is compared with."""
        found = [] if self.is_accepted else ["the newest spec isn't handled yet"]
        found += [f"{name} still has {what}" for name, what in self.unfinished.items()]
        found += [f"{name} is {s}" for name, s in self.states.items() if s != "Available"]
        for group, nodes in self.stable.items():
            members = dict.fromkeys(nodes, nodes)
            if (held := self.configurations.get(group, {})) != members:
                found.append(f"{group} is held as {held}, and stable is {nodes}")
        found += [f"the gate of {pod} is {g}" for pod, g in self.gates.items() if g != "True"]
        found += [f"{key} can't be read" for key in self.unreadable]
        found += [f"the replica {name} doesn't run" for name in self.broken]
        return found


def read_outcome(
    api: ApiServer, zone: str, nodes: Mapping[str, str], told_before: Mapping[str, int]
) -> Outcome:
    """As it is now; `nodes` are the addresses of data nodes that run, by name."""
    custom = f"/apis/zonequake.io/v1alpha1/namespaces/{api.namespace}"
    core = f"/api/v1/namespaces/{api.namespace}"
    of_zone = api.read(f"{custom}/distributionzones/{zone}")
    everyones = api.read(f"{custom}/partitions")["items"]
    partitions = [p for p in everyones if p["spec"]["zone"] == zone]
    pods = api.read(f"{core}/pods")["items"]
    status = of_zone.get("status", {})
    replicas = {
        name: [r for r in replicas_at(address) if r.zone == zone] for name, address in nodes.items()
    }
    by_partition: dict[str, dict[str, tuple[str, ...]]] = {}
    for node, held in replicas.items():
        for replica in held:
            by_partition.setdefault(str(replica.partition), {})[node] = _configured(replica)
    numbered = {str(p["spec"]["partition"]): p.get("status", {}) for p in partitions}
    told = Counter(told_reasons(api))
    told.subtract(told_before)
    return Outcome(
        data_nodes=tuple(status.get("dataNodes", ())),
        is_accepted=status.get("observedGeneration") == of_zone["metadata"]["generation"]
        and status.get("handledRevision") == status.get("revision"),
        conditions={c["type"]: (c["status"], c["reason"]) for c in status.get("conditions", [])},
        stable={n: tuple(p.get("stable", {}).get("nodes", ())) for n, p in numbered.items()},
        unfinished={n: left for n, p in numbered.items() if (left := _unfinished(p))},
        states={n: p.get("state", "") for n, p in numbered.items()},
        configurations=by_partition,
        broken=tuple(
            f"{r.partition} on {node} ({r.role})"
            for node, held in replicas.items()
            for r in held
            if r.role not in RUNNING
        ),
        gates={p["metadata"]["name"]: _gate(p) for p in pods},
        told={reason: told[reason] for reason in TOLD if told[reason]},
    )


def told_reasons(api: ApiServer) -> Iterable[str]:
    """The reasons of all Events of the namespace."""
    events = api.read(f"/api/v1/namespaces/{api.namespace}/events")["items"]
    return (event["reason"] for event in events)


def _unfinished(status: Mapping[str, Any]) -> tuple[str, ...]:
    left = [name for name in ("pending", "planned", "pendingLock") if status.get(name)]
    if status.get("stage", "NONE") != "NONE":
        left.append(status["stage"])
    return tuple(left)


def _configured(replica: ReplicaStatus) -> tuple[str, ...]:
    if replica.configuration is None:
        return ()
    names = [peer.node for peer in replica.configuration.peers]
    names += [f"old {peer.node}" for peer in replica.configuration.old_peers]
    return tuple(sorted(names))


def replicas_at(address: str) -> list[ReplicaStatus]:
    """What the data node at this address holds; nothing if it doesn't answer."""
    try:
        with urlopen(f"http://{address}:8080/admin/v1/replicas", timeout=PATIENCE_S) as response:
            return msgspec.json.decode(response.read(), type=ReplicasReport).replicas
    except (OSError, HTTPException):
        return []  # it hasn't started yet, or dies


def are_even(addresses: Iterable[str]) -> bool:
    """Whether all data nodes at these addresses hold replicas that have applied the same."""
    applied = [{r.group: r.applied for r in replicas_at(address)} for address in addresses]
    return bool(applied[0]) and all(each == applied[0] for each in applied)


def _gate(pod: Mapping[str, Any]) -> str:
    conditions = pod.get("status", {}).get("conditions", [])
    gate = next((c for c in conditions if c["type"] == "zonequake.io/caught-up"), None)
    return gate["status"] if gate else "unset"

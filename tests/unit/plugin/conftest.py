"""A made-up namespace: one zone `z` on nodes a, b, c …, each partition led by its first node."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import pytest

from tests.unit.made_up_nodes import node_identity, topology_node
from zonequake_ctl.zq.screens.namespace_view import NamespaceView, OperatorView, zone_views
from zonequake_operator.resources.model import Topology
from zonequake_protocol.admin import (
    CatchUpProgress,
    ConfigurationReport,
    PeerName,
    ReplicaRole,
    ReplicasReport,
    ReplicaStatus,
    Stage,
)

UID = "12345678-0000-4000-8000-000000000000"
NOW_MS = 1_800_000_000_000


def peer(node: str) -> PeerName:
    return PeerName(node=node, incarnation="1")


def replica(number: int, node: str, stable: str, **changes: object) -> ReplicaStatus:
    values: dict[str, object] = {
        "group": f"z.12345678.{number}",
        "zone": "z",
        "partition": number,
        "incarnation": "1",
        "role": ReplicaRole.LEADER if node == stable[0] else ReplicaRole.FOLLOWER,
        "term": 1,
        "leader": stable[0],
        "configuration": ConfigurationReport(
            peers=[peer(each) for each in stable], token=1, index=1
        ),
    }
    return ReplicaStatus(**{**values, **changes})  # type: ignore[arg-type]


def zone_object(
    spec: Mapping[str, object], data_nodes: str, status: Mapping[str, object]
) -> dict[str, object]:
    return {
        "metadata": {
            "name": "z",
            "namespace": "ns",
            "uid": UID,
            "generation": 1,
            "resourceVersion": "1",
        },
        "spec": spec,
        "status": {
            "observedGeneration": 1,
            "revision": 1,
            "handledRevision": 1,
            "topologyVersion": 1,
            "dataNodes": list(data_nodes),
            **status,
        },
    }


def partition_object(number: int, stable: str, status: Mapping[str, object]) -> dict[str, object]:
    return {
        "metadata": {
            "name": f"z-{number}",
            "resourceVersion": "1",
            "ownerReferences": [{"controller": True, "uid": UID}],
        },
        "spec": {"zone": "z", "partition": number, "group": f"z.12345678.{number}"},
        "status": {
            "stable": {"nodes": list(stable)},
            "bootstrap": {
                "token": 1,
                "peers": [{"node": node, "incarnation": "1"} for node in stable],
            },
            "configurationToken": 1,
            "changeTriggerRevision": 1,
            "state": "Available",
            **status,
        },
    }


def make(
    stable: Mapping[int, str],
    *,
    nodes: str = "abc",
    data_nodes: str = "abc",
    silent: str = "",
    spec: Mapping[str, object] = {},
    status: Mapping[str, object] = {},
    keys: Mapping[int, Mapping[str, object]] = {},
    changes: Mapping[tuple[int, str], Mapping[str, object]] = {},
    without: Collection[tuple[int, str]] = (),
    unheard: Mapping[str, str] = {},
    operators: int = 1,
) -> NamespaceView:
    """`stable`: the nodes of each partition. `changes`: of one replica's report. `silent` nodes are
    in the topology and don't answer; a node answers `without` a replica that it lost."""
    reports = {
        node: ReplicasReport(
            node=node_identity(node),
            replicas=[
                replica(number, node, members, **changes.get((number, node), {}))
                for number, members in stable.items()
                if node in members and (number, node) not in without
            ],
        )
        for node in nodes
        if node not in silent
    }
    zone = zone_object({"partitions": len(stable), **spec}, data_nodes, status)
    partitions = [partition_object(n, s, keys.get(n, {})) for n, s in stable.items()]
    return NamespaceView(
        now_ms=NOW_MS,
        namespace="ns",
        topology=Topology(
            version=1,
            nodes={node: topology_node(node) for node in nodes},
        ),
        zones=zone_views([zone], partitions, reports),
        reports=reports,
        unheard=dict.fromkeys(silent, "no answer") | dict(unheard),
        operator=OperatorView(pods=operators, ready=operators),
    )


def catching_up(node: str, done_bytes: int, total_bytes: int) -> Mapping[str, object]:
    return {
        "stage": Stage.CATCHING_UP,
        "progress": [
            CatchUpProgress(
                peer=peer(node),
                fraction=done_bytes / total_bytes,
                bytes_sent=done_bytes,
                bytes_done=done_bytes,
                bytes_total=total_bytes,
                match_index=1,
                by="log",
            )
        ],
    }


@pytest.fixture
def view() -> Callable[..., NamespaceView]:
    return make


@pytest.fixture
def progress() -> Callable[[str, int, int], Mapping[str, object]]:
    return catching_up

"""Nodes as the topology and their own reports show them; what a test doesn't name is made up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from zonequake_operator.resources.model import Departure, Topology, TopologyNode
from zonequake_protocol.admin import NodeIdentity


def topology_node(name: str, since: int = 1, **changes: Any) -> TopologyNode:
    node = TopologyNode(
        name=name,
        process_incarnation="p",
        storage_incarnation="s",
        pod_uid="u",
        restarts=0,
        attributes={},
        peer_address="",
        since=since,
    )
    return replace(node, **changes)


def topology(
    alive: str, version: int = 8, since: int = 1, departed: Mapping[str, Departure] | None = None
) -> Topology:
    nodes = {name: topology_node(name, since) for name in alive}
    return Topology(version=version, nodes=nodes, departed=departed or {})


def left(nodes: str, version: int = 7) -> dict[str, Departure]:
    return {node: Departure(since=1, left=version) for node in nodes}


def node_identity(name: str, **changes: Any) -> NodeIdentity:
    told = NodeIdentity(
        name=name,
        process_incarnation="p",
        storage_incarnation="s",
        pod_uid="u",
        attributes={},
        peer_address="",
        client_address="",
    )
    return msgspec.structs.replace(told, **changes)

"""The data nodes that a file names: which are there, and under which incarnations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from zonequake_ctl.what_if.reading.question import Attributes
from zonequake_operator.resources.model import Departure, Topology, TopologyNode
from zonequake_protocol.admin import NodeIdentity


class SupposedNodes:
    """The logical topology, and what its nodes say of themselves."""

    def __init__(self) -> None:
        self.topology = Topology(version=1)
        self._attributes: dict[str, Mapping[str, str]] = {}
        self._processes: dict[str, int] = {}
        self._storages: dict[str, int] = {}

    def change(self, join: Mapping[str, Attributes], leave: Iterable[str]) -> list[str]:
        """Applies one topology version; returns the nodes whose processes have ended.

        A node that joins while it is there has restarted.
        """
        version = self.topology.version + 1
        nodes, departed = dict(self.topology.nodes), dict(self.topology.departed)
        ended = [name for name in dict.fromkeys((*leave, *join)) if name in nodes]
        for name in ended:
            departed[name] = Departure(since=nodes.pop(name).since, left=version)
        self.topology = Topology(version=version, nodes=nodes, departed=departed)
        self.add(join)
        return ended

    def add(self, join: Mapping[str, Mapping[str, str]]) -> None:
        """Nodes of the present topology version."""
        nodes = dict(self.topology.nodes)
        for name, attributes in join.items():
            self._processes[name] = self._processes.get(name, 0) + 1
            self._storages.setdefault(name, 1)
            self._attributes[name] = attributes
            nodes[name] = self._node(name, self.topology.version)
        self.topology = replace(self.topology, nodes=dict(sorted(nodes.items())))

    def set_present(self, present: Iterable[str], gone: Iterable[str]) -> None:
        """Sets which nodes are present, without a new topology version: for a report of a group's
        restart.
        """
        away = set(gone)
        nodes = {name: node for name, node in self.topology.nodes.items() if name not in away}
        self.topology = replace(self.topology, nodes=nodes)
        self.add({name: self._attributes.get(name, {}) for name in present if name not in nodes})

    def restart(self, name: str, *, wiped: bool) -> None:
        """Another process, with another storage if that was `wiped`; the topology counts the same
        node, because a replica's loss is a report."""
        known = self.topology.nodes.get(name)
        if known is None:
            return
        self._processes[name] += 1
        self._storages[name] += wiped
        renewed = self._node(name, known.since)
        self.topology = replace(self.topology, nodes={**self.topology.nodes, name: renewed})

    def _node(self, name: str, since: int) -> TopologyNode:
        identity = self.identity(name)
        return TopologyNode(
            name=name,
            process_incarnation=identity.process_incarnation,
            storage_incarnation=identity.storage_incarnation,
            pod_uid=identity.pod_uid,
            restarts=0,
            attributes=identity.attributes,
            peer_address=identity.peer_address,
            since=since,
        )

    def identity(self, name: str) -> NodeIdentity:
        """Returns the node's answer to a request for its identity."""
        return NodeIdentity(
            name=name,
            process_incarnation=f"{name}/process-{self._processes.get(name, 0)}",
            storage_incarnation=f"{name}/storage-{self._storages.get(name, 0)}",
            pod_uid=name,
            attributes=dict(self._attributes.get(name, {})),
            peer_address=name,
            client_address=name,
        )

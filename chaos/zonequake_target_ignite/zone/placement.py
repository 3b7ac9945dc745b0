"""The nodes of each partition, calculated as Ignite calculates them. Pure.

Ignite 3.1 tells neither a zone's data nodes nor a partition's nodes. Data nodes are the logical
topology after the zone's timers, and each partition's nodes are `rendezvous` over their names.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from zonequake_chaos.scenario.run import RunZone, TimerSetting
from zonequake_kube.objects import KeysView
from zonequake_operator.nodes.affinity import rendezvous
from zonequake_target_ignite.zone.states import group_of

Assigned = tuple[str, ...]


class ZoneTimer:
    """One timer of a zone: it begins again whenever another node waits for it."""

    def __init__(self, setting: TimerSetting) -> None:
        self._setting = setting
        self._waiting: frozenset[str] = frozenset()
        self._since_s = 0.0

    def look(self, waiting: frozenset[str], *, now_s: float) -> frozenset[str]:
        """Takes the nodes that wait now; returns those for which the timer has ended."""
        if waiting - self._waiting:
            self._since_s = now_s
        self._waiting = waiting
        if self._setting == "Infinite" or now_s - self._since_s < int(self._setting):
            return frozenset()
        self._waiting = frozenset()
        return waiting

    @property
    def waited_for(self) -> frozenset[str]:
        """The nodes for which the timer will end."""
        return frozenset() if self._setting == "Infinite" else self._waiting


class ZonePlacement:
    """Follows the data nodes of a zone, and each partition's way from its old nodes to its new.

    A partition has moved once each of its new nodes holds a healthy replica, and no other node
    holds one.
    """

    def __init__(self, zone: RunZone, first: Sequence[str]) -> None:
        self._zone = zone
        self._replicas = zone.replicas
        self._data_nodes = frozenset(first)
        self._up = ZoneTimer(zone.data_nodes_auto_adjust_scale_up)
        self._down = ZoneTimer(zone.data_nodes_auto_adjust_scale_down)
        self._assigned = self._placed(self._data_nodes)
        self._wanted = self._assigned

    def look(
        self,
        *,
        logical: Collection[str],
        holders: Mapping[int, Collection[str]],
        healthy: Mapping[int, Collection[str]],
        replicas: int,
        now_s: float,
    ) -> None:
        """Takes the logical topology, the nodes that hold a replica of each partition, those whose
        replica is healthy, and the zone's number of replicas, which may have been altered.
        """
        self._replicas = replicas
        there = frozenset(logical)
        came = self._up.look(there - self._data_nodes, now_s=now_s)
        went = self._down.look(self._data_nodes - there, now_s=now_s)
        self._data_nodes = (self._data_nodes | came) - went
        coming = self._data_nodes | self._up.waited_for
        self._wanted = self._placed(coming - self._down.waited_for)
        for number, wanted in enumerate(self._wanted):
            nodes = set(wanted)
            if nodes <= set(healthy.get(number, ())) and set(holders.get(number, ())) <= nodes:
                self._assigned[number] = wanted

    def nodes(self, number: int) -> Assigned:
        """Returns a partition's nodes, the old and the new ones while it moves."""
        return tuple(sorted({*self._assigned[number], *self._wanted[number]}))

    def keys(self) -> list[KeysView]:
        """Returns the partitions; `pending` are the nodes that one moves to."""
        zone = self._zone.name
        return [
            KeysView(
                zone=zone,
                partition=number,
                group=group_of(zone, number),
                stable=stable,
                pending=() if stable == wanted else wanted,
            )
            for number, (stable, wanted) in enumerate(
                zip(self._assigned, self._wanted, strict=True)
            )
        ]

    def _placed(self, names: Collection[str]) -> list[Assigned]:
        placed = rendezvous(names, self._zone.partitions, self._replicas)
        return [tuple(sorted(nodes)) for nodes in placed]

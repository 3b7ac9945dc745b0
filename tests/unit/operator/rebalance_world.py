"""The operator's loop around one modelled group, with orders that may be lost."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.operator import group_model as model
from zonequake_operator.groups.reports import Group
from zonequake_operator.rebalance.key_changes import WantedKeys, decide
from zonequake_operator.rebalance.orders import ReplicaSettings, orders
from zonequake_operator.resources.model import AssignmentSet, ChangePeersMode, PartitionKeys
from zonequake_protocol.admin import Order

EVERYONE = frozenset("ABCDE")
SETTINGS = ReplicaSettings(
    zone="z", partition=0, partitions=1, fsync=True, catch_up_bytes_per_second=0, addresses={}
)


def of(nodes: str | None) -> AssignmentSet | None:
    return AssignmentSet.of(*nodes) if nodes else None


class World:
    """The operator's loop around one group, with orders that may be lost."""

    def __init__(self, mode: ChangePeersMode = ChangePeersMode.QUEUE) -> None:
        self.group = model.StoreGroup()
        self.keys = PartitionKeys()
        self.mode = mode
        self.settings = replace(SETTINGS, mode=mode)
        self.revision = 0
        self.target: AssignmentSet | None = None
        self.tokens: list[int] = [0]
        self.twin: PartitionKeys | None = None
        self.late: list[tuple[str, Order]] = []
        """Orders still under way, from this operator or from one that died meanwhile."""

    def wish(self, nodes: str) -> None:
        self.target, self.revision = of(nodes), self.revision + 1

    def step(
        self,
        *,
        alive: frozenset[str] = EVERYONE,
        silent: frozenset[str] = frozenset(),
        lose: bool = False,
        delay: bool = False,
        write_fails: bool = False,
        dies: bool = False,
        late_ticks: int = 0,
    ) -> bool:
        """One round: writes until nothing is left to write, then orders; says if it did anything.

        The group lives on for `late_ticks` between its reports and what follows from them. The
        operator that `dies` does so between its first write and the orders.
        """
        seen = self.group.report(silent)
        for _ in range(late_ticks):
            self.group.tick()
        wrote = False
        while (after := self.decide(seen, alive)) != self.keys:
            if write_fails:
                return True
            wrote, self.keys = True, after
            self.tokens.append(after.configuration_token)
            if dies:
                return True
            assert len(self.tokens) < 10_000, "the keys never come to rest"
        told = orders(
            self.keys, seen, self.settings, alive=alive, reachable=alive - silent, paused=False
        )
        if delay:
            self.late += told
        elif not lose:
            for node, order in told:
                self.group.obey(node, order)
        return wrote or bool(told)

    def decide(
        self, seen: Group, alive: frozenset[str] = EVERYONE, of: PartitionKeys | None = None
    ) -> PartitionKeys:
        before = of or self.keys
        due = before.change_trigger_revision < self.revision
        wish = WantedKeys(calculated=self.target, revision=self.revision, due=due, mode=self.mode)
        return decide(before, seen, wish, alive)

    def twin_reads(self) -> None:
        """Another operator lives; it reads the keys now and keeps them for a while."""
        self.twin = self.keys

    def twin_acts(self) -> None:
        """On what it read and on new reports; a write of its own would meet a conflict."""
        seen = self.group.report()
        if (
            self.twin is None
            or self.twin == self.keys
            or self.decide(seen, of=self.twin) != self.twin
        ):
            self.twin = None
            return
        told = orders(self.twin, seen, self.settings, alive=EVERYONE, reachable=EVERYONE)
        self.late += told

    def deliver(self) -> None:
        """What was under way arrives, unless it is too old for a node to act on it."""
        late, self.late = self.late, []
        for node, order in late:
            self.group.obey(node, order)

    def run(self, steps: int) -> None:
        idle = 0
        for _ in range(steps):
            idle = 0 if self.step() else idle + 1
            self.group.tick()
            if idle > 5:
                return

"""One seed of one scenario: a cluster in virtual time, its faults, and its rules.

run(steps)   faults as planned; every rule after every step
settle()     no faults any more: everything must come to rest, all replicas equal
judge()      the clients' histories before the real checkers
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from zonequake_load.operation import Operation, Outcome, Type
from zonequake_load.pod.history import HistoryEvent
from zonequake_simulation import serializability
from zonequake_simulation.api_server import ApiServer
from zonequake_simulation.checks.group import GroupRules
from zonequake_simulation.checks.transactions import TransactionRules
from zonequake_simulation.clients import SimulatedClients
from zonequake_simulation.fault_execution import Trouble
from zonequake_simulation.judge import judged
from zonequake_simulation.lineages import seen_from
from zonequake_simulation.member import SimulatedNode
from zonequake_simulation.network import Network, Weather
from zonequake_simulation.operated.control_plane import ControlPlane, place_of
from zonequake_simulation.operated.group import OperatedGroup
from zonequake_simulation.operated.pods import POOL
from zonequake_simulation.plan import FaultPlan
from zonequake_simulation.replicas import GroupPlace
from zonequake_simulation.scenario import Scenario
from zonequake_simulation.small_operator import GroupOperator
from zonequake_simulation.trace import TraceEvent
from zonequake_simulation.violation import Violation, require
from zonequake_simulation.world import World
from zonequake_store.replica.replica import Replica
from zonequake_store.state.encoding import cells_of
from zonequake_store.state.partition import digest
from zonequake_store.storage.cells import MemoryCells, Overlay

_VIEWS_MS = 3_500
"""Time for views to be updated, longer than a resync: another operator sees the last writes of a
dead one only then.
"""
_SILENCE_MS = 3_000
_MEMORY = Path("/dev/shm")  # noqa: S108


class Simulation:
    """A run; use it as a context manager, or `close` it: its disks are real folders in memory."""

    def __init__(
        self,
        seed: int,
        scenario: Scenario,
        plan: FaultPlan | None = None,
        trace: bool = False,
    ) -> None:
        self.seed = seed
        self.scenario = scenario
        self.plan = FaultPlan.random(seed, scenario) if plan is None else plan
        self._world = world = World(seed, trace=trace)
        self._folder = Path(
            tempfile.mkdtemp(prefix="zonequake-", dir=_MEMORY if _MEMORY.is_dir() else None)
        )
        draw = world.stream("setting")
        self._network = Network(
            world,
            Weather(
                lost=draw.choice(scenario.lost),
                doubled=draw.choice(scenario.doubled),
                slowest_us=draw.choice(scenario.slowest_us),
            ),
        )
        places = [
            place_of(number, scenario.groups)
            if scenario.is_operated
            else GroupPlace(name=f"{number}_part", partition=number, partitions=scenario.groups)
            for number in range(scenario.groups)
        ]
        self.transactions = TransactionRules()
        self.rules = {
            place.name: GroupRules(
                place.name, scenario.settings, self.transactions, lambda: world.now_us
            )
            for place in places
        }
        api = ApiServer(scenario.lease_ms)
        self.nodes: dict[str, SimulatedNode] = {}
        for number in range(scenario.nodes):
            name = f"{POOL}-{number}" if scenario.is_operated else f"n{number}"
            self.nodes[name] = SimulatedNode(
                name,
                world=world,
                network=self._network,
                scenario=scenario,
                rules=self.rules,
                folder=self._folder / name,
                rate=1 + scenario.drift * draw.uniform(-1, 1),
                nodes=self.nodes,
                leases=api,
                died=self._died,
            )
        self.control: ControlPlane | None = None
        self.operators: dict[str, GroupOperator | OperatedGroup] = {}
        if scenario.is_operated:
            self.control = control = ControlPlane(
                scenario, world=world, network=self._network, nodes=self.nodes, rules=self.rules
            )
            for place in places:
                self.operators[place.name] = OperatedGroup(place, control, self.nodes)
        else:
            for place in places:
                self.operators[place.name] = GroupOperator(
                    place,
                    world=world,
                    network=self._network,
                    api=api,
                    scenario=scenario,
                    rules=self.rules[place.name],
                    nodes=self.nodes,
                )
        for node in self.nodes.values():
            node.start()
        for operator in self.operators.values():
            count = draw.choice(scenario.members)
            operator.bootstrap(sorted(draw.sample(sorted(self.nodes), count)))
        self.client = SimulatedClients(
            world=world,
            network=self._network,
            nodes=self.nodes,
            scenario=scenario,
            certainly_failed=self.transactions.certainly_failed,
        )
        self._trouble = Trouble(
            self.plan,
            world=world,
            network=self._network,
            scenario=scenario,
            nodes=self.nodes,
            operators=self.operators,
            transactions=self.transactions,
            client=self.client.name,
            control=self.control,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Frees the disks' memory."""
        if self.control is not None:
            self.control.close()
        for node in self.nodes.values():
            node.disk.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def tally(self) -> Counter[str]:
        """The number of events of each kind."""
        return self._world.tally

    @property
    def now_ms(self) -> float:
        """Virtual time."""
        return self._world.now_ms

    @property
    def steps(self) -> int:
        """Events so far."""
        return self._world.steps

    @property
    def events(self) -> list[TraceEvent]:
        """The events of the run, if it is traced."""
        return self._world.events

    def run(self, steps: int | None = None) -> None:
        """Runs `steps` events; by default as many as the scenario has. Raises Violation."""
        for _ in range(self.scenario.steps if steps is None else steps):
            self._step()
        clocks_ms = [node.clock_ms() for node in self.nodes.values()]
        self.tally["ms between the clocks"] += max(clocks_ms) - min(clocks_ms)

    def settle(self) -> None:
        """Ends all faults and changes; everything must come to rest. Raises Violation."""
        world = self._world
        self._trouble.end()
        self.client.quiet = True
        for operator in self.operators.values():
            operator.quiet = True
        self._until(self._is_settled, "everything comes to rest without faults")
        left: list[tuple[Operation, Outcome]] = []
        wanted = self.client.final(lambda operation, outcome: left.append((operation, outcome)))
        self._until(lambda: len(left) == wanted, "final operations end")
        for operation, outcome in left:
            require(
                outcome.type is Type.OK,
                "a group makes progress after its last fault",
                operation=operation,
                outcome=outcome,
            )
        self._until(self._is_at_rest, "everything comes to rest without faults")
        self._compare()
        if self.control is not None:
            self._writes_nothing(self.control)
        if self.scenario.transactions:
            self.transactions.settled()
        for group, rules in self.rules.items():
            ledger = rules.ledger
            world.tally["commits"] += ledger.lineages[ledger.newest].chosen_to
            world.tally["resets"] += rules.raft.resets
            world.tally["reconfigurations"] += len(rules.reconfiguration.tokens - {1})
            require(
                self.operators[group].wish.token in rules.reconfiguration.tokens,
                "each change is announced",
                group=group,
                token=self.operators[group].wish.token,
            )

    def _writes_nothing(self, control: ControlPlane) -> None:
        """Checks that a settled zone writes nothing, once pending views and messages are
        processed."""
        self._pass(_VIEWS_MS)
        before = control.writes
        self._pass(_SILENCE_MS)
        require(
            control.writes == before,
            "a settled zone writes nothing",
            writes=control.writes - before,
        )

    def _pass(self, for_ms: int) -> None:
        end_us = self._world.now_us + for_ms * 1000
        while self._world.now_us < end_us:
            self._step()

    def histories(self) -> dict[str, list[HistoryEvent]]:
        """Returns the clients' history as each lineage must explain it, by names for `judged`."""
        ledgers = [rules.ledger for rules in self.rules.values()]
        numbers = sorted({number for ledger in ledgers for number in ledger.lineages})
        if len(numbers) == 1:
            return {f"seed-{self.seed}": self.client.history}

        def has(lineage: int, partition: int, index: int, term: int) -> bool:
            known = ledgers[partition].lineages
            return known[max(number for number in known if number <= lineage)].has(index, term)

        return {
            f"seed-{self.seed}-lineage-{number}": list(
                seen_from(number, self.client.history, partial(has, number))
            )
            for number in numbers
        }

    def judge(self) -> None:
        """Judges the clients' history. Raises Violation."""
        for violation in judged(self.histories(), self._folder).values():
            raise violation
        if self.scenario.transactions:
            ledgers = [rules.ledger for rules in self.rules.values()]
            lists: dict[str, tuple[int, ...]] = {}
            for ledger in ledgers:
                lists |= ledger.lineages[ledger.newest].model.lists
            serializability.judge(self.client.told, lists)

    def _step(self) -> None:
        self._guarded(self._world.step)

    def _guarded(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Violation:
            raise
        except Exception as error:
            raise Violation(
                "the code under test does not fail", error=f"{type(error).__name__}: {error}"
            ) from error

    def _died(self, node: SimulatedNode) -> None:
        self._trouble.node_died(node)

    def _until(self, done: Callable[[], bool], rule: str) -> None:
        end_us = self._world.now_us + self.scenario.settle_ms * 1000
        while not done():
            if self._world.now_us > end_us:
                raise Violation(rule, **self._state())
            for _ in range(10):
                self._step()
        if self.control is not None:
            self._guarded(self.control.check)

    def _state(self) -> dict[str, object]:
        return {
            group: (
                operator.wish,
                [
                    node.replicas[group].core_now().status()
                    for node in self.nodes.values()
                    if group in node.replicas
                ],
            )
            for group, operator in self.operators.items()
        }

    def _is_settled(self) -> bool:
        if self.client.under_way and not self.client.quiet:
            return False
        if self.scenario.transactions and (self.client.under_way or self._transactions_run()):
            return False
        for group, operator in self.operators.items():
            found = operator.leader()
            if found is None or not operator.is_settled(found[1]):
                return False
            status = found[1]
            for peer in operator.wish.wanted:
                replica = self.nodes[peer.node].replicas.get(group)
                if replica is None or not (
                    replica.partition.index == status.commit == status.last_index
                ):
                    return False
        return True

    def _transactions_run(self) -> bool:
        """Returns whether a replica that is to stay has a part in an unfinished transaction."""
        wanted = [
            self.nodes[peer.node].replicas.get(group)
            for group, operator in self.operators.items()
            for peer in operator.wish.wanted
        ]
        tables = [replica.partition.transactions for replica in wanted if replica is not None]
        return any(table.prepared or table.decisions for table in tables)

    def _is_at_rest(self) -> bool:
        """Returns whether all is settled, and no write is on its way to a disk, so that replicas
        can be compared.
        """
        return self._is_settled() and not any(
            replica.flushing for node in self.nodes.values() for replica in node.replicas.values()
        )

    def _compare(self) -> None:
        """Checks that replicas of one group have the same state at one moment."""
        for group, operator in self.operators.items():
            found = {
                peer.node: self._content(self.nodes[peer.node], group)
                for peer in operator.wish.wanted
            }
            require(
                len(set(found.values())) == 1, "all replicas are equal", group=group, digests=found
            )
            counters = {
                peer.node: self.nodes[peer.node].replicas[group].partition.counter
                for peer in operator.wish.wanted
            }
            require(
                all(counter.is_sequential for counter in counters.values())
                and len({counter.lwm for counter in counters.values()}) == 1,
                "when all transactions have ended all counters are equal and without gaps",
                group=group,
                counters={node: (c.lwm, c.hwm, c.ranges) for node, c in counters.items()},
            )

    def _content(self, node: SimulatedNode, group: str) -> str:
        replica: Replica = node.replicas[group]
        cells = replica.cells
        if isinstance(cells, MemoryCells):
            return digest(cells_of(cells.view(replica.partition).pairs()))
        assert isinstance(cells, Overlay), "cells are in memory or before a disk"
        node.disk.data.flush([cells.begin_flush(replica.partition)])
        cells.end_flush()
        view = node.disk.data.view(cells.number)
        try:
            return digest(cells_of(view.pairs()))
        finally:
            view.close()

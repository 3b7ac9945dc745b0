"""Carries out a plan's faults, and ends them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from random import Random

from zonequake_simulation import cut_links, disk_trouble
from zonequake_simulation.api_server import API
from zonequake_simulation.checks.model import TransactionMoment
from zonequake_simulation.checks.transactions import TransactionRules
from zonequake_simulation.cut_links import Link
from zonequake_simulation.disk_trouble import DiskTrouble
from zonequake_simulation.losses import Losses
from zonequake_simulation.member import SimulatedNode
from zonequake_simulation.network import CALM, Network
from zonequake_simulation.operated import control_trouble
from zonequake_simulation.operated.control_plane import ControlPlane
from zonequake_simulation.operated.control_trouble import ControlTrouble
from zonequake_simulation.operated.group import OperatedGroup
from zonequake_simulation.plan import Fault, FaultAim, FaultPlan
from zonequake_simulation.scenario import FaultKind, Scenario
from zonequake_simulation.small_operator import GroupOperator
from zonequake_simulation.trace import TraceKind
from zonequake_simulation.world import World
from zonequake_store.raft.api import RaftRole
from zonequake_store.raft.messages import Peer
from zonequake_store.replica.replica import Replica
from zonequake_store.state.transactions import TransactionId

_RESTART_MS = 50
_AGAIN_US = 100_000
"""Time after which a required fault that was impossible is tried again."""


class Trouble:
    """The faults of a run."""

    def __init__(
        self,
        plan: FaultPlan,
        *,
        world: World,
        network: Network,
        scenario: Scenario,
        nodes: dict[str, SimulatedNode],
        operators: Mapping[str, GroupOperator | OperatedGroup],
        transactions: TransactionRules,
        client: str,
        control: ControlPlane | None,
    ) -> None:
        self._world = world
        self._network = network
        self._scenario = scenario
        self._nodes = nodes
        self._operators = operators
        self._transactions = transactions
        self._client = client
        self._fair = network.weather
        self._over = False
        self._undo: dict[int, Callable[[], None]] = {}
        self._undone = 0
        self._control = control
        self._control_trouble = (
            None if control is None else ControlTrouble(control, world, self._for_a_while)
        )
        self._losses = Losses(
            nodes=nodes, operators=operators, control=control, is_volatile=scenario.is_volatile
        )
        self._disk_trouble = DiskTrouble(
            world=world,
            losses=self._losses,
            for_a_while=self._for_a_while,
            crash=self._crash_in_time,
            start_later=self._start_later,
        )
        for fault in plan.faults:
            world.later(fault.at_ms * 1000, partial(self._strike, fault))

    def end(self) -> None:
        """Ends all faults, and undoes their effects."""
        self._over = True
        for undo in list(self._undo.values()):
            undo()
        self._undo.clear()
        self._network.weather = CALM
        self._transactions.watch = None
        for operator in self._operators.values():
            operator.after_grant = None
        if self._control_trouble is not None:
            self._control_trouble.end()
        for node in self._nodes.values():
            node.frame_left = None
            node.flushing.compact_to = None
            node.standstill.end()
            self._start(node)

    def node_died(self, node: SimulatedNode) -> None:
        """Starts a process again some time after it ended by itself."""
        if self._control is not None:
            self._control.pods.died(node)
        self._world.later(500_000, lambda: self._start(node))

    # ── faults ───────────────────────────────────────────────────────────────────────────────

    def _strike(self, fault: Fault) -> None:
        if self._over:
            return
        world = self._world
        node = self._target(fault)
        if world.tracing:
            world.note(TraceKind.FAULT, node.name, f"{fault.kind.value} for {fault.for_ms} ms")
        world.tally[f"fault {fault.kind.value}"] += 1
        if fault.kind in control_trouble.KINDS and self._control_trouble is not None:
            self._control_trouble.strike(fault)
            return
        if fault.kind in disk_trouble.KINDS:
            self._disk_trouble.strike(node, fault)
            return
        match fault.kind:
            case FaultKind.CRASH:
                self._crash(node, fault)
            case FaultKind.POD_DELETED:
                self._delete_pod(node, fault)
            case FaultKind.STALL:
                node.standstill.begin(fault.for_ms * 1000)
            case FaultKind.ISOLATE | FaultKind.DEAF | FaultKind.MUTE:
                self._cut_off(node, fault)
            case FaultKind.SPLIT | FaultKind.LEAK:
                self._cut(cut_links.between_halves(self._nodes, fault.choice, fault.kind), fault)
            case FaultKind.STORM:
                self._storm(fault)
            case FaultKind.COMPACT:
                node.flushing.compact_to = fault.amount
                if node.alive:
                    node.flushing.flush()
            case FaultKind.REFUSE:
                self._refuse(node, fault)
            case FaultKind.TRANSFER:
                self._transfer(node)
            case FaultKind.UNREACHABLE:
                self._unreachable(node, fault)
            case FaultKind.WISH:
                operators = list(self._operators.values())
                if operators[fault.choice % len(operators)].wish_for(fault.choice):
                    world.bites(fault.kind)
            case FaultKind.STRIKE:
                self._arm(fault)
            case FaultKind.DECISION:
                self._lie_in_wait(fault)
            case FaultKind.BLACKOUT:
                self._black_out(fault)
            case FaultKind.MASSACRE:
                for each in self._majority(fault):
                    self._crash(each, self._long(fault))
            case FaultKind.API_OUTAGE:
                self._cut(((name, API) for name in self._nodes), fault)
            case FaultKind.LAG:
                self._lag(node, fault)
            case FaultKind.BREAK_OFF:
                self._break_off(fault)
            case FaultKind.STANDSTILL:
                self._stand_still(fault)

    def _target(self, fault: Fault) -> SimulatedNode:
        if fault.target is FaultAim.LEADER:
            operators = list(self._operators.values())
            found = operators[fault.choice % len(operators)].leader()
            if found is not None:
                return found[0]
        names = list(self._nodes)
        return self._nodes[names[fault.choice % len(names)]]

    def _for_a_while(self, fault: Fault, undo: Callable[[], None]) -> None:
        self._undone += 1
        number = self._undone
        self._undo[number] = undo

        def over() -> None:
            undo = self._undo.pop(number, None)
            if undo is not None:
                undo()

        self._world.later(fault.for_ms * 1000, over)

    def _crash(self, node: SimulatedNode, fault: Fault) -> None:
        if not node.alive or not self._losses.may_end(node):
            return
        node.crash()
        self._world.bites(fault.kind)
        self._start_later(node, fault)

    def _crash_in_time(self, node: SimulatedNode, fault: Fault) -> None:
        """Crashes the node, unless the run is over by then."""
        if not self._over:
            self._crash(node, fault)

    def _delete_pod(self, node: SimulatedNode, fault: Fault) -> None:
        """Deletes a pod's object; its process ends some time later, once its group does not depend
        on it. If the process lives to the end of the run, the object is restored.
        """
        control = self._control
        if control is None or not node.alive or not self._losses.may_end(node):
            return
        if not control.pods.delete(node):
            return
        self._world.bites(fault.kind)
        process = node.process

        def end() -> None:
            if node.process != process or not node.alive:
                return
            self._crash(node, replace(fault, for_ms=fault.for_ms // 4))
            if node.alive and self._over:
                control.pods.restore(node)
            elif node.alive:  # not now: a newcomer still uses old configurations
                self._world.later(_AGAIN_US, end)

        self._for_a_while(replace(fault, for_ms=fault.for_ms // 3), end)

    def _lag(self, node: SimulatedNode, fault: Fault) -> None:
        if not node.alive:
            return
        down_ms = 1_000 + fault.for_ms // 2
        self._crash(node, replace(fault, for_ms=down_ms))
        others = [other for other in self._nodes.values() if other is not node]

        def cut_off() -> None:
            for other in () if self._over else others:
                other.flushing.compact_to = 1.0
                if other.alive:
                    other.flushing.flush()

        self._world.later(down_ms * 1000, cut_off)
        if fault.choice & 16:  # and again while it catches up
            self._world.later((down_ms + 700) * 1000, cut_off)

    def _break_off(self, fault: Fault) -> None:
        """Crashes the sender or the receiver of the frame as it leaves, or a little later."""
        left = 1 + (fault.choice >> 4) % 16
        delay_us = (0, 0, 3_000, 30_000)[fault.choice >> 10 & 3]

        def frame_left(sender: SimulatedNode, to: SimulatedNode) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                victim = sender if fault.choice & 1 else to
                briefly = replace(fault, for_ms=fault.for_ms // 4)
                self._world.later(delay_us, lambda: self._crash_in_time(victim, briefly))

        for node in self._nodes.values():
            node.frame_left = frame_left

    def _stand_still(self, fault: Fault) -> None:
        order = sorted(self._nodes)
        draw = Random(fault.choice)  # noqa: S311
        draw.shuffle(order)
        apart_ms = int(300 * fault.amount)
        dead_ms = apart_ms * len(order) + fault.for_ms // 4
        for place, name in enumerate(order):
            longer = replace(fault, for_ms=dead_ms + draw.randrange(600))
            stop = partial(self._crash_in_time, self._nodes[name], longer)
            self._world.later(place * apart_ms * 1000, stop)

    def _start_later(self, node: SimulatedNode, fault: Fault) -> None:
        self._world.later((fault.for_ms + _RESTART_MS) * 1000, lambda: self._start(node))

    def _start(self, node: SimulatedNode) -> None:
        if not node.alive:
            node.start()
            for operator in self._operators.values():
                operator.node_started(node)

    def _cut(self, cut: Iterable[Link], fault: Fault) -> None:
        found = list(cut)
        self._network.cut(found, fault.kind)
        if self._world.tracing:
            text = ", ".join(f"{a}↛{b}" for a, b in found)
            self._world.note(TraceKind.CUT, "", text)
        self._for_a_while(fault, lambda: self._mend(found, fault.kind))

    def _mend(self, cut: list[Link], why: FaultKind) -> None:
        self._network.mend(cut, why)
        if self._world.tracing:
            text = ", ".join(f"{a}→{b}" for a, b in cut)
            self._world.note(TraceKind.HEAL, "", text)

    def _cut_off(self, node: SimulatedNode, fault: Fault) -> None:
        others = [name for name in (*self._nodes, API) if name != node.name]
        if fault.choice & 1024:
            others.append(self._client)
        self._cut(cut_links.around(node.name, others, fault.kind), fault)

    def _majority(self, fault: Fault) -> list[SimulatedNode]:
        """Returns a majority of the peers that a group wants, as `choice` says."""
        operators = list(self._operators.values())
        wanted = [peer.node for peer in operators[fault.choice % len(operators)].wish.wanted]
        turn = fault.choice >> 8
        count = len(wanted) // 2 + 1
        return [self._nodes[wanted[(turn + place) % len(wanted)]] for place in range(count)]

    def _long(self, fault: Fault) -> Fault:
        """Returns the fault, long enough for Leases to expire, and for a reset."""
        more_ms = 3_500 if self._scenario.is_highly_available else 0
        return replace(fault, for_ms=fault.for_ms + 2 * self._scenario.lease_ms + more_ms)

    def _black_out(self, fault: Fault) -> None:
        inside = {node.name for node in self._majority(fault)}
        outside = [name for name in (*self._nodes, API) if name not in inside]
        if fault.choice & 4096:
            outside.append(self._client)
        self._cut(cut_links.between(inside, outside), self._long(fault))

    def _storm(self, fault: Fault) -> None:
        self._network.weather = replace(
            self._fair,
            lost=0.1 + 0.4 * fault.amount,
            doubled=0.2,
            slowest_us=50_000 + int(450_000 * fault.amount),
            is_storm=True,
        )

        def clear() -> None:
            self._network.weather = self._fair

        self._for_a_while(fault, clear)

    def _refuse(self, node: SimulatedNode, fault: Fault) -> None:
        self._set_refusing(node, True)
        self._for_a_while(fault, lambda: self._set_refusing(node, False))

    def _set_refusing(self, node: SimulatedNode, refuses: bool) -> None:
        node.refuses = refuses
        for group in self._operators:
            node.act(group, lambda replica: self._let_refuse(replica, refuses))

    def _let_refuse(self, replica: Replica, refuses: bool) -> None:
        if refuses and replica.core_now().status().role is not RaftRole.FOLLOWER:
            self._world.bites(FaultKind.REFUSE)
        replica.core_now().refuse_leadership(refuses)

    def _transfer(self, node: SimulatedNode) -> None:
        for group in self._operators:
            node.act(group, self._transfer_group)

    def _transfer_group(self, replica: Replica) -> None:
        if replica.core_now().transfer_leadership():
            self._world.bites(FaultKind.TRANSFER)

    def _unreachable(self, node: SimulatedNode, fault: Fault) -> None:
        names = list(self._nodes)
        other = self._nodes[names[(fault.choice >> 8) % len(names)]]
        for group in self._operators:
            replica = other.replicas.get(group)
            if replica is not None:
                node.act(group, partial(self._report_unreachable, replica.me))

    def _report_unreachable(self, peer: Peer, replica: Replica) -> None:
        if replica.core_now().status().role is RaftRole.LEADER:
            self._world.bites(FaultKind.UNREACHABLE)
        replica.core_now().report_unreachable(peer)

    def _arm(self, fault: Fault) -> None:
        """Requests a change, and makes the leader die, or lose its connections, shortly after the
        next grant."""
        operators = list(self._operators.values())
        operator = operators[fault.choice % len(operators)]
        operator.wish_for(fault.choice)
        delay_us = (0, 0, 20_000, 60_000)[fault.choice >> 4 & 3]

        def strike(node: SimulatedNode) -> None:
            def now() -> None:
                if self._over:
                    return
                self._world.bites(FaultKind.STRIKE)
                if fault.choice & 1:
                    self._cut_off(node, fault)
                else:
                    self._crash(node, fault)

            self._world.later(delay_us, now)

        operator.after_grant = strike
        operator.wish_for(fault.choice)  # so that there is one to grant

    def _lie_in_wait(self, fault: Fault) -> None:
        """Hits the leader of one of a transaction's groups at the next such moment."""
        wanted = (
            TransactionMoment.PREPARED,
            TransactionMoment.PREPARED,
            TransactionMoment.DECIDED,
            TransactionMoment.COMMITTED,
        )
        moment = wanted[fault.choice >> 4 & 3]
        delay_us = (0, 1_000, 5_000, 30_000)[fault.choice >> 6 & 3]
        groups = list(self._operators)
        other = groups[(fault.choice >> 8) % len(groups)]

        def watch(reached: TransactionMoment, transaction: TransactionId) -> None:
            if reached is moment:
                self._transactions.watch = None
                group = transaction.group if fault.choice & 4 else other
                self._world.later(delay_us, lambda: now(group))

        def now(group: str) -> None:
            found = self._operators[group].leader()
            if self._over or found is None:
                return
            self._world.bites(FaultKind.DECISION)
            match fault.choice & 3:
                case 0:
                    self._cut_off(found[0], fault)
                case 1:
                    self._transfer(found[0])
                case _:
                    self._crash(found[0], fault)

        self._transactions.watch = watch

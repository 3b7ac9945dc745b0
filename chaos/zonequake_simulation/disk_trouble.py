"""The faults of a node's disk."""

from __future__ import annotations

from collections.abc import Callable

from zonequake_simulation.losses import Losses
from zonequake_simulation.member import SimulatedNode
from zonequake_simulation.plan import Fault
from zonequake_simulation.scenario import FaultKind
from zonequake_simulation.trace import TraceKind
from zonequake_simulation.world import World

KINDS = frozenset(
    {
        FaultKind.CRASH_WRITING,
        FaultKind.SLOW_DISK,
        FaultKind.FAILED_SYNC,
        FaultKind.FULL_DISK,
        FaultKind.FULL_MAP,
        FaultKind.ROT,
        FaultKind.TORN_TAIL,
        FaultKind.WIPE,
    }
)


class DiskTrouble:
    """Carries out faults of `KINDS`. `crash` and `start_later` end and begin a node's process."""

    def __init__(
        self,
        *,
        world: World,
        losses: Losses,
        for_a_while: Callable[[Fault, Callable[[], None]], None],
        crash: Callable[[SimulatedNode, Fault], None],
        start_later: Callable[[SimulatedNode, Fault], None],
    ) -> None:
        self._world = world
        self._losses = losses
        self._for_a_while = for_a_while
        self._crash = crash
        self._start_later = start_later

    def strike(self, node: SimulatedNode, fault: Fault) -> None:
        """Carries out a fault."""
        match fault.kind:
            case FaultKind.CRASH_WRITING:
                self._crash_writing(node, fault)
            case FaultKind.SLOW_DISK:
                self._slow_down(node, fault)
            case FaultKind.FAILED_SYNC | FaultKind.FULL_DISK | FaultKind.FULL_MAP:
                self._refuse_writes(node, fault)
            case FaultKind.ROT:
                self._damage(node, fault, node.disk.flip_bit)
            case FaultKind.TORN_TAIL:
                self._damage(node, fault, node.disk.tear_tail)
            case FaultKind.WIPE:
                self._wipe(node, fault)
            case _:
                raise AssertionError(f"{fault.kind} is none of these")

    def _crash_writing(self, node: SimulatedNode, fault: Fault) -> None:
        written = "data" if fault.choice & 2048 else "log"
        node.disk.armed = written, lambda: self._crash(node, fault)
        self._for_a_while(fault, node.disk.disarm)

    def _slow_down(self, node: SimulatedNode, fault: Fault) -> None:
        slow_us = int(fault.amount * 800_000)
        node.disk.slow_us += slow_us

        def quick() -> None:
            node.disk.slow_us -= slow_us

        self._for_a_while(fault, quick)

    def _refuse_writes(self, node: SimulatedNode, fault: Fault) -> None:
        fails = fault.kind is FaultKind.FAILED_SYNC
        if fails and not (node.alive and self._losses.may_lose(node)):
            return
        node.disk.trouble = fault.kind
        # Checked again: a survivor may have been chosen meanwhile.
        node.disk.may_fail = lambda: self._losses.may_lose(node)
        node.disk.full_map = "data" if fault.choice & 2048 else "log"

        def sound() -> None:
            node.disk.trouble = None

        self._for_a_while(fault, sound)

    def _damage(self, node: SimulatedNode, fault: Fault, damage: Callable[[], bool]) -> None:
        if not node.alive or not self._losses.may_lose(node):
            return
        node.crash()
        if damage():
            node.home.damage = fault.kind
            node.home.forget()
        self._start_later(node, fault)

    def _wipe(self, node: SimulatedNode, fault: Fault) -> None:
        if not self._losses.may_lose(node):
            return
        if node.alive:
            node.crash()
        node.disk.wipe()
        self._world.bites(fault.kind)
        node.home.forget()
        self._world.note(TraceKind.WIPE, node.name)
        self._start_later(node, fault)

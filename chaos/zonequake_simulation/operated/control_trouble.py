"""The faults between operators, API server and pods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from zonequake_simulation.operated.control_plane import ControlPlane
from zonequake_simulation.operated.edges import ApiWeather
from zonequake_simulation.operated.process import OperatorProcess
from zonequake_simulation.plan import Fault
from zonequake_simulation.scenario import FaultKind
from zonequake_simulation.world import World

KINDS = frozenset(
    {
        FaultKind.OPERATOR_CRASH,
        FaultKind.OPERATOR_CRASH_WRITING,
        FaultKind.OPERATOR_PAUSE,
        FaultKind.API_OUT,
        FaultKind.API_ERRORS,
        FaultKind.API_STALE,
    }
)


class ControlTrouble:
    """Carries out faults of `KINDS`, and ends them."""

    def __init__(
        self,
        control: ControlPlane,
        world: World,
        for_a_while: Callable[[Fault, Callable[[], None]], None],
    ) -> None:
        self._control = control
        self._world = world
        self._for_a_while = for_a_while
        self._over = False

    def end(self) -> None:
        """Ends all faults: one operator runs without faults, and the API server answers."""
        self._over = True
        operators = self._control.operators
        if not operators:
            self._control.start_operator()
        for operator in operators:
            operator.calm()
        self._control.come_to_rest()

    def strike(self, fault: Fault) -> None:
        """Carries out a fault."""
        operators = self._control.operators
        if not operators:
            return
        operator = operators[fault.choice % len(operators)]
        match fault.kind:
            case FaultKind.OPERATOR_CRASH:
                self._crash(operator, fault)
            case FaultKind.OPERATOR_CRASH_WRITING:
                self._crash_writing(operator, fault)
            case FaultKind.OPERATOR_PAUSE:
                self._pause(operator, fault)
            case FaultKind.API_OUT:
                self._change_weather(operator, fault, is_out=True)
            case FaultKind.API_ERRORS:
                self._change_weather(operator, fault, errors=0.1 + fault.amount / 2)
            case FaultKind.API_STALE:
                self._change_weather(operator, fault, stale_us=int(3e6 * fault.amount))
            case _:
                raise AssertionError(f"{fault.kind} is none of these")

    def _crash(self, operator: OperatorProcess, fault: Fault) -> None:
        if operator not in self._control.operators:
            return
        self._control.kill_operator(operator)
        self._world.bites(fault.kind)
        self._world.later(fault.for_ms * 500 + 50_000, self._start)

    def _start(self) -> None:
        if not self._control.operators:
            self._control.start_operator()

    def _crash_writing(self, operator: OperatorProcess, fault: Fault) -> None:
        """Crashes the operator in the middle of one of its next writes: before it is stored, or
        after.
        """
        left = fault.choice >> 8 & 7
        is_behind = bool(fault.choice & 64)

        def armed(behind: bool) -> None:
            nonlocal left
            if behind is not is_behind:
                return
            left -= 1
            if left < 0:
                operator.kube.armed = None
                # After the write was stored, or before the API server looks at this call.
                self._crash(operator, fault)

        operator.kube.armed = armed

    def _pause(self, operator: OperatorProcess, fault: Fault) -> None:
        """Pauses the operator; another one may take over, and both run for a while afterwards."""
        operator.pause()
        self._world.bites(fault.kind)
        second: list[OperatorProcess] = []

        def take_over() -> None:
            if not self._over and fault.choice & 16 and operator in self._control.operators:
                second.append(self._control.start_operator())

        def go_on() -> None:
            operator.resume()
            self._world.later(2_000_000, one_leaves)

        def one_leaves() -> None:
            if second and second[0] in self._control.operators and len(self._control.operators) > 1:
                leaves = operator if fault.choice & 32 else second[0]
                if leaves in self._control.operators:
                    self._control.kill_operator(leaves)

        self._world.later(fault.for_ms * 300, take_over)
        self._for_a_while(fault, go_on)

    def _change_weather(
        self,
        operator: OperatorProcess,
        fault: Fault,
        *,
        is_out: bool = False,
        errors: float = 0.0,
        stale_us: int = 0,
    ) -> None:
        kube = operator.kube
        kube.weather = replace(kube.weather, is_out=is_out, errors=errors, stale_us=stale_us)
        self._world.bites(fault.kind)

        def clear() -> None:
            kube.weather = ApiWeather()

        self._for_a_while(fault, clear)

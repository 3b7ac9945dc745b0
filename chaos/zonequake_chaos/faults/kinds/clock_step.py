"""Steps the wall clock of the victims' processes only (`zonequake_agent.wall_clock`).

The monotonic clock, the node's clock and those of other pods are unchanged. A restarted process
has the machine's clock again.
"""

from __future__ import annotations

from datetime import UTC, datetime

from zonequake_agent.wall_clock import ClockOffset
from zonequake_chaos.errors import FaultFailed, NoProcess
from zonequake_chaos.faults.life import Injection, Proof, Victim
from zonequake_chaos.faults.watching import until_answering
from zonequake_chaos.node_access.shell import asked, asked_if_there, shell_of
from zonequake_chaos.record.cleanup_journal import RestoreClock
from zonequake_kube.objects import http_probe

_TOLERANCE_S = 3.0
"""Tolerance: a header's date is in whole seconds, cached for one, and some time on its way."""


class ClockStep:
    """Life of `ClockStepSpec`. Effective once the dates in each victim's HTTP answers show the
    step.
    """

    def __init__(self, *, step_s: int) -> None:
        self._step_s = step_s

    async def prepare(self, injection: Injection) -> None:
        if abs(self._step_s) <= _TOLERANCE_S:
            raise FaultFailed(
                f"{injection.name}: a step of {self._step_s} s is too small to be measured; "
                f"stepSeconds must be more than {_TOLERANCE_S:g}, or less than -{_TOLERANCE_S:g}"
            )
        for victim in injection.victims:
            injection.owe(RestoreClock(pod=victim.node, uid=victim.pod_uid, host=victim.host))

    async def inject(self, injection: Injection) -> None:
        shell = shell_of(injection.world.shell)
        for victim in injection.victims:
            words = (victim.pod_uid, str(self._step_s))
            await asked(shell, victim.on_node, list[ClockOffset], "step-clock", *words)

    async def wait_until_effective(self, injection: Injection) -> Proof:
        off: dict[str, float] = {}

        async def all_off() -> bool:
            for victim in injection.victims:
                off[victim.node] = await _off_s(injection, victim)
            return all(abs(found - self._step_s) <= _TOLERANCE_S for found in off.values())

        await injection.until(all_off, waiting_for=lambda: f"clocks are off by seconds: {off}")
        return {"off_seconds": off, "monotonic": "unchanged"}

    async def recover(self, injection: Injection) -> None:
        shell = shell_of(injection.world.shell)
        for victim in injection.victims:
            try:
                clocks = await asked(
                    shell, victim.on_node, list[ClockOffset], "clock", victim.pod_uid
                )
            except NoProcess:
                injection.ended_early = f"all processes of {victim.node} were replaced"
                continue
            # Children have their parent's clock; those of a new process have the machine's.
            if any(each.step_s != self._step_s for each in clocks):
                injection.ended_early = f"{victim.node} had a process with the machine's clock"
            elif abs(await _off_s(injection, victim) - self._step_s) > _TOLERANCE_S:
                injection.ended_early = f"{victim.node} reported the machine's time again"
        await self._restore(injection)

    async def wait_until_recovered(self, injection: Injection) -> None:
        await until_answering(injection)

        async def all_right() -> bool:
            return all([abs(await _off_s(injection, v)) <= _TOLERANCE_S for v in injection.victims])

        await injection.until(all_right, waiting_for=lambda: "a clock is still off")

    async def clean_up(self, injection: Injection) -> None:
        await self._restore(injection)
        injection.pay()

    async def _restore(self, injection: Injection) -> None:
        shell = shell_of(injection.world.shell)
        for victim in injection.victims:
            words = (victim.pod_uid, "0")
            await asked_if_there(shell, victim.on_node, "step-clock", *words)


async def _off_s(injection: Injection, victim: Victim) -> float:
    """Returns the offset in seconds of the victim's HTTP Date header from this machine's clock."""
    kube = injection.world.kube
    probe = http_probe(await kube.get("Pod", victim.node))
    if probe is None:
        raise FaultFailed(
            f"{injection.name}: pod {victim.node} has no HTTP probe, so its clock can't be read"
        )
    said = await kube.pod_date(victim.node, probe.port, probe.path, scheme=probe.scheme)
    return round((said - datetime.now(UTC)).total_seconds(), 1)

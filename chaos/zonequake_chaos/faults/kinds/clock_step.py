"""Steps the wall clock of the victims' processes, and no other's (`zonequake_agent.wall_clock`).

The monotonic clock, the node and all other pods keep theirs. A restarted process has the
machine's clock again.
"""

from __future__ import annotations

from datetime import UTC, datetime

from zonequake_agent.wall_clock import Stepped
from zonequake_chaos.faults.life import Injury, Proof, Victim
from zonequake_chaos.faults.watching import until_answering
from zonequake_chaos.node_access.shell import asked, asked_if_there, hands_of
from zonequake_chaos.record.cleanup_journal import RestoreClock
from zonequake_kube.errors import FaultFailed, NoProcess
from zonequake_kube.objects import http_probe

_TOLERANCE_S = 3.0
"""A header's date is in whole seconds, kept for one, and some time on its way."""


class ClockStep:
    """As in `scenario.faults`. Effective once each victim's HTTP server dates its answers so."""

    def __init__(self, *, step_s: int) -> None:
        self._step_s = step_s
        self._stepped: dict[str, set[int]] = {}

    async def prepare(self, injury: Injury) -> None:
        if abs(self._step_s) <= _TOLERANCE_S:
            raise FaultFailed(
                f"{injury.name}: a step of {self._step_s} s couldn't be told from none; "
                f"stepSeconds must be more than {_TOLERANCE_S:g}, or less than -{_TOLERANCE_S:g}"
            )
        for victim in injury.victims:
            injury.owe(RestoreClock(pod=victim.node, uid=victim.pod_uid, host=victim.host))

    async def inject(self, injury: Injury) -> None:
        hands = hands_of(injury.world.hands)
        for victim in injury.victims:
            words = (victim.pod_uid, str(self._step_s))
            found = await asked(hands, victim.on_node, list[Stepped], "step-clock", *words)
            self._stepped[victim.node] = {each.pid for each in found}

    async def wait_until_effective(self, injury: Injury) -> Proof:
        off: dict[str, float] = {}

        async def all_off() -> bool:
            for victim in injury.victims:
                off[victim.node] = await _off_s(injury, victim)
            return all(abs(found - self._step_s) <= _TOLERANCE_S for found in off.values())

        await injury.until(all_off, waiting_for=lambda: f"clocks are off by seconds: {off}")
        return {"off_seconds": off, "monotonic": "unchanged"}

    async def recover(self, injury: Injury) -> None:
        hands = hands_of(injury.world.hands)
        for victim in injury.victims:
            try:
                clocks = await asked(hands, victim.on_node, list[Stepped], "clock", victim.pod_uid)
            except NoProcess:
                injury.ended_early = f"{victim.node} has no process of before any more"
                continue
            off = {each.pid for each in clocks if each.step_s == self._step_s}
            if off != self._stepped[victim.node]:
                injury.ended_early = f"{victim.node} had a process with the machine's clock"
            elif abs(await _off_s(injury, victim) - self._step_s) > _TOLERANCE_S:
                injury.ended_early = f"{victim.node} told the machine's time again"
        await self._restore(injury)

    async def wait_until_recovered(self, injury: Injury) -> None:
        await until_answering(injury)

        async def all_right() -> bool:
            return all([abs(await _off_s(injury, v)) <= _TOLERANCE_S for v in injury.victims])

        await injury.until(all_right, waiting_for=lambda: "a clock is still off")

    async def clean_up(self, injury: Injury) -> None:
        await self._restore(injury)
        injury.pay()

    async def _restore(self, injury: Injury) -> None:
        hands = hands_of(injury.world.hands)
        for victim in injury.victims:
            words = (victim.pod_uid, "0")
            await asked_if_there(hands, victim.on_node, "step-clock", *words)


async def _off_s(injury: Injury, victim: Victim) -> float:
    """By how much the victim's HTTP server dates its answers otherwise than this machine would."""
    kube = injury.world.kube
    probe = http_probe(await kube.get("Pod", victim.node))
    if probe is None:
        raise FaultFailed(
            f"{injury.name}: pod {victim.node} has no HTTP probe, so nothing tells its clock"
        )
    said = await kube.pod_date(victim.node, probe.port, probe.path, scheme=probe.scheme)
    return round((said - datetime.now(UTC)).total_seconds(), 1)

"""Changes system calls of the victims: their syncs fail, or their syncs or writes take longer.

The node's agent answers or delays these calls (`zonequake_agent.disk.tampering`). Only processes
that run now are affected. A victim that ends because its syncs fail restarts on a sound disk. That
is the hardest case: the next sync would succeed and not report what was lost.
"""

from __future__ import annotations

from dataclasses import dataclass

from zonequake_agent.disk.tampering import TamperedCalls
from zonequake_chaos.faults.life import Injection, Proof, Victim
from zonequake_chaos.faults.watching import until_answering
from zonequake_chaos.node_access.shell import asked, shell_of
from zonequake_chaos.record.cleanup_journal import LetSyncsPass, QuickenDisk
from zonequake_chaos.scenario.faults import HELD_AT_MOST_S, SlowDiskSpec

_BOUND_S = 30.0
"""Time beyond the fault's own limits after which calls pass again, even if the harness has died."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verbs:
    """The agent's verbs for one kind of change, and what it is called in texts."""

    begin: str
    look: str
    end: str
    changed: str


_FAILING = _Verbs(begin="fail-syncs", look="failing-syncs", end="let-syncs-pass", changed="failed")
_SLOW = _Verbs(begin="slow-disk", look="slowed-disk", end="quicken-disk", changed="delayed")


class _TamperedLife:
    """Life of both faults. Effective once a call of each victim was changed."""

    def __init__(self, verbs: _Verbs, debt: type[LetSyncsPass | QuickenDisk], *words: str) -> None:
        self._verbs = verbs
        self._debt = debt
        self._words = words
        self._hit: dict[str, set[int]] = {}

    async def prepare(self, injection: Injection) -> None:
        for victim in injection.victims:
            injection.owe(self._debt(pod=victim.node, uid=victim.pod_uid, host=victim.host))

    async def inject(self, injection: Injection) -> None:
        lasts_s = HELD_AT_MOST_S if injection.held else injection.hold_s
        at_most_s = lasts_s + injection.timeout_s + _BOUND_S
        for victim in injection.victims:
            words = (f"{at_most_s:g}", *self._words)
            found = await _ask(injection, victim, self._verbs.begin, *words)
            self._hit[victim.node] = set(found.traced)

    async def wait_until_effective(self, injection: Injection) -> Proof:
        changed: dict[str, int] = {}

        async def all_changed() -> bool:
            for victim in injection.victims:
                found = await _ask(injection, victim, self._verbs.look)
                changed[victim.node] = found.changed
            return all(changed.values())

        word = self._verbs.changed
        await injection.until(
            all_changed, waiting_for=lambda: f"calls that were {word} so far: {changed or 'none'}"
        )
        return {word: changed}

    async def recover(self, injection: Injection) -> None:
        for victim in injection.victims:
            found = await _ask(injection, victim, self._verbs.look)
            if self._hit[victim.node] & set(found.running) - set(found.traced):
                word = self._verbs.changed
                injection.ended_early = f"calls of {victim.node} were not {word} any more"
            await _ask(injection, victim, self._verbs.end)

    async def wait_until_recovered(self, injection: Injection) -> None:
        await until_answering(injection)

    async def clean_up(self, injection: Injection) -> None:
        for victim in injection.victims:
            await _ask(injection, victim, self._verbs.end)
        injection.pay()


class FailedFsync(_TamperedLife):
    """Life of `FailedFsyncSpec`."""

    def __init__(self) -> None:
        super().__init__(_FAILING, LetSyncsPass)

    async def wait_until_effective(self, injection: Injection) -> Proof:
        return {**await super().wait_until_effective(injection), "error": "EIO"}


class SlowDisk(_TamperedLife):
    """Life of `SlowDiskSpec`."""

    def __init__(self, spec: SlowDiskSpec) -> None:
        super().__init__(_SLOW, QuickenDisk, f"{spec.delay_ms:g}", spec.calls, *spec.files)


async def _ask(injection: Injection, victim: Victim, verb: str, *words: str) -> TamperedCalls:
    shell = shell_of(injection.world.shell)
    return await asked(shell, victim.on_node, TamperedCalls, verb, victim.pod_uid, *words)

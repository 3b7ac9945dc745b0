"""Makes the victims' fsync, fdatasync and msync fail, as on a disk that loses pages.

The node's agent answers these calls in the kernel's place (`zonequake_agent.failing_syncs`). Only
processes that run now are affected: a victim that ends because of it restarts on a sound disk. That
is the hardest case: the next sync would succeed and not report what was lost.
"""

from __future__ import annotations

from zonequake_agent.failing_syncs import FailingSyncs
from zonequake_chaos.faults.life import Injection, Proof, Victim
from zonequake_chaos.faults.watching import until_answering
from zonequake_chaos.node_access.shell import asked, shell_of
from zonequake_chaos.record.cleanup_journal import LetSyncsPass

_BOUND_S = 30.0
"""Time beyond the fault's own limits after which syncs pass again, even if the harness has died."""


class FailedFsync:
    """Life of `FailedFsyncSpec`. Effective once a call of each victim has failed."""

    def __init__(self) -> None:
        self._hit: dict[str, set[int]] = {}

    async def prepare(self, injection: Injection) -> None:
        for victim in injection.victims:
            injection.owe(LetSyncsPass(pod=victim.node, uid=victim.pod_uid, host=victim.host))

    async def inject(self, injection: Injection) -> None:
        at_most_s = injection.hold_s + injection.timeout_s + _BOUND_S
        for victim in injection.victims:
            found = await _ask(injection, victim, "fail-syncs", f"{at_most_s:g}")
            self._hit[victim.node] = set(found.traced)

    async def wait_until_effective(self, injection: Injection) -> Proof:
        failed: dict[str, int] = {}

        async def all_failed() -> bool:
            for victim in injection.victims:
                found = await _ask(injection, victim, "failing-syncs")
                failed[victim.node] = found.failed
            return all(failed.values())

        await injection.until(
            all_failed, waiting_for=lambda: f"syncs that failed so far: {failed or 'none'}"
        )
        return {"failed": failed, "error": "EIO"}

    async def recover(self, injection: Injection) -> None:
        for victim in injection.victims:
            found = await _ask(injection, victim, "failing-syncs")
            if self._hit[victim.node] & set(found.running) - set(found.traced):
                injection.ended_early = f"the syncs of {victim.node} had stopped failing"
            await _ask(injection, victim, "let-syncs-pass")

    async def wait_until_recovered(self, injection: Injection) -> None:
        await until_answering(injection)

    async def clean_up(self, injection: Injection) -> None:
        for victim in injection.victims:
            await _ask(injection, victim, "let-syncs-pass")
        injection.pay()


async def _ask(injection: Injection, victim: Victim, verb: str, *words: str) -> FailingSyncs:
    shell = shell_of(injection.world.shell)
    return await asked(shell, victim.on_node, FailingSyncs, verb, victim.pod_uid, *words)

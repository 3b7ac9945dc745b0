"""Lets the victims' fsync, fdatasync and msync fail, as on a disk that loses pages.

The node's agent answers these calls in the kernel's place (`zonequake_agent.failing_syncs`). Only
processes that run now are hit: a victim that ends because of it comes back to a disk that is sound
again, which is the hardest case: the next sync would succeed, and tell nothing of what was lost.
"""

from __future__ import annotations

from zonequake_agent.failing_syncs import Failing
from zonequake_chaos.faults.life import Injury, Proof, Victim
from zonequake_chaos.faults.watching import until_answering
from zonequake_chaos.node_access.shell import asked, hands_of
from zonequake_chaos.record.cleanup_journal import LetSyncsPass

_BOUND_S = 30.0
"""Beyond the time that the fault may take: then the syncs pass again though nobody came back."""


class FailedFsync:
    """As in `scenario.faults`. Effective once a call of each victim has failed."""

    def __init__(self) -> None:
        self._hit: dict[str, set[int]] = {}

    async def prepare(self, injury: Injury) -> None:
        for victim in injury.victims:
            injury.owe(LetSyncsPass(pod=victim.node, uid=victim.pod_uid, host=victim.host))

    async def inject(self, injury: Injury) -> None:
        at_most_s = injury.hold_s + injury.timeout_s + _BOUND_S
        for victim in injury.victims:
            found = await _ask(injury, victim, "fail-syncs", f"{at_most_s:g}")
            self._hit[victim.node] = set(found.traced)

    async def wait_until_effective(self, injury: Injury) -> Proof:
        failed: dict[str, int] = {}

        async def all_failed() -> bool:
            for victim in injury.victims:
                found = await _ask(injury, victim, "failing-syncs")
                failed[victim.node] = found.failed
            return all(failed.values())

        await injury.until(
            all_failed, waiting_for=lambda: f"syncs that failed so far: {failed or 'none'}"
        )
        return {"failed": failed, "error": "EIO"}

    async def recover(self, injury: Injury) -> None:
        for victim in injury.victims:
            found = await _ask(injury, victim, "failing-syncs")
            if self._hit[victim.node] & set(found.running) - set(found.traced):
                injury.ended_early = f"nothing made the syncs of {victim.node} fail any more"
            await _ask(injury, victim, "let-syncs-pass")

    async def wait_until_recovered(self, injury: Injury) -> None:
        await until_answering(injury)

    async def clean_up(self, injury: Injury) -> None:
        for victim in injury.victims:
            await _ask(injury, victim, "let-syncs-pass")
        injury.pay()


async def _ask(injury: Injury, victim: Victim, verb: str, *words: str) -> Failing:
    hands = hands_of(injury.world.hands)
    return await asked(hands, victim.on_node, Failing, verb, victim.pod_uid, *words)

"""The operator with a planted fault that only a kill shows: it goes on only with what it began.

    forgetful_operator.py changes    sends changePeers and grants only for a pending it wrote itself
    forgetful_operator.py stops      stops redundant replicas only after a stable switch of its own
    forgetful_operator.py events     tells a transition only when it has stored it
    forgetful_operator.py grants     locks a change and never lets it go on: no fault, a held moment

So are operators built that act on events ("pending was written") and not on what is stored.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable
from typing import Any

from zonequake_operator.__main__ import main
from zonequake_operator.controller.event_poster import EventPoster
from zonequake_operator.groups.reports import Group
from zonequake_operator.planning.kubernetes_events import Announcement
from zonequake_operator.rebalance import key_changes, orders
from zonequake_operator.resources.model import PartitionKeys, Zone
from zonequake_protocol.admin import Grant


def forget(decision: str, consequence: str) -> None:
    """Let `orders.<consequence>` follow only from `key_changes.<decision>` of this process."""
    decided: set[str] = set()
    decide, follow = getattr(key_changes, decision), getattr(orders, consequence)

    def deciding(*arguments: Any) -> PartitionKeys:
        decided.update(a.name for a in arguments if isinstance(a, Group))
        keys: PartitionKeys = decide(*arguments)
        return keys

    def following(keys: PartitionKeys, group: Group, *rest: Any) -> list[Any]:
        told: list[Any] = follow(keys, group, *rest)
        return told if group.name in decided else []

    setattr(key_changes, decision, deciding)
    setattr(orders, consequence, following)


def withhold_grants() -> None:
    """Leave every change where it can't be cancelled any more and isn't JOINT yet."""
    follow = orders._changes

    def following(*arguments: Any) -> list[Any]:
        return [told for told in follow(*arguments) if not isinstance(told[1], Grant)]

    orders._changes = following  # type: ignore[assignment]


def tell_late() -> None:
    """Post Events after the write that they speak of, as ours once did."""

    async def post(poster: EventPoster, zone: Zone, announcements: Iterable[Announcement]) -> None:
        for announcement in announcements:
            loop = asyncio.get_running_loop()
            loop.call_later(LATE_S, poster.post_soon, zone, announcement)

    EventPoster.post = post  # type: ignore[method-assign,assignment]


LATE_S = 0.2
FAULTS: dict[str, Callable[[], None]] = {
    "changes": lambda: forget("_set_pending", "_changes"),
    "stops": lambda: forget("_stable_switch", "_stops"),
    "events": tell_late,
    "grants": withhold_grants,
}

if __name__ == "__main__":
    FAULTS[sys.argv[1]]()
    main()

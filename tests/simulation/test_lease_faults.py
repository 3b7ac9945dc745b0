"""Faults of a node in its own Lease (docs/leases.md), which directed scripts find at once.

Random schedules are a weak judge of them: of the seeds 0 to 89 of `reset`, one finds a Lease that
holds for ever (14), and none a fence that isn't heeded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from scripts.losses import (
    an_old_majority_is_told_before_it_is_permitted,
    who_was_fenced_acknowledges_nothing,
)

from zonequake_chaos.simulation import Violation
from zonequake_store.lease import LeaseRecord, NodeLease

pytestmark = pytest.mark.simulation


def held_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(NodeLease, "holds", lambda lease, _: lease.session > 0)


def fence_not_heeded(patch: pytest.MonkeyPatch) -> None:
    found = NodeLease.found

    def unheeded(lease: NodeLease, record: LeaseRecord | None, version: str | None) -> None:
        found(lease, record and replace(record, fenced=None), version)

    patch.setattr(NodeLease, "found", unheeded)


@pytest.mark.parametrize("fault", [held_for_ever, fence_not_heeded])
@pytest.mark.parametrize(
    "script",
    [an_old_majority_is_told_before_it_is_permitted, who_was_fenced_acknowledges_nothing],
)
def test_an_old_majority_that_acts_on_a_lease_it_lost_is_found(
    fault: Callable[[pytest.MonkeyPatch], None],
    script: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fault(monkeypatch)
    with pytest.raises(Violation, match="two lineages never both acknowledge"):
        script()

"""Faults of a node in its own Lease (docs/leases.md), which a directed script finds at once.

Random schedules are a weak judge of them: of the seeds 0 to 89 of `reset`, one finds a Lease that
holds forever (14), and none a fence that isn't heeded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.simulation.scripts.losses import who_was_fenced_acknowledges_nothing
from zonequake_simulation import Violation
from zonequake_store.lease.rules.node_lease import LeaseRecord, NodeLease

pytestmark = pytest.mark.simulation


def held_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(NodeLease, "holds", lambda lease, _: lease.session > 0)


def fence_not_heeded(patch: pytest.MonkeyPatch) -> None:
    found = NodeLease.found

    def unheeded(lease: NodeLease, record: LeaseRecord | None, version: str | None) -> None:
        found(lease, record and replace(record, fenced=None), version)

    patch.setattr(NodeLease, "found", unheeded)


@pytest.mark.parametrize("fault", [held_for_ever, fence_not_heeded])
def test_an_old_majority_that_acts_on_a_lease_it_lost_is_found(
    fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a script in which no operator could tell it of the reset before it acts."""
    fault(monkeypatch)
    with pytest.raises(Violation, match="two lineages never both acknowledge"):
        who_was_fenced_acknowledges_nothing()

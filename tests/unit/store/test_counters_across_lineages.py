"""Counters are compared at the same entry, not at the same index of two lineages."""

from __future__ import annotations

from typing import cast

import pytest

from tests.unit.raft.memory_log import MemoryLogStore
from zonequake_protocol.terms import term_of
from zonequake_store.catch_up.messages import Checkpoint, Demand, Dismissal
from zonequake_store.catch_up.supplier import Supplier, SupplierEdge
from zonequake_store.raft.api import RaftSettings
from zonequake_store.raft.core import Raft
from zonequake_store.raft.messages import HardState, Peer

ME, DEMANDER = Peer("c", "1"), Peer("a", "1")


class Sent:
    """A supplier's edge that keeps what leaves."""

    def __init__(self) -> None:
        self.frames: list[object] = []

    def send(self, frame: object) -> bool:
        self.frames.append(frame)
        return True


def answer(*, mine: Checkpoint, found: Checkpoint) -> Dismissal:
    """What a supplier whose counters are `mine` says to a demand with `found`."""
    edge = Sent()
    supplier = Supplier(
        group="z.00000000.0",
        me=ME,
        raft=Raft(
            me=ME,
            settings=RaftSettings(),
            log=MemoryLogStore(),
            hard_state=HardState(),
            random=lambda n: 0,
        ),
        edge=cast("SupplierEdge", edge),
        checkpoint_at=lambda index: mine if index == mine.index else None,
        may_judge=lambda: True,
        new_snapshot=lambda: 1,
    )
    supplier.demanded(Demand("z.00000000.0", ME, DEMANDER, 0, 1, found.index, 0, found))
    (frame,) = edge.frames
    assert isinstance(frame, Dismissal)
    return frame


@pytest.mark.parametrize(
    ("term", "is_broken"), [(term_of(5, 8), True), (term_of(0, 8), False), (term_of(5, 7), False)]
)
def test_only_at_the_same_entry_unequal_counters_mean_a_broken_replica(
    term: int, is_broken: bool
) -> None:
    mine = Checkpoint(index=20, lwm=17, hwm=17, term=term_of(5, 8))
    found = Checkpoint(index=20, lwm=18, hwm=18, term=term)
    assert (answer(mine=mine, found=found).unequal is not None) is is_broken

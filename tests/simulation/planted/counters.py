"""Faults in the update counters."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from planted.registry import Planted
from zonequake_store.counters import PartitionUpdateCounter
from zonequake_store.data_store import Flush, Overlay
from zonequake_store.partition import Partition


def counted_before_storage(patch: pytest.MonkeyPatch) -> None:
    begin = Overlay.begin_flush

    def ahead(cells: Overlay, partition: Partition) -> Flush:
        found = begin(cells, partition)
        state = msgspec.structs.replace(
            found.state, lwm=found.state.lwm + 1, hwm=found.state.hwm + 1
        )
        return dataclasses.replace(found, state=state)

    patch.setattr(Overlay, "begin_flush", ahead)


def counter_lost_at_start(patch: pytest.MonkeyPatch) -> None:
    start = Partition.__init__

    def from_nothing(partition: Partition, *given: object, **named: object) -> None:
        start(partition, *given, **named)
        partition.counter = PartitionUpdateCounter()

    patch.setattr(Partition, "__init__", from_nothing)


PLANTED: list[Planted] = [
    Planted(
        name="counter-advanced-before-storage",
        area="counters",
        scenario="storage",
        what="the stored counter is one update ahead of the cells stored with it",
        apply=counted_before_storage,
    ),
    Planted(
        name="counter-lost-at-start",
        area="counters",
        scenario="storage",
        what="a replica starts with its counter at zero",
        apply=counter_lost_at_start,
    ),
]

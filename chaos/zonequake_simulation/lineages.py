"""A history, lineage by lineage: the part that each lineage must explain.

A reset takes back the entries that its survivor did not have. In a lineage, therefore, a read that
an older lineage answered counts only if the state it saw is part of this lineage. A write that is
not part of it may still have happened: the survivor may have had an earlier attempt of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from zonequake_load.operation import Function, Type
from zonequake_load.pod.history import HistoryEvent
from zonequake_protocol.terms import term_of

Has = Callable[[int, int, int], bool]
"""(partition, index, whole term) → whether the entry is committed in the lineage."""


def seen_from(lineage: int, history: Iterable[HistoryEvent], has: Has) -> Iterator[HistoryEvent]:
    """Yields the events that this lineage must explain, in their order."""
    events = list(history)
    foreign = {
        event.op for event in events if event.type is Type.OK and not _counts(lineage, event, has)
    }
    for event in events:
        if event.op not in foreign:
            yield event
        elif event.f is not Function.READ and event.type is Type.INVOKE:
            yield event  # and no completion: unknown


def _counts(lineage: int, event: HistoryEvent, has: Has) -> bool:
    """Returns whether an answer rests on entries that are part of this lineage."""
    assert event.lineage is not None, "an answer has a place"
    assert event.term is not None, "an answer has a place"
    assert event.index is not None, "an answer has a place"
    if not event.index:
        return True
    return event.lineage <= lineage and has(
        event.partition, event.index, term_of(event.lineage, event.term)
    )

"""A history, lineage by lineage: what each must explain (docs: HA loses only what a survivor lacked).

A reset takes back what its survivor did not have. In the eyes of a lineage, therefore, an operation
that an older one answered happened if its entry is part of this lineage, and never else. What was
not answered may have happened in any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from zonequake_load.history import Event
from zonequake_load.operation import Type
from zonequake_store.lineage import term_of

Has = Callable[[int, int, int], bool]
"""(partition, index, whole term) → whether the entry is committed in the lineage."""


def seen_from(lineage: int, history: Iterable[Event], has: Has) -> Iterator[Event]:
    """The events that this lineage must explain, in their order."""
    events = list(history)
    left_out = {
        event.op for event in events if event.type is Type.OK and not _counts(lineage, event, has)
    }
    return (event for event in events if event.op not in left_out)


def _counts(lineage: int, event: Event, has: Has) -> bool:
    """Whether an answer was given in this lineage or rests on what is part of it."""
    assert event.lineage is not None, "an answer has a place"
    assert event.term is not None, "an answer has a place"
    assert event.index is not None, "an answer has a place"
    if not event.index:
        return True
    return event.lineage <= lineage and has(
        event.partition, event.index, term_of(event.lineage, event.term)
    )

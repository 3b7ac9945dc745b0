"""Large files: what is read as it goes holds no more than what is open."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

from zonequake_analysis.importing.edn import entries
from zonequake_analysis.importing.jepsen import operations
from zonequake_analysis.importing.operations import Choices, Notes


def lines(count: int) -> Iterator[str]:
    for n in range(count):
        for kind in (":invoke", ":ok"):
            yield f"{{:type {kind}, :f :write, :value [{n % 9} {n}], :process 1, :time {n}}}\n"


def peak_bytes(count: int) -> int:
    tracemalloc.start()
    found = operations(
        entries(lines(count), file="h.edn"), file="h.edn", choices=Choices(), notes=Notes()
    )
    assert sum(1 for _ in found) == count
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def test_reading_many_more_operations_takes_no_more_memory() -> None:
    """Each one that were held would take 340 bytes; other threads allocate a little, too."""
    peak_bytes(100)
    assert peak_bytes(5_000) - peak_bytes(500) < 4_500 * 50

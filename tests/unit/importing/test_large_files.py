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


def test_reading_ten_times_as_many_operations_takes_no_more_memory() -> None:
    peak_bytes(100)
    assert peak_bytes(5_000) < 2 * peak_bytes(500)

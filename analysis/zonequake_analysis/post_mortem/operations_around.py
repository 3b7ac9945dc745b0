"""The operations around examples of findings.

Of a finding at a key they are the key's, else those of its partition within a second.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from zonequake_analysis.checks.search.witness import WitnessOperation, operation
from zonequake_analysis.inputs.ids import name_id
from zonequake_analysis.post_mortem.candidates import Sought, nearest
from zonequake_analysis.post_mortem.examples import Example
from zonequake_analysis.storage.location import Location

MOST_OPERATIONS = 12
"""Operations around a finding, beside those that it names itself."""

_NEAR_NS = 1_000_000_000
"""Operations of a whole partition are looked for so near to a finding that names no key."""


def around(
    spark: SparkSession, files: Sequence[Location], examples: Sequence[Example]
) -> dict[int, list[WitnessOperation]]:
    """Returns the operations around each example, by its place among them, in order of time.

    `files`: those of `tables/ops`. Raises PySparkException.
    """
    numbers = [n for n, one in enumerate(examples) if one.cell.partition is not None]
    found = nearest(spark, files, [_sought(examples[number]) for number in numbers])
    return {
        number: [operation(row) for row in some.rows()]
        for number, some in zip(numbers, found, strict=True)
        if len(some.found)
    }


def _sought(one: Example) -> Sought:
    zone = one.cell.zone
    return Sought(
        partition_id=name_id(zone, str(one.cell.partition)),
        key_id=None if one.key is None else name_id(zone, one.key),
        at_ns=one.cell.first_ns,
        named=frozenset(one.named),
        within_ns=_NEAR_NS if one.key is None else None,
        copies=False,
        by_start=True,
        most=MOST_OPERATIONS,
        most_elements=None,
    )

"""Lost writes that a replica still holds: acknowledged and stored, but not served."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from zonequake_analysis.checks import loss
from zonequake_analysis.inputs.run_folder import Dump


def count_hidden(ops: DataFrame, findings: DataFrame, dumps: Sequence[Dump]) -> int:
    """Returns how many of all writes that were found lost are in a dump of their partition."""
    if not dumps:
        return 0
    held: dict[tuple[str, int, str], set[int]] = defaultdict(set)
    for dump in dumps:
        for entry in dump.entries.values():
            values = entry.value if isinstance(entry.value, list) else [entry.value]
            found = (value for value in values if isinstance(value, int))
            held[dump.zone, dump.partition, entry.key].update(found)
    lost = findings.where((F.col("check") == loss.CHECK) & (F.col("kind") == "lost"))
    names = (
        ops.join(lost.select("key_id").distinct(), "key_id", "left_semi")
        .select("key_id", "zone", "partition", "key")
        .distinct()
    )
    rows = lost.join(names, "key_id").select("zone", "partition", "key", "value").collect()
    return sum(
        row["value"] in held.get((row["zone"], row["partition"], row["key"]), ()) for row in rows
    )

"""Whether partitions are so large that their keys go to different buckets; decided before the pass.

A bucket has whole partitions as a rule: then no check of a partition needs more than its bucket. A
sample of the history tells how much of it would come into the largest one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from zonequake_analysis.inputs.ids import bucket_of
from zonequake_analysis.inputs.integer_columns import typed
from zonequake_analysis.inputs.lines import ByteRange, byte_ranges, kept_lines
from zonequake_analysis.storage.location import Location

MOST_BYTES = 512 * 1024 * 1024
"""Most history bytes of one bucket: about 650,000 operations, which one task judges in a second and
in half a GiB."""

_SAMPLES = 32
_SAMPLE_BYTES = 64 * 1024


def by_key(files: Sequence[Location], buckets: int) -> bool:
    """Returns whether operations are put into buckets by their keys, and not by their partitions.

    Reads up to 2 MiB of the history, if it is larger than one bucket may be.
    """
    size = sum(file.size_bytes() for file in files)
    if size <= MOST_BYTES:
        return False
    held = np.zeros(buckets, np.int64)
    for part in _samples(files, size):
        for lines in kept_lines(part):
            events, _ = typed(lines, writer="", clock_offset_ns=0)
            bucket = bucket_of(events.column("partition_id").to_numpy(), buckets)
            held += np.bincount(bucket, minlength=buckets)
    operations = int(held.sum())
    return not operations or int(held.max()) * size > MOST_BYTES * operations


def _samples(files: Sequence[Location], size: int) -> Iterator[ByteRange]:
    """Yields short ranges at equal distances over all bytes of the files."""
    begin = 0
    wanted = [size * number // _SAMPLES for number in range(_SAMPLES)]
    for whole in byte_ranges(files, size):
        end = begin + whole.stop
        for at in (at - begin for at in wanted if begin <= at < end):
            yield ByteRange(whole.path, whole.file, at, min(at + _SAMPLE_BYTES, whole.stop))
        begin = end

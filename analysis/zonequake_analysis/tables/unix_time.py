"""The run's clock in unix time, where the difference between them is known."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

NS_TO_A_MS = 1_000_000
_MOST_NS = 4_000_000_000_000_000_000
"""The year 2096: with a larger offset, sums would leave 64 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnixTime:
    """`wall_offset_ns`: the wall clock minus the run's clock, by the histories; 0: none says."""

    wall_offset_ns: int

    @property
    def is_known(self) -> bool:
        """Whether the histories say what time it was."""
        return 0 < abs(self.wall_offset_ns) <= _MOST_NS

    def ms(self, at_ns: int | None) -> int | None:
        """Converts a time of the run to unix ms; None if either is unknown."""
        if at_ns is None or not self.is_known:
            return None
        return (at_ns + self.wall_offset_ns) // NS_TO_A_MS

    def ms_of(self, at_ns: Column) -> Column:
        """Converts a column of times of the run in the same way."""
        if not self.is_known:
            return F.lit(None).cast("bigint")
        whole_ns = at_ns + F.lit(self.wall_offset_ns)
        return F.call_function("div", whole_ns, F.lit(NS_TO_A_MS))

"""Node Leases as the operator sees them (design §3, Membership; the node's half: `lease` of the
store).

    renewed ─ unrenewed for 1.25 × its duration ─► run out ─► fenced (compare-and-swap) ─► left
    the process ended, by another proof ─────────────────────► fenced ───────────────────► left
    the node reads that it was fenced ─► a new session ─► joins again ─► is permitted anew

Fenced first, counted as left then: a node that comes back could else renew its Lease and act on it
beside the one that went on without it. What the operator knows of time is its own clock, and only
as far as it was looking: an API server that is away renews nobody's Lease, and nobody has left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

RUN_OUT = 1.25
"""Times the duration: clocks that differ by less agree on who may act."""
LOOKED_SHARE = 0.25
"""Of the duration: the longest time between two looks that counts as having looked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A node's Lease. `holder`: the process incarnation whose session it is; empty: nobody's."""

    name: str
    holder: str
    session: int
    fenced: str | None
    duration_s: float
    resource_version: str

    def is_live_for(self, process: str) -> bool:
        """Whether this process may act on it, for all that is written down."""
        return self.holder == process and self.fenced is None

    def is_fenced_for(self, process: str) -> bool:
        """Whether it was taken from this process, which hasn't begun another session."""
        return self.holder == process and self.fenced is not None


@dataclass(slots=True)
class _Unrenewed:
    version: str
    duration_s: float
    for_s: float = 0.0


class Renewals:
    """For how long each Lease has been seen unrenewed, by one operator's clock."""

    def __init__(self) -> None:
        self._unrenewed: dict[str, _Unrenewed] = {}
        self._looked_s: float | None = None

    def looked(self, leases: Mapping[str, Lease], now_s: float) -> None:
        """All Leases as they were read just now; `now_s` is taken after the answer."""
        before_s = now_s if self._looked_s is None else self._looked_s
        self._looked_s = now_s
        for name in self._unrenewed.keys() - leases.keys():
            del self._unrenewed[name]
        for name, lease in leases.items():
            known = self._unrenewed.get(name)
            if known is None or known.version != lease.resource_version:
                self._unrenewed[name] = _Unrenewed(lease.resource_version, lease.duration_s)
            else:
                known.for_s += min(now_s - before_s, LOOKED_SHARE * lease.duration_s)

    @property
    def run_out(self) -> frozenset[str]:
        """Whose nodes know by now that they may not act, whatever their clocks."""
        return frozenset(
            name for name, each in self._unrenewed.items() if each.for_s > RUN_OUT * each.duration_s
        )

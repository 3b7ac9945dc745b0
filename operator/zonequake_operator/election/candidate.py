"""The rule by which one of several operators takes and keeps the Lease, and so acts alone.

    stands by ─ the Lease has no holder, or is unrenewed for its duration by our clock ─► takes it
    leads     ─ renews every fifth of the duration
              └ not renewed for two thirds of it, by our clock ─► acts no more, and the process ends

Clocks may differ by half before two believe that they lead. That two never act is no promise all
the same: what a process sent before it stood still may arrive later. Tokens, terms and
compare-and-swap make that harmless (design §3, Fencing); this only makes it rare.
"""

from __future__ import annotations

from dataclasses import dataclass

RENEW_SHARE = 0.2
ACT_SHARE = 2 / 3
"""Share of the duration, counted from the last renewal request, for which a leader may act."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ballot:
    """The content of the Lease. `holder`: empty if there is no leader; `transitions`: how often it
    changed. `version`: of the object; None: there is none yet.
    """

    holder: str
    transitions: int
    version: str | None


class Candidate:
    """One operator process. `name` is its own alone, also after a restart."""

    def __init__(self, name: str, duration_s: float) -> None:
        self.name = name
        self.duration_s = duration_s
        self._seen: Ballot | None = None
        self._seen_s = 0.0
        self._until_s = float("-inf")

    def leads(self, now_s: float) -> bool:
        """Returns whether this process may act now."""
        return now_s < self._until_s

    def wants(self, found: Ballot, now_s: float) -> Ballot | None:
        """Returns the ballot to write over the one just read; None: another process leads."""
        if found.holder == self.name:
            return found
        if self._seen is None or self._seen.version != found.version:
            self._seen, self._seen_s = found, now_s
        if found.holder and now_s - self._seen_s <= self.duration_s:
            return None
        return Ballot(holder=self.name, transitions=found.transitions + 1, version=found.version)

    def wrote(self, asked_s: float) -> None:
        """Records that the ballot of `wants` was stored; `asked_s`: the time before the ballot was
        read.
        """
        self._until_s = max(self._until_s, asked_s + ACT_SHARE * self.duration_s)

    def resigned(self) -> None:
        """Records that this process no longer acts."""
        self._until_s = float("-inf")

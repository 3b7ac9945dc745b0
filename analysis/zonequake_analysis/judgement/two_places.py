"""What a write at two places of the log, by two members, was: pure.

A member showed it before the place at which another acknowledged it. If both have one log, it was
applied twice. If members have diverged, their places say nothing about each other, and that is what
was found. Without dumps of both nobody can tell: the claimed order fails, and that is all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from zonequake_analysis.checks import diverged, sets
from zonequake_analysis.measures.replica_audit import Audit

TWO_PLACES = (sets.CHECK, "two-places")

CheckAndKind = tuple[str, str]


def meaning(found: Mapping[CheckAndKind, int], audit: Audit) -> CheckAndKind:
    """The check and the kind that such findings count as."""
    if found.get((diverged.CHECK, diverged.KIND)) or any(d.diverged for d in audit.disagreements):
        return diverged.CHECK, diverged.KIND
    if audit.replicas > audit.partitions and not audit.disagreements:
        return sets.CHECK, "applied-twice"
    return TWO_PLACES


def counted(found: Mapping[CheckAndKind, int], audit: Audit) -> Counter[CheckAndKind]:
    """The numbers of findings, each under what it means."""
    counts: Counter[CheckAndKind] = Counter()
    for named, number in found.items():
        counts[meaning(found, audit) if named == TWO_PLACES else named] += number
    return counts

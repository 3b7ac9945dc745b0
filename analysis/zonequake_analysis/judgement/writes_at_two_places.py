"""The meaning of a write at two places of the log, by two members. Pure.

A member showed it before the place at which another acknowledged it. If both have one log, it was
applied twice. If members have diverged, their places say nothing about each other, and the finding
is the divergence. Without dumps of both the cause is unknown: the finding is only that the claimed
order fails.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from zonequake_analysis.checks import diverged, sets
from zonequake_analysis.measures.replica_audit import Audit

CheckAndKind = tuple[str, str]


def meaning(found: Mapping[CheckAndKind, int], audit: Audit) -> CheckAndKind:
    """Returns the check and the kind that such findings count as."""
    if found.get((diverged.CHECK, diverged.KIND)) or any(d.diverged for d in audit.disagreements):
        return diverged.CHECK, diverged.KIND
    if audit.replicas > audit.partitions and not audit.disagreements:
        return sets.CHECK, "applied-twice"
    return sets.TWO_PLACES


def counted(found: Mapping[CheckAndKind, int], audit: Audit) -> Counter[CheckAndKind]:
    """Returns the numbers of findings, each under the check and kind that it counts as."""
    counts: Counter[CheckAndKind] = Counter()
    for named, number in found.items():
        counts[meaning(found, audit) if named == sets.TWO_PLACES else named] += number
    return counts

"""Names each kind of finding over operations, and the check that counts it. Pure."""

from __future__ import annotations

from zonequake_analysis.checks import (
    claimed_order,
    diverged,
    list_prefixes,
    loss,
    register_zones,
    repeated_values,
    sets,
)
from zonequake_analysis.measures.hidden_writes import LOST

CheckAndKind = tuple[str, str]

LINEARIZABILITY = "linearizability"
"""The check of every kind that says only that there is no order."""

HIDDEN = "hidden-writes"
"""The check of a lost write that a dump still has."""

NAMED: dict[CheckAndKind, tuple[str, str]] = {
    LOST: ("lost-writes", "the last read of the key no longer shows an acknowledged write"),
    (loss.CHECK, "stale"): (
        "stale-reads",
        "a read misses a write that was acknowledged, or seen, before it began",
    ),
    (loss.CHECK, "flicker"): (
        "flicker",
        "a read misses a write without an answer, which a read before it and one after it show",
    ),
    (loss.CHECK, "session"): (
        "sessions",
        "a process was answered from an earlier place than it had reached",
    ),
    (sets.CHECK, "phantom"): ("phantoms", "a value was read that no operation wrote"),
    (sets.CHECK, "aborted"): (
        "aborted-reads",
        "a value was read although its write certainly failed",
    ),
    (sets.CHECK, "duplicate"): (
        "duplicates",
        "an element stands twice in a list: one request was applied twice",
    ),
    (sets.CHECK, "applied-twice"): (
        "duplicates",
        "a value was read before the place at which its write was acknowledged: the request was "
        "applied at two places",
    ),
    sets.TWO_PLACES: (
        LINEARIZABILITY,
        "a member shows a value before the place at which another acknowledged it: it was applied "
        "twice, or the members differ; no dumps say which",
    ),
    (sets.CHECK, "wrong-refusal"): (
        "refusals",
        "a cas was refused although it found what it expected",
    ),
    (diverged.CHECK, diverged.KIND): (
        "diverged",
        "a member lacks a write that was acknowledged at its place or before and that another "
        "member holds, or has it at another place: their states differ",
    ),
    (claimed_order.CHECK, "order"): (
        LINEARIZABILITY,
        "an operation began after one of a later place had ended",
    ),
    (claimed_order.CHECK, "value"): (
        LINEARIZABILITY,
        "the value read is not what the claimed order leaves there",
    ),
    (claimed_order.CHECK, "list"): (
        LINEARIZABILITY,
        "the list read is not what the claimed order of appends leaves there",
    ),
    (claimed_order.CHECK, "precondition"): (
        LINEARIZABILITY,
        "an applied cas did not find what it expected in the claimed order",
    ),
    (claimed_order.CHECK, "entry-twice"): (
        LINEARIZABILITY,
        "two writes claim one place of the partition",
    ),
    (register_zones.CHECK, "phantom"): (LINEARIZABILITY, "a value was read that has no write"),
    (register_zones.CHECK, "future-read"): (
        LINEARIZABILITY,
        "a read ended before the write of its value began",
    ),
    (register_zones.CHECK, "cas-fork"): (
        LINEARIZABILITY,
        "two cas were applied on one and the same version",
    ),
    (register_zones.CHECK, "cas-order"): (
        LINEARIZABILITY,
        "a version of a chain of cas was used before the one it rests on, or never rested on one",
    ),
    (register_zones.CHECK, "stale"): (
        LINEARIZABILITY,
        "no order of the key's operations respects the order of time",
    ),
    (repeated_values.CHECK, "no-order"): (
        LINEARIZABILITY,
        "no order of the key's operations explains this answer; its values repeat, so a search "
        "decided",
    ),
    (repeated_values.CHECK, "gave-up"): (
        LINEARIZABILITY,
        "no violation, and undecided: the key's values repeat, and the search for an order reached "
        "its bound",
    ),
    (list_prefixes.CHECK, "not-prefix"): (
        LINEARIZABILITY,
        "a list is no prefix of the longest one: elements changed their order",
    ),
    (list_prefixes.CHECK, "element-twice"): (
        LINEARIZABILITY,
        "the longest list shows an element twice",
    ),
}
"""Check and sentence of each (found_by, kind)."""

_OTHER = (LINEARIZABILITY, "no order explains the key's operations")


def named(found: CheckAndKind) -> tuple[str, str]:
    """Returns the check that counts a finding, and its sentence."""
    return NAMED.get(found, _OTHER)

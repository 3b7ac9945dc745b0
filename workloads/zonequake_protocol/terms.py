"""Lineages, and the terms of all of them in one order.

A *lineage* is what a group does between two forced resets; the token of the reset that began it is
its name, 0 before the first. A term is a lineage and the number of an election in it, together in
one integer:

    term = lineage × 10⁹ + number            5_000_000_008: lineage 5, number 8

so that wherever Raft compares terms (votes, messages, the match of logs, whose log is newer) it
compares pairs (lineage, number). A reset continues at number + 1.

Why isn't a reset's term + 1 enough? Because the old majority's actions meanwhile are not seen:

    a, b, c stand at term 7, index 10. c, cut off, is reset with token 5, leads alone at term 8 and
    commits x at index 12. a and b live: b is elected at term 8 and commits y at index 12.
    Then they meet. Both entries are (index 12, term 8): the log-matching rule takes x for y, and
    the replicas differ forever. Or b is at term 9 already: c follows it and drops x, which c had
    acknowledged to its clients: the reset is undone.

    With pairs x is at (12, (5, 8)) and y at (12, (0, 8)): they differ, and (5, 8) is above all that
    a and b can ever reach without a reset. A replica that learns of it takes nothing
    more of lineage 0.

The factor is decimal so that people can read it. 10⁹ numbers last 31 years at an election a second;
tokens up to 9 × 10⁹ fit into 63 bits.
"""

from __future__ import annotations

_NUMBERS = 10**9


def term_of(lineage: int, number: int) -> int:
    """Returns the term of election `number` in `lineage`; 0 is below all of its elections."""
    return lineage * _NUMBERS + number


def lineage_of(term: int) -> int:
    """Returns the lineage of a term."""
    return term // _NUMBERS


def number_of(term: int) -> int:
    """Returns the number of a term within its lineage."""
    return term % _NUMBERS

"""Majorities by table."""

from __future__ import annotations

import pytest

from tests.unit.raft.small_cluster import peer, peers
from zonequake_store.raft.messages import Configuration
from zonequake_store.raft.quorum import Outcome, majority_value, outcome


@pytest.mark.parametrize(
    ("values", "agreed"),
    [
        ([7], 7),
        ([7, 3], 3),
        ([9, 5, 1], 5),
        ([9, 9, 5, 1], 5),
        ([9, 9, 9, 1], 9),
        ([1, 2, 3, 4, 5], 3),
        ([0, 0, 0, 4, 5], 0),
    ],
)
def test_a_majority_has_reached_the_value(values: list[int], agreed: int) -> None:
    assert majority_value(values) == agreed
    assert sum(value >= agreed for value in values) * 2 > len(values)


@pytest.mark.parametrize(
    ("new", "old", "yes", "no", "expected"),
    [
        ("a", "", "", "", Outcome.PENDING),
        ("a", "", "a", "", Outcome.WON),
        ("abc", "", "ab", "", Outcome.WON),
        ("abc", "", "a", "b", Outcome.PENDING),
        ("abc", "", "a", "bc", Outcome.LOST),
        ("abcd", "", "ab", "cd", Outcome.LOST),
        ("abcd", "", "abc", "d", Outcome.WON),
        ("abc", "", "axy", "", Outcome.PENDING),
        ("bcd", "abc", "bc", "", Outcome.WON),
        ("def", "abc", "abc", "", Outcome.PENDING),
        ("def", "abc", "abcd", "", Outcome.PENDING),
        ("def", "abc", "abde", "", Outcome.WON),
        ("def", "abc", "abc", "de", Outcome.LOST),
        ("d", "abc", "abd", "", Outcome.WON),
        ("d", "abc", "d", "ab", Outcome.LOST),
    ],
)
def test_a_vote_needs_a_majority_of_each_half(
    new: str, old: str, yes: str, no: str, expected: Outcome
) -> None:
    votes = dict.fromkeys(peers(yes), True) | dict.fromkeys(peers(no), False)
    assert outcome(Configuration(peers=peers(new), old_peers=peers(old)), votes) is expected


def test_another_incarnation_does_not_count() -> None:
    votes = {peer("a"): True, peer("b", "2"): True}
    assert outcome(Configuration(peers=peers("abc")), votes) is Outcome.PENDING

"""Majorities by table."""

from __future__ import annotations

import pytest

from tests.unit.raft.small_cluster import peer, peers
from zonequake_store.raft.messages import Configuration
from zonequake_store.raft.quorum import VoteResult, majority_value, outcome


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
        ("a", "", "", "", VoteResult.PENDING),
        ("a", "", "a", "", VoteResult.WON),
        ("abc", "", "ab", "", VoteResult.WON),
        ("abc", "", "a", "b", VoteResult.PENDING),
        ("abc", "", "a", "bc", VoteResult.LOST),
        ("abcd", "", "ab", "cd", VoteResult.LOST),
        ("abcd", "", "abc", "d", VoteResult.WON),
        ("abc", "", "axy", "", VoteResult.PENDING),
        ("bcd", "abc", "bc", "", VoteResult.WON),
        ("def", "abc", "abc", "", VoteResult.PENDING),
        ("def", "abc", "abcd", "", VoteResult.PENDING),
        ("def", "abc", "abde", "", VoteResult.WON),
        ("def", "abc", "abc", "de", VoteResult.LOST),
        ("d", "abc", "abd", "", VoteResult.WON),
        ("d", "abc", "d", "ab", VoteResult.LOST),
    ],
)
def test_a_vote_needs_a_majority_of_each_half(
    new: str, old: str, yes: str, no: str, expected: VoteResult
) -> None:
    votes = dict.fromkeys(peers(yes), True) | dict.fromkeys(peers(no), False)
    assert outcome(Configuration(peers=peers(new), old_peers=peers(old)), votes) is expected


def test_another_incarnation_does_not_count() -> None:
    votes = {peer("a"): True, peer("b", "2"): True}
    assert outcome(Configuration(peers=peers("abc")), votes) is VoteResult.PENDING

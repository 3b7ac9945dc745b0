"""Majorities, of one set and of a joint configuration (Ongaro's thesis §4.3).

A joint configuration decides only what a majority of *each* half decides. An empty half agrees to
everything.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence

from zonequake_store.raft.messages import Configuration, Peer


class VoteResult(enum.Enum):
    """The result of a vote."""

    WON = "won"
    LOST = "lost"
    PENDING = "pending"


def majority_value(values: Sequence[int]) -> int:
    """Returns the largest number that a majority of `values` has reached; at least one value.

    Of four, three must agree: [9, 9, 5, 1] gives 5.
    """
    return sorted(values)[(len(values) - 1) // 2]


def half_outcome(half: Sequence[Peer], votes: Mapping[Peer, bool]) -> VoteResult:
    needed = len(half) // 2 + 1
    yes = no = 0
    for peer in half:
        vote = votes.get(peer)
        if vote is True:
            yes += 1
        elif vote is False:
            no += 1
    if not half or yes >= needed:
        return VoteResult.WON
    return VoteResult.LOST if no > len(half) - needed else VoteResult.PENDING


def outcome(configuration: Configuration, votes: Mapping[Peer, bool]) -> VoteResult:
    """Outcome of a vote; votes of others than its peers don't count."""
    halves = {
        half_outcome(configuration.peers, votes),
        half_outcome(configuration.old_peers, votes),
    }
    if VoteResult.LOST in halves:
        return VoteResult.LOST
    return VoteResult.PENDING if VoteResult.PENDING in halves else VoteResult.WON

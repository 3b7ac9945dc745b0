"""What an observer who sees everything knows of one group; the rules write and read it."""

from __future__ import annotations

from zonequake_store.raft.api import Ready
from zonequake_store.raft.messages import Configuration, Peer, SnapshotMeta


class Stored:
    """What a replica has on its disk now: terms of its entries, its term and its vote."""

    __slots__ = ("first_index", "start_term", "term", "terms", "vote")

    def __init__(self) -> None:
        self.first_index = 1
        self.start_term = 0
        self.terms: list[int] = []
        self.term = 0
        self.vote: Peer | None = None

    @property
    def last_index(self) -> int:
        return self.first_index - 1 + len(self.terms)

    def holds(self, index: int, term: int) -> bool:
        """Whether the entry is stored, or was and is part of a snapshot."""
        place = index - self.first_index
        if place < 0:
            return True
        return place < len(self.terms) and self.terms[place] == term

    def store(self, ready: Ready) -> None:
        """A Ready is stored."""
        if ready.snapshot is not None:
            self.first_index, self.start_term = ready.snapshot.index + 1, ready.snapshot.term
            self.terms.clear()
        if ready.entries:
            del self.terms[ready.entries[0].index - self.first_index :]
            self.terms.extend([entry.term for entry in ready.entries])
        if ready.hard_state is not None:
            self.term, self.vote = ready.hard_state.term, ready.hard_state.vote

    def compact(self, meta: SnapshotMeta) -> None:
        """The log begins behind `meta` now."""
        del self.terms[: meta.index + 1 - self.first_index]
        self.first_index, self.start_term = meta.index + 1, meta.term


class Ledger:
    """One group: what is stored where, and which entries were committed anywhere."""

    def __init__(self) -> None:
        self.stored: dict[Peer, Stored] = {}
        """Of every replica there ever was, also of those whose disk is gone."""
        self.chosen: dict[int, int] = {}
        """Index → term of committed entries."""
        self.chosen_to = 0
        self.digests: dict[int, int] = {0: 0}
        """Index → digest over all entries up to it."""


def has_quorum(configuration: Configuration, peers: set[Peer]) -> bool:
    """Written again, and differently, so that an error in the core's quorum.py shows."""
    return all(
        2 * len(peers.intersection(half)) > len(half)
        for half in (configuration.peers, configuration.old_peers)
        if half
    )

"""The knowledge of an omniscient observer about one group; the rules write and read it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from zonequake_protocol.terms import lineage_of
from zonequake_simulation.checks.model import Model
from zonequake_store.raft.api import Ready
from zonequake_store.raft.messages import Configuration, Peer, SnapshotMeta


class StoredLog:
    """The content of a replica's disk now: terms of its entries, its term and its vote."""

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
        """Returns whether the entry is stored, or was stored and is part of a snapshot."""
        place = index - self.first_index
        if place < 0:
            return True
        return place < len(self.terms) and self.terms[place] == term

    def store(self, ready: Ready) -> None:
        """Records a stored Ready."""
        if ready.snapshot is not None:
            self.first_index, self.start_term = ready.snapshot.index + 1, ready.snapshot.term
            self.terms.clear()
        if ready.entries:
            del self.terms[ready.entries[0].index - self.first_index :]
            self.terms.extend([entry.term for entry in ready.entries])
        if ready.hard_state is not None:
            self.term, self.vote = ready.hard_state.term, ready.hard_state.vote

    def compact(self, meta: SnapshotMeta) -> None:
        """Records that the log now begins after `meta`."""
        del self.terms[: meta.index + 1 - self.first_index]
        self.first_index, self.start_term = meta.index + 1, meta.term


class Lineage:
    """The entries committed between two resets, with those that the survivor had before."""

    def __init__(self, chosen: dict[int, int] | None = None, model: Model | None = None) -> None:
        self.chosen = {} if chosen is None else chosen
        """Index → term of committed entries."""
        self.chosen_to = max(self.chosen, default=0)
        self.model = Model() if model is None else model
        """The result of applying these entries."""
        self._grown_us: list[int] = []
        self._grown_to: list[int] = []

    def forked(self, index: int, now_us: int) -> Lineage:
        """Returns a lineage that continues after `index` from now on."""
        chosen = {at: term for at, term in self.chosen.items() if at <= index}
        fork = Lineage(chosen, self.model.forked(index))
        fork.grew(index, now_us)
        return fork

    def grew(self, index: int, now_us: int) -> None:
        """Records that everything up to `index` is committed."""
        self._grown_us.append(now_us)
        self._grown_to.append(index)

    def chosen_by(self, us: float) -> int:
        """Returns the index up to which everything was committed at a time."""
        place = bisect_right(self._grown_us, us)
        return self._grown_to[place - 1] if place else 0

    def has(self, index: int, term: int) -> bool:
        """Returns whether this entry is committed here."""
        return self.chosen.get(index) == term


class Ledger:
    """One group: what is stored where, and which entries were committed anywhere."""

    def __init__(self, now_us: Callable[[], int]) -> None:
        self.now_us = now_us
        self.stored: dict[Peer, StoredLog] = {}
        """The stored log of every replica so far, also of those whose disk is gone."""
        self.lineages: dict[int, Lineage] = {0: Lineage()}
        self.digests: dict[tuple[int, int], int] = {(0, 0): 0}
        """(index, term) → digest over all entries up to it."""
        self.acknowledged = 0
        """The newest lineage in which a client got an acknowledgement."""
        self.acknowledged_to: dict[int, int] = {}
        """Lineage → the last index that was acknowledged to a client as written."""

    def lineage(self, term: int) -> Lineage:
        """Returns the lineage of a term."""
        number = lineage_of(term)
        found = self.lineages.get(number)
        if found is None:
            found = self.lineages[number] = Lineage()  # bootstrapped again
        return found

    @property
    def newest(self) -> int:
        """The newest lineage."""
        return max(self.lineages)


def has_quorum(configuration: Configuration, peers: set[Peer]) -> bool:
    """Returns whether there is a quorum; written independently, to reveal an error in quorum.py."""
    return all(
        2 * len(peers.intersection(half)) > len(half)
        for half in (configuration.peers, configuration.old_peers)
        if half
    )

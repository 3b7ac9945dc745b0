"""The outcomes of requests with an id, so that each is applied once. Pure, and bounded.

A command with a `request_id` is applied once; its repetition gets the first outcome, with the first
term and index. The table of outcomes evicts by rules that depend on the entries alone, so that all
replicas evict alike: per client the lowest sequences go first, and the client that was quiet for
longest goes as a whole. A repetition whose outcome was evicted is `FORGOTTEN`: it is not applied
again, and the client learns that nothing is known.

    in results                         ──► the first outcome
    sequence ≤ floor, or since < mark  ──► FORGOTTEN
    since ≥ its entry's index          ──► FORGOTTEN
    else                               ──► applied now

The **mark** is an index: everything evicted with a whole client was applied below it. A request
with `since` ≥ mark was first sent when its client had seen entry `since`, so that it can only have
been applied after it: if it had been, its client would still be here. The mark is read off the
table: 0 until that is full, then the index of the quietest client's last request. A client that
comes when it is full keeps the mark of that moment. For example, with room for two clients:

    1: a#1   2: b#1   3: c#1 since 2 evicts a   4: a#1 since 0 again ──► FORGOTTEN, as 0 < 2
    5: a#2 since 4 evicts b, mark 2             6: a#1 since 0 again ──► FORGOTTEN, as 0 < 2

A request stands after its `since`, but where a reset took entries away and their indexes are used
again. What was seen before the reset says nothing about the entries after it: such a request would
be taken for new once its client was evicted. So it isn't applied at all, and its client, if it is
sure of that, sends it again with what it has seen of the new lineage.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from zonequake_protocol.client import RequestId
from zonequake_store.state.commands import CommandOutcome, CommandVerdict

# 4,096 clients times a few results keep a group's table in the low megabytes.
MAX_CLIENTS = 4096
MAX_RESULTS_PER_CLIENT = 256


class ClientSession(msgspec.Struct, array_like=True):
    """A client's outcomes by sequence, in ascending order; all of `floor` and below are forgotten.

    `mark`: what an earlier session of this client did, if any, was applied below this index.
    """

    last_index: int = 0
    floor: int = 0
    results: dict[int, CommandOutcome] = {}
    mark: int = 0

    def copied(self) -> ClientSession:
        """Returns a copy of the table as it is now; the outcomes themselves never change."""
        return ClientSession(self.last_index, self.floor, self.results.copy(), self.mark)


class ClientTable:
    """Outcomes of requests with an id: bounded, and the same on every replica."""

    def __init__(self, sessions: Iterable[tuple[str, ClientSession]] = ()) -> None:
        # Ordered by the entry that used a session last: the first is the longest quiet. Indexes
        # are unique, so that a table read back from disk has the order it had.
        self.sessions: dict[str, ClientSession] = dict(
            sorted(sessions, key=lambda item: item[1].last_index)
        )
        self.changed: set[str] = set()
        self.evicted: set[str] = set()

    def lookup(
        self, request_id: RequestId, term: int, index: int, *, is_entry: bool = True
    ) -> CommandOutcome | None:
        """Returns the first outcome of this request, FORGOTTEN, or None if it is new. `index`: of
        its entry; or, if it has none yet, of the last one that was applied, somewhere after which
        it will stand.
        """
        session = self.sessions.get(request_id.client)
        if session is None:
            forgotten = request_id.since < self._mark()
        elif request_id.sequence in session.results:
            return session.results[request_id.sequence]
        else:
            forgotten = request_id.sequence <= session.floor or request_id.since < session.mark
        if forgotten or (is_entry and request_id.since >= index):
            return CommandOutcome(CommandVerdict.FORGOTTEN, term, index)
        return None

    def _mark(self) -> int:
        """Returns the index below which all that was evicted with whole clients was applied."""
        if len(self.sessions) < MAX_CLIENTS:
            return 0
        return next(iter(self.sessions.values())).last_index

    def remember(self, request_id: RequestId, outcome: CommandOutcome) -> None:
        """Note the outcome of a request that `lookup` called new; evict what is too much."""
        client = request_id.client
        session = self.sessions.pop(client, None)
        if session is None:
            session = ClientSession(results={}, mark=self._mark())
            if len(self.sessions) >= MAX_CLIENTS:
                quietest = next(iter(self.sessions))
                del self.sessions[quietest]
                self.changed.discard(quietest)
                self.evicted.add(quietest)
        self.sessions[client] = session
        session.last_index = outcome.index
        results, sequence = session.results, request_id.sequence
        is_late = bool(results) and sequence < next(reversed(results))
        results[sequence] = outcome
        if is_late:
            session.results = results = dict(sorted(results.items()))
        if len(results) > MAX_RESULTS_PER_CLIENT:
            session.floor = next(iter(results))
            del results[session.floor]
        self.changed.add(client)
        self.evicted.discard(client)

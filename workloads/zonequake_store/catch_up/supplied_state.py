"""The edge of a supplier: the states that it reads from.

A state that is supplied is a read transaction: it is read aside, piece by piece, and closed after
its last reader.
"""

from __future__ import annotations

from dataclasses import dataclass

from zonequake_store.catch_up.checkpoints import checkpoint_in
from zonequake_store.catch_up.demander import size_of
from zonequake_store.catch_up.host import CatchUpHost
from zonequake_store.catch_up.messages import Pairs, encode_pairs
from zonequake_store.catch_up.supplier import OutFrame, Supplier
from zonequake_store.errors import StateCorrupt
from zonequake_store.raft.errors import RaftError
from zonequake_store.raft.messages import Peer
from zonequake_store.replica.replica import Replica
from zonequake_store.storage.cells import View


@dataclass(slots=True)
class _Opened:
    """A state that is open for a peer, from the moment that it was asked for."""

    view: View | None = None
    busy: bool = True
    closed: bool = False

    def end(self) -> None:
        """Close it, at once or when its reader is done."""
        self.closed = True
        if not self.busy and self.view is not None:
            self.view.close()
            self.view = None

    def rest(self) -> bool:
        """Its reader is done; whether it is still wanted."""
        self.busy = False
        if self.closed:
            self.end()
        return not self.closed


class SuppliedState:
    """The edge of a supplier: the states that it reads from."""

    supplier: Supplier

    def __init__(self, host: CatchUpHost, replica: Replica) -> None:
        self._host = host
        self._replica = replica
        self._opened: dict[int, _Opened] = {}

    def send(self, frame: OutFrame) -> bool:
        return self._host.send_frame(frame.to.node, frame)

    def open(self, to: Peer, snapshot: int) -> None:
        opened = self._opened[snapshot] = _Opened()

        def measured(found: tuple[int, int] | StateCorrupt) -> None:
            if opened.rest() and not self._is_damaged(found):
                self._measured(to, snapshot, opened, found)

        def is_open(view: View | None) -> None:
            opened.view = view
            if view is not None and not opened.closed:
                self._host.read_aside(lambda: measure(view), measured)
            elif opened.rest():
                self.supplier.lost(to, snapshot)

        self._host.open_state(self._replica, is_open)

    def _measured(
        self, to: Peer, snapshot: int, opened: _Opened, found: tuple[int, int] | StateCorrupt
    ) -> None:
        view = opened.view
        assert view is not None, "it was measured"
        assert isinstance(found, tuple), "it is not damaged"
        try:
            meta = self._replica.core_now().snapshot_meta(view.state.index)
        except RaftError:
            self.supplier.lost(to, snapshot)
            return
        self.supplier.opened(
            to,
            snapshot,
            meta=meta,
            pairs=found[0],
            size_bytes=found[1],
            checkpoint=checkpoint_in(view),
        )

    def read(self, to: Peer, snapshot: int, after: bytes, max_bytes: int) -> None:
        opened = self._opened[snapshot]
        view = opened.view
        assert view is not None, "a supplier reads what is open"
        opened.busy = True

        def was_read(found: SnapshotPart | StateCorrupt) -> None:
            if opened.rest() and not self._is_damaged(found):
                assert isinstance(found, SnapshotPart), "it is not damaged"
                self.supplier.read(
                    to,
                    snapshot,
                    after=after,
                    content=found.content,
                    last=found.last,
                    size_bytes=found.size_bytes,
                    at_end=found.at_end,
                )

        self._host.read_aside(lambda: part_of(view, after, max_bytes), was_read)

    def close(self, to: Peer, snapshot: int) -> None:
        self._opened.pop(snapshot).end()

    def _is_damaged(self, found: object) -> bool:
        if isinstance(found, StateCorrupt):
            self._host.break_down(self._replica, str(found))
            return True
        return self._replica.stopped


def measure(view: View) -> tuple[int, int] | StateCorrupt:
    """Pairs and bytes of a state; an error found is returned, to be dealt with on the loop."""
    count = size_bytes = 0
    try:
        for key, value in view.pairs():
            count += 1
            size_bytes += len(key) + len(value)
    except StateCorrupt as error:
        return error
    return count, size_bytes


@dataclass(frozen=True, slots=True)
class SnapshotPart:
    content: bytes
    last: bytes
    size_bytes: int
    at_end: bool


def part_of(view: View, after: bytes, max_bytes: int) -> SnapshotPart | StateCorrupt:
    """Returns the part that follows `after`: encoded, its last key, its bytes, and whether it
    reaches the end.
    """
    pairs: Pairs = []
    left_bytes = max_bytes
    try:
        for pair in view.pairs(after):
            pairs.append(pair)
            left_bytes -= len(pair[0]) + len(pair[1])
            if left_bytes <= 0:
                break
    except StateCorrupt as error:
        return error
    last = pairs[-1][0] if pairs else after
    return SnapshotPart(encode_pairs(pairs), last, size_of(pairs), left_bytes > 0)

"""Catch-up in a node: every replica's supplier, demander and comparison, and what they touch.

A state that is supplied is a read transaction: it is read aside, piece by piece, and closed when
nobody reads it any more. A state that arrives is written under a number that no replica owns, by
the data writer; one log commit then makes it the replica's. Until that commit the old state is
whole, after it the new one is: there is no moment between.

Clock, threads, disk and network are the host's (`CatchUpHost`): a real node's or a simulated one's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

import msgspec

from zonequake_store.catchup.checkpoints import checkpoint_of
from zonequake_store.catchup.comparison import Comparison
from zonequake_store.catchup.demander import Demander, size_of
from zonequake_store.catchup.messages import (
    Checkpoint,
    Demand,
    Dismissal,
    Invite,
    Pairs,
    Piece,
    Report,
    Staging,
    Supply,
    Verdict,
    encode_pairs,
)
from zonequake_store.catchup.supplier import OutFrame, Supplier
from zonequake_store.data_store import (
    DataStore,
    MemoryCells,
    Overlay,
    View,
    from_pairs,
    state_in,
)
from zonequake_store.errors import LogCorrupt, StateCorrupt
from zonequake_store.log_writes import GroupRecord
from zonequake_store.partition import Partition
from zonequake_store.peer_protocol import CatchUpFrame
from zonequake_store.raft.api import SupplyPeer
from zonequake_store.raft.errors import RaftError
from zonequake_store.raft.messages import Message, Peer, SnapshotMeta
from zonequake_store.replica import LOG_ERRORS, Replica

Result = TypeVar("Result")


class CatchUpHost(Protocol):
    """What catch-up needs of the node that it is part of."""

    @property
    def replicas(self) -> Mapping[str, Replica]:
        """Those that run, by group."""

    @property
    def data(self) -> DataStore:
        """Where applied state is stored; written by `write_data` alone."""

    def send_frame(self, to: str, frame: CatchUpFrame) -> bool:
        """Have a frame leave to a node; it may get lost. False: it was not taken."""

    def wake(self, replica: Replica) -> None:
        """Let a replica have a turn."""

    def break_down(self, replica: Replica, reason: str) -> None:
        """Stop a replica for good, and say why."""

    def new_number(self) -> int:
        """A number for cells, never used before."""

    def write_data(self, job: Callable[[], None], done: Callable[[], None]) -> None:
        """Run a job on the data environment after those before it, then call `done`."""

    def open_state(self, replica: Replica, opened: Callable[[View | None], None]) -> None:
        """Open what the replica has applied by now, or later, and hand it over; None: not now."""

    def read_aside(self, read: Callable[[], Result], done: Callable[[Result], None]) -> None:
        """Call `read` where it holds up nobody, then `done` with what it returned."""


class CatchUp:
    """All catch-up of a node.

    `staged`: what earlier processes have staged, of groups that will be started. `first_snapshot`:
    a number far from those of earlier processes, for a demander that outlived one would mix two.
    """

    def __init__(
        self, host: CatchUpHost, *, staged: Mapping[str, Staging], first_snapshot: int
    ) -> None:
        self._host = host
        self._suppliers: dict[str, tuple[Supplier, _SuppliedState]] = {}
        self._demanders: dict[str, tuple[Demander, _StagedState]] = {}
        self._comparisons: dict[str, Comparison] = {}
        self._staged: dict[str, Staging] = dict(staged)
        """Of replicas that do not run; their demanders go on with it."""
        self._snapshots = first_snapshot

    # ── what the host says ───────────────────────────────────────────────────────────────────

    def supply(self, replica: Replica, request: SupplyPeer) -> None:
        """The core wants a peer supplied."""
        known = self._suppliers.get(replica.group)
        if known is None:
            state = _SuppliedState(self._host, replica)
            supplier = Supplier(
                group=replica.group,
                me=replica.me,
                raft=replica.raft,
                edge=state,
                checkpoint_at=lambda index: replica.checkpoints.at(index, replica.partition),
                new_snapshot=self._new_snapshot,
            )
            state.supplier = supplier
            known = self._suppliers[replica.group] = supplier, state
        known[0].begin(request.to)

    def _new_snapshot(self) -> int:
        self._snapshots += 1
        return self._snapshots

    def after_turn(self, replicas: Iterable[Replica]) -> None:
        """These replicas had a turn."""
        suppliers, demanders = self._suppliers, self._demanders
        for replica in replicas:
            if replica.checkpoints.fresh and not replica.stopped:
                replica.checkpoints.fresh = False
                self._comparison(replica).applied()
            if suppliers:
                supplier = suppliers.get(replica.group)
                if supplier is not None:
                    supplier[0].advance()
            if demanders:
                demander = demanders.get(replica.group)
                if demander is not None:
                    demander[0].progressed()

    def tick(self) -> None:
        """A tick of all cores passed."""
        for group, (supplier, _) in list(self._suppliers.items()):
            supplier.tick()
            if not supplier.is_active:
                del self._suppliers[group]
        for demander, _ in list(self._demanders.values()):
            demander.tick()
        for comparison in list(self._comparisons.values()):
            if comparison.is_waiting:
                comparison.tick()

    def stop_supplying(self, replica: Replica) -> None:
        """The replica does not lead any more."""
        known = self._suppliers.pop(replica.group, None)
        if known is not None:
            known[0].close()

    def removed(self, replica: Replica) -> None:
        """The replica stopped; what is staged for it stays, for the next one that runs."""
        self.stop_supplying(replica)
        self._comparisons.pop(replica.group, None)
        known = self._demanders.pop(replica.group, None)
        if known is None or replica.is_volatile:
            return
        demander = known[0]
        demander.stop()
        if demander.is_storing:
            demander.discard()
        staging = demander.staging
        if staging is not None and staging.number != replica.record.data_number:
            self._staged[replica.group] = staging

    def forget(self, group: str) -> None:
        """The replica is erased: so is what was staged for it."""
        staging = self._staged.pop(group, None)
        if staging is not None:
            discard(self._host, group, staging)

    def lowest_index_needed(self, replica: Replica) -> int:
        """The log is needed behind this entry by those that install a snapshot right now."""
        known = self._suppliers.get(replica.group)
        return known[0].lowest_index_needed if known is not None else 1 << 62

    def close(self) -> None:
        """Stop every supply; what is staged stays."""
        for supplier, _ in self._suppliers.values():
            supplier.close()
        self._suppliers.clear()

    # ── what peers say ───────────────────────────────────────────────────────────────────────

    def received(self, frame: CatchUpFrame) -> None:
        """Take a peer's frame. Raises ProtocolError."""
        replica = self._host.replicas.get(frame.group)
        if replica is None or replica.me != frame.to:
            return
        match frame:
            case Demand():
                self._demanded(replica, frame)
            case Invite():
                self._demander(replica).invited(frame)
            case Supply():
                self._demander(replica).supplied(frame)
            case Piece():
                self._demander(replica).piece(frame)
            case Dismissal():
                self._demander(replica).dismissed(frame)
            case Report():
                self._comparison(replica).reported(frame)
            case Verdict():
                self._comparison(replica).judged(frame)

    def _demanded(self, replica: Replica, demand: Demand) -> None:
        known = self._suppliers.get(replica.group)
        if known is not None:
            known[0].demanded(demand)
            return
        answer = Dismissal(
            replica.group, demand.sender, replica.me, replica.raft.term, demand.round
        )
        self._host.send_frame(demand.sender.node, answer)

    def _demander(self, replica: Replica) -> Demander:
        known = self._demanders.get(replica.group)
        if known is None:
            state = _StagedState(self._host, replica)
            demander = Demander(
                group=replica.group,
                me=replica.me,
                raft=replica.raft,
                edge=state,
                staging=None if replica.is_volatile else self._staged.pop(replica.group, None),
            )
            state.demander = demander
            known = self._demanders[replica.group] = demander, state
        return known[0]

    def _comparison(self, replica: Replica) -> Comparison:
        known = self._comparisons.get(replica.group)
        if known is None:
            known = self._comparisons[replica.group] = Comparison(
                group=replica.group,
                me=replica.me,
                raft=replica.raft,
                checkpoints=replica.checkpoints,
                edge=_ComparedReplica(self._host, replica),
            )
        return known

    # ── installing ───────────────────────────────────────────────────────────────────────────

    def claim(self, replica: Replica, meta: SnapshotMeta) -> GroupRecord:
        """The replica's record when it owns the staged cells. Raises LogCorrupt."""
        known = self._demanders.get(replica.group)
        staging = known[0].staging if known is not None else None
        if staging is None or staging.end is None or staging.end.meta != meta:
            raise LogCorrupt(
                f"the core installs a snapshot of index {meta.index} that was not staged here"
            )
        return msgspec.structs.replace(replica.record, data_number=staging.number)

    def install(self, replica: Replica) -> None:
        """The log begins behind the snapshot now: swap the state too."""
        demander, staged = self._demanders[replica.group]
        staging = demander.staging
        assert staging is not None, "claim looked at it before"
        cells: Overlay | MemoryCells
        if isinstance(replica.cells, Overlay):
            data, number, old = self._host.data, staging.number, replica.cells.number
            state, clients = data.state(number), data.clients(number)
            transactions = data.transactions(number)
            cells = Overlay(data, number)

            def forget() -> None:
                data.unstage(replica.group, number)
                data.erase(old)

            self._host.write_data(forget, lambda: None)
        else:
            contents, clients, transactions, state = from_pairs(staged.take(staging))
            cells = MemoryCells(contents)
        replica.replace_state(
            cells,
            Partition(
                cells,
                clients=clients,
                transactions=transactions,
                state=state,
                deduplicate=replica.partition.deduplicate,
            ),
        )
        demander.installed()


class _ComparedReplica:
    """The edge of a comparison."""

    def __init__(self, host: CatchUpHost, replica: Replica) -> None:
        self._host = host
        self._replica = replica

    def send(self, frame: Report | Verdict) -> None:
        self._host.send_frame(frame.to.node, frame)

    def break_down(self, reason: str) -> None:
        self._host.break_down(self._replica, reason)


class _StagedState:
    """The edge of a demander: what it stages lies in the data store, or in memory."""

    demander: Demander

    def __init__(self, host: CatchUpHost, replica: Replica) -> None:
        self._host = host
        self._replica = replica
        self._pairs: dict[int, Pairs] = {}
        self._numbers = 0

    def send(self, frame: Demand) -> bool:
        return self._host.send_frame(frame.to.node, frame)

    def checkpoint(self) -> Checkpoint:
        return checkpoint_of(self._replica.partition)

    def step(self, message: Message) -> bool:
        try:
            self._replica.raft.step(message)
        except LOG_ERRORS as error:
            self._host.break_down(self._replica, str(error))
            return False
        self._host.wake(self._replica)
        return True

    def new_number(self) -> int:
        if not self._replica.is_volatile:
            return self._host.new_number()
        self._numbers += 1
        return self._numbers

    def stage(self, staging: Staging, pairs: Pairs) -> None:
        if self._replica.is_volatile:
            self._pairs.setdefault(staging.number, []).extend(pairs)
            self._stored(staging)
            return
        data, group = self._host.data, self._replica.group
        self._host.write_data(
            lambda: data.stage(group, staging, pairs), lambda: self._stored(staging)
        )

    def _stored(self, staging: Staging) -> None:
        if not self._replica.stopped:
            self.demander.staged(staging)

    def discard(self, staging: Staging) -> None:
        if self._replica.is_volatile:
            self._pairs.pop(staging.number, None)
        else:
            discard(self._host, self._replica.group, staging)

    def state_of(self, staging: Staging) -> tuple[int, int]:
        if self._replica.is_volatile:
            state = state_in(self._pairs[staging.number])
        else:
            try:
                state = self._host.data.state(staging.number)
            except StateCorrupt:
                return 0, 0
        return state.index, state.term

    def break_down(self, reason: str) -> None:
        self._host.break_down(self._replica, reason)

    def take(self, staging: Staging) -> Pairs:
        """A volatile replica's staged state."""
        return self._pairs.pop(staging.number)


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


class _SuppliedState:
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
            meta = self._replica.raft.snapshot_meta(view.state.index)
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

        def was_read(found: _Part | StateCorrupt) -> None:
            if opened.rest() and not self._is_damaged(found):
                assert isinstance(found, _Part), "it is not damaged"
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


def discard(host: CatchUpHost, group: str, staging: Staging) -> None:
    """Delete a snapshot that will not be installed, after what was asked before."""

    def forget() -> None:
        host.data.unstage(group, staging.number)
        host.data.erase(staging.number)

    host.write_data(forget, lambda: None)


def checkpoint_in(view: View) -> Checkpoint:
    """The counters of a state."""
    state = view.state
    return Checkpoint(state.index, state.lwm, state.hwm, state.ranges, state.term)


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
class _Part:
    content: bytes
    last: bytes
    size_bytes: int
    at_end: bool


def part_of(view: View, after: bytes, max_bytes: int) -> _Part | StateCorrupt:
    """What follows `after`, encoded, its last key, its bytes, and whether it reaches the end."""
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
    return _Part(encode_pairs(pairs), last, size_of(pairs), left_bytes > 0)

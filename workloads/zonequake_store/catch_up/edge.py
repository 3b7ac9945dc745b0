"""Catch-up in a node: every replica's supplier, demander and comparison, and the installation.

A state that has arrived lies under a number that no replica owns (`staged_state`); one log commit
makes it the replica's. Until that commit the old state is whole, after it the new one is: there is
no moment between.

Clock, threads, disk and network are the host's (`CatchUpHost`): a real node's or a simulated one's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from zonequake_store.catch_up.checkpoints import checkpoint_of
from zonequake_store.catch_up.comparison import Comparison
from zonequake_store.catch_up.demander import Demander
from zonequake_store.catch_up.host import CatchUpHost
from zonequake_store.catch_up.messages import (
    Checkpoint,
    Demand,
    Dismissal,
    Invite,
    Piece,
    Report,
    ReportVerdict,
    Staging,
    Supply,
)
from zonequake_store.catch_up.staged_state import StagedState, discard
from zonequake_store.catch_up.supplied_state import SuppliedState
from zonequake_store.catch_up.supplier import Supplier
from zonequake_store.errors import LogCorrupt
from zonequake_store.network.peer_protocol import CatchUpFrame
from zonequake_store.raft.api import SupplyPeer
from zonequake_store.raft.messages import SnapshotMeta
from zonequake_store.replica.replica import Replica
from zonequake_store.state.encoding import from_pairs
from zonequake_store.state.partition import StateMachine
from zonequake_store.storage.cells import MemoryCells, Overlay
from zonequake_store.storage.log_writes import GroupRecord


class NodeCatchUp:
    """All catch-up of a node.

    `staged`: what earlier processes have staged, of groups that will be started. `first_snapshot`:
    a number far from those of earlier processes, for a demander that outlived one would mix two.
    """

    def __init__(
        self, host: CatchUpHost, *, staged: Mapping[str, Staging], first_snapshot: int
    ) -> None:
        self._host = host
        self._suppliers: dict[str, tuple[Supplier, SuppliedState]] = {}
        self._demanders: dict[str, tuple[Demander, StagedState]] = {}
        self._comparisons: dict[str, Comparison] = {}
        self._waiting: dict[str, Comparison] = {}
        """The comparisons that wait for an answer."""
        self._staged: dict[str, Staging] = dict(staged)
        """Staged snapshots of replicas that do not run; their demanders go on with them."""
        self._snapshots = first_snapshot

    # ── what the host says ───────────────────────────────────────────────────────────────────

    def supply(self, replica: Replica, request: SupplyPeer) -> None:
        """Begins to supply a peer, as the core asks."""
        known = self._suppliers.get(replica.group)
        if known is None:
            state = SuppliedState(self._host, replica)
            supplier = Supplier(
                group=replica.group,
                me=replica.me,
                raft=replica.core_now(),
                edge=state,
                checkpoint_at=lambda index: replica.checkpoints.at(index, replica.partition),
                may_judge=lambda: self._comparison(replica).is_agreed,
                new_snapshot=self._new_snapshot,
            )
            state.supplier = supplier
            known = self._suppliers[replica.group] = supplier, state
        known[0].begin(request.to)

    def _new_snapshot(self) -> int:
        self._snapshots += 1
        return self._snapshots

    def after_turn(self, replicas: Iterable[Replica]) -> None:
        """Continues the catch-up of these replicas after their turn."""
        suppliers, demanders = self._suppliers, self._demanders
        for replica in replicas:
            if replica.checkpoints.fresh and not replica.stopped:
                replica.checkpoints.fresh = False
                self._waiting[replica.group] = comparison = self._comparison(replica)
                comparison.applied()
            if suppliers:
                supplier = suppliers.get(replica.group)
                if supplier is not None:
                    supplier[0].advance()
            if demanders:
                demander = demanders.get(replica.group)
                if demander is not None:
                    demander[0].progressed()

    def tick(self) -> None:
        """Handles a tick of all cores."""
        for group, (supplier, _) in list(self._suppliers.items()):
            supplier.tick()
            if not supplier.is_active:
                del self._suppliers[group]
        for demander, _ in list(self._demanders.values()):
            demander.tick()
        for group, comparison in list(self._waiting.items()):
            if comparison.is_waiting:
                comparison.tick()
            else:
                del self._waiting[group]

    def stop_supplying(self, replica: Replica) -> None:
        """Records that the replica does not lead any more."""
        known = self._suppliers.pop(replica.group, None)
        if known is not None:
            known[0].close()

    def removed(self, replica: Replica) -> None:
        """Records that the replica stopped; what is staged for it stays, for the next one that
        runs.
        """
        self.stop_supplying(replica)
        self._comparisons.pop(replica.group, None)
        self._waiting.pop(replica.group, None)
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
        """Records that the replica is erased: so is what was staged for it."""
        staging = self._staged.pop(group, None)
        if staging is not None:
            discard(self._host, group, staging)

    def lowest_index_needed(self, replica: Replica) -> int:
        """Returns the index after which installations under way need the log."""
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
            case ReportVerdict():
                self._comparison(replica).judged(frame)

    def _demanded(self, replica: Replica, demand: Demand) -> None:
        known = self._suppliers.get(replica.group)
        if known is not None:
            known[0].demanded(demand)
            return
        answer = Dismissal(
            replica.group, demand.sender, replica.me, replica.core_now().term, demand.round
        )
        self._host.send_frame(demand.sender.node, answer)

    def _demander(self, replica: Replica) -> Demander:
        known = self._demanders.get(replica.group)
        if known is None:
            state = StagedState(self._host, replica)
            demander = Demander(
                group=replica.group,
                me=replica.me,
                raft=replica.core_now(),
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
                raft=replica.core_now(),
                checkpoints=replica.checkpoints,
                edge=_ComparedReplica(self._host, replica),
            )
        return known

    # ── installing ───────────────────────────────────────────────────────────────────────────

    def claim(self, replica: Replica, meta: SnapshotMeta) -> GroupRecord:
        """Returns the replica's record with the staged cells as its own. Raises LogCorrupt."""
        known = self._demanders.get(replica.group)
        staging = known[0].staging if known is not None else None
        if staging is None or staging.end is None or staging.end.meta != meta:
            raise LogCorrupt(
                f"the core installs a snapshot of index {meta.index} that was not staged here"
            )
        return msgspec.structs.replace(replica.record, data_number=staging.number)

    def install(self, replica: Replica) -> None:
        """Installs the staged state in the replica: the log begins after it already."""
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
            StateMachine(
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

    def checkpoint(self) -> Checkpoint:
        return checkpoint_of(self._replica.partition)

    def send(self, frame: Report | ReportVerdict) -> None:
        self._host.send_frame(frame.to.node, frame)

    def break_down(self, reason: str) -> None:
        self._host.break_down(self._replica, reason)

"""Faults in catch-up: in what is supplied, staged, installed and compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
import pytest

from tests.simulation.planted.registry import Planted
from zonequake_store.catch_up import edge, supplied_state
from zonequake_store.catch_up.checkpoints import Checkpoints, checkpoint_of
from zonequake_store.catch_up.comparison import Comparison
from zonequake_store.catch_up.demander import Demander
from zonequake_store.catch_up.edge import NodeCatchUp
from zonequake_store.catch_up.messages import (
    Checkpoint,
    Demand,
    Pairs,
    Piece,
    Staging,
    encode_pairs,
)
from zonequake_store.catch_up.staged_state import StagedState
from zonequake_store.catch_up.supplied_state import SuppliedState, _Opened
from zonequake_store.catch_up.supplier import Supplier
from zonequake_store.errors import StateCorrupt
from zonequake_store.raft.core import Raft
from zonequake_store.raft.messages import Message, Peer, SnapshotMeta
from zonequake_store.raft.peer_supply import PeerSupply
from zonequake_store.raft.reconfigure import Reconfiguration
from zonequake_store.state.client_table import ClientTable
from zonequake_store.state.encoding import EncodedPair
from zonequake_store.state.partition import AppliedState, Cells, StateMachine
from zonequake_store.state.transactions import TransactionTable
from zonequake_store.storage.cells import View
from zonequake_store.storage.data_store import DataStore, DataView


def supply_from_a_wrong_index(patch: pytest.MonkeyPatch) -> None:
    next_append = PeerSupply.next_append

    def off_by_one(supply: PeerSupply, to: Peer, *, index: int, log_term: int) -> Message | None:
        message = next_append(supply, to, index=index, log_term=log_term)
        if message is None or len(message.entries) < 2:
            return message
        later = [msgspec.structs.replace(each, index=each.index - 1) for each in message.entries]
        return msgspec.structs.replace(message, entries=tuple(later[1:]))

    patch.setattr(PeerSupply, "next_append", off_by_one)


def _install_unchecked(patch: pytest.MonkeyPatch) -> None:
    """What was announced is taken for what came."""
    take_whole = Demander._take_whole

    def careless(demander: Demander, staging: Staging) -> None:
        end = staging.end
        assert end is not None
        take_whole(
            demander, msgspec.structs.replace(staging, pairs=end.pairs, size_bytes=end.size_bytes)
        )

    def as_announced(_: object, staging: Staging) -> tuple[int, int]:
        assert staging.end is not None
        return staging.end.meta.index, staging.end.meta.term

    patch.setattr(Demander, "_take_whole", careless)
    patch.setattr(StagedState, "state_of", as_announced)


def piece_skipped_on_resume(patch: pytest.MonkeyPatch) -> None:
    _install_unchecked(patch)
    begin_round, part_of = Supplier._begin_round, supplied_state.part_of
    resumed: list[bytes] = []

    def begin(supplier: Supplier, session: object, demand: Demand) -> None:
        begin_round(supplier, session, demand)  # type: ignore[arg-type]
        if demand.staged is not None:
            resumed.append(demand.staged.after)

    def without_first(view: View, after: bytes, max_bytes: int) -> object:
        part = part_of(view, after, max_bytes)
        if after in resumed and isinstance(part, supplied_state.SnapshotPart):
            resumed.clear()
            return supplied_state.SnapshotPart(encode_pairs([]), part.last, 0, part.at_end)
        return part

    patch.setattr(Supplier, "_begin_round", begin)
    patch.setattr(supplied_state, "part_of", without_first)
    _chain_by_announcement(patch)


def _chain_by_announcement(patch: pytest.MonkeyPatch) -> None:
    """A piece that follows by its number is taken whatever it says that it follows."""
    piece = Demander.piece

    def by_number(demander: Demander, found: Piece) -> None:
        received = demander._received
        if received is not None and found.sequence == received.sequence:
            found = msgspec.structs.replace(found, after=received.after)
        piece(demander, found)

    patch.setattr(Demander, "piece", by_number)


def pieces_of_two_snapshots_mixed(patch: pytest.MonkeyPatch) -> None:
    _install_unchecked(patch)
    begin_round, new_demand = Supplier._begin_round, Demander._demand

    def go_on(supplier: Supplier, session: object, demand: Demand) -> None:
        snapshot = session.snapshot  # type: ignore[attr-defined]
        if snapshot is not None and demand.staged is not None:
            supplier._edge._opened[demand.staged.snapshot] = (  # type: ignore[attr-defined]
                supplier._edge._opened.pop(snapshot.number)  # type: ignore[attr-defined]
            )
            snapshot.number = demand.staged.snapshot
        begin_round(supplier, session, demand)  # type: ignore[arg-type]

    def from_any_node(demander: Demander) -> None:
        if demander.staging is not None and demander._supplier is not None:
            demander.staging = demander._received = msgspec.structs.replace(
                demander.staging, supplier=demander._supplier
            )
        new_demand(demander)

    patch.setattr(Supplier, "_begin_round", go_on)
    patch.setattr(Demander, "_demand", from_any_node)


def state_announced_for_a_later_entry(patch: pytest.MonkeyPatch) -> None:
    _install_unchecked(patch)
    measured = SuppliedState._measured

    def for_the_commit(
        state: SuppliedState,
        to: Peer,
        snapshot: int,
        opened: _Opened,
        found: tuple[int, int] | StateCorrupt,
    ) -> None:
        raft = state._replica.core_now()
        meta = Raft.snapshot_meta

        def latest(core: Raft, index: int) -> SnapshotMeta:
            return meta(core, max(index, core.status().commit))

        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(type(raft), "snapshot_meta", latest)
            measured(state, to, snapshot, opened, found)

    patch.setattr(SuppliedState, "_measured", for_the_commit)


def installed_without_counters(patch: pytest.MonkeyPatch) -> None:
    def uncounted(
        cells: Cells,
        *,
        clients: ClientTable,
        transactions: TransactionTable,
        state: AppliedState,
        deduplicate: bool = True,
    ) -> StateMachine:
        return StateMachine(
            cells,
            clients=clients,
            transactions=transactions,
            state=msgspec.structs.replace(state, lwm=0, hwm=0, ranges=()),
            deduplicate=deduplicate,
        )

    patch.setattr(edge, "StateMachine", uncounted)


def counters_not_compared(patch: pytest.MonkeyPatch) -> None:
    installed_without_counters(patch)
    patch.setattr(Supplier, "_is_unequal", lambda _, __: False)
    patch.setattr(Comparison, "reported", lambda _, __: None)


def staged_before_it_is_stored(patch: pytest.MonkeyPatch) -> None:
    def at_once(state: StagedState, staging: Staging, pairs: Pairs) -> None:
        replica, data = state._replica, state._host.data
        if replica.is_volatile:
            state._pairs.setdefault(staging.number, []).extend(pairs)
        else:
            state._host.write_data(lambda: data.stage(replica.group, staging, pairs), lambda: None)
        state._stored(staging)

    patch.setattr(StagedState, "stage", at_once)
    patch.setattr(StagedState, "state_of", _announced)


def _announced(_: object, staging: Staging) -> tuple[int, int]:
    assert staging.end is not None
    return staging.end.meta.index, staging.end.meta.term


def position_stored_before_the_piece(patch: pytest.MonkeyPatch) -> None:
    stage = DataStore.stage

    def parted(state: StagedState, staging: Staging, pairs: Pairs) -> None:
        replica, data = state._replica, state._host.data
        if replica.is_volatile:
            state._pairs.setdefault(staging.number, []).extend(pairs)
            state._stored(staging)
            return
        write: Callable[..., None] = state._host.write_data
        write(lambda: stage(data, replica.group, staging, []), lambda: None)
        write(lambda: stage(data, replica.group, staging, pairs), lambda: state._stored(staging))

    patch.setattr(StagedState, "stage", parted)


def old_cells_kept_at_the_installation(patch: pytest.MonkeyPatch) -> None:
    claim = NodeCatchUp.claim

    def forgetful(catch_up: NodeCatchUp, replica: object, meta: SnapshotMeta) -> object:
        record = claim(catch_up, replica, meta)  # type: ignore[arg-type]
        return msgspec.structs.replace(
            record,
            data_number=replica.record.data_number,  # type: ignore[attr-defined]
        )

    patch.setattr(NodeCatchUp, "claim", forgetful)


def compared_with_what_is_applied_now(patch: pytest.MonkeyPatch) -> None:
    def whatever(_: Checkpoints, index: int, partition: StateMachine) -> Checkpoint | None:
        now = checkpoint_of(partition)
        return msgspec.structs.replace(now, index=index)

    patch.setattr(Checkpoints, "at", whatever)


def piece_loses_its_last_pair(patch: pytest.MonkeyPatch) -> None:
    pairs = DataView.pairs

    def all_but_one(view: DataView, *given: object) -> Iterator[EncodedPair]:
        found = list(pairs(view, *given))  # type: ignore[arg-type]
        yield from found[:-1] if len(found) > 2 else found

    patch.setattr(DataView, "pairs", all_but_one)


def demander_asks_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Demander, "progressed", lambda demander: None)
    patch.setattr(Demander, "tick", lambda demander: None)


def pieces_beyond_the_rate(patch: pytest.MonkeyPatch) -> None:
    def unpaid(reconfiguration: Reconfiguration, peer: Peer, *position: int) -> None:
        catch_up = reconfiguration._catching_up.get(peer)
        if catch_up is not None:
            catch_up.full(*position)

    patch.setattr(Reconfiguration, "supplied_piece", unpaid)


def _planted(name: str, what: str, apply: Callable[[pytest.MonkeyPatch], None]) -> Planted:
    return Planted(name=name, area="catch_up", scenario="catch-up", what=what, apply=apply)


PLANTED: list[Planted] = [
    _planted(
        "supply-from-a-wrong-index",
        "a historical supply begins one entry too late and says it does not",
        supply_from_a_wrong_index,
    ),
    _planted(
        "piece-skipped-on-resume",
        "a transfer that goes on after a break leaves out a piece, and nobody counts",
        piece_skipped_on_resume,
    ),
    _planted(
        "snapshots-mixed",
        "a transfer that broke off goes on with another snapshot's pieces",
        pieces_of_two_snapshots_mixed,
    ),
    _planted(
        "state-announced-for-a-later-entry",
        "a snapshot is announced as that of the commit index, not of its state",
        state_announced_for_a_later_entry,
    ),
    _planted(
        "installed-without-counters",
        "a full supply's counters are not installed with its cells",
        installed_without_counters,
    ),
    _planted(
        "counters-not-compared",
        "nobody compares counters, and those of full supplies are not installed",
        counters_not_compared,
    ),
    _planted(
        "staged-before-it-is-stored",
        "a piece counts as staged before it is stored, and so a snapshot as whole",
        staged_before_it_is_stored,
    ),
    _planted(
        "position-stored-before-the-piece",
        "how far a transfer is, is stored in a commit before that of its piece",
        position_stored_before_the_piece,
    ),
    _planted(
        "old-cells-kept-at-the-installation",
        "the commit of an installation does not point the replica at the new cells",
        old_cells_kept_at_the_installation,
    ),
    _planted(
        "compared-at-different-entries",
        "counters are compared with those of another entry",
        compared_with_what_is_applied_now,
    ),
    _planted(
        "last-pair-lost-in-snapshot",
        "a full supply leaves out the last pair of the state",
        piece_loses_its_last_pair,
    ),
    _planted(
        "demander-asks-once",
        "a peer that catches up doesn't ask on when something was lost",
        demander_asks_once,
    ),
    _planted(
        "pieces-beyond-the-rate",
        "only entries are counted against the rate of catch-up, pieces are not",
        pieces_beyond_the_rate,
    ),
]

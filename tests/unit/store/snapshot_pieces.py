"""Snapshots as a leader would supply them."""

from __future__ import annotations

import itertools
import zlib

import msgspec

from tests.unit.store.one_node import GROUP, OneNode
from zonequake_store.catch_up.demander import size_of
from zonequake_store.catch_up.messages import Demand, End, Invite, Piece, encode_pairs
from zonequake_store.raft.messages import Configuration, Peer, SnapshotMeta
from zonequake_store.replica.replica import Replica
from zonequake_store.state.client_table import ClientTable
from zonequake_store.state.partition import AppliedState, Cell, StateMachine
from zonequake_store.state.transactions import TransactionTable
from zonequake_store.storage.cells import MemoryCells

LEADER = Peer("n1", "b")


def configuration(replica: Replica) -> Configuration:
    """The leader's and this replica's."""
    return Configuration(peers=tuple(sorted((replica.me, LEADER))), token=1)


def meta_of(replica: Replica, index: int, term: int) -> SnapshotMeta:
    return SnapshotMeta(index, term, configuration(replica), 1)


def snapshot(
    replica: Replica,
    *,
    index: int,
    stream: int,
    term: int = 1,
    state_index: int | None = None,
    parts: int = 2,
) -> list[Piece]:
    """A snapshot of two cells at `index`, in two pieces or one."""
    cells = MemoryCells()
    cells.put("k", Cell(index, index))
    cells.put("l", Cell(-index, index))
    state = AppliedState(index if state_index is None else state_index, term)
    partition = StateMachine(
        cells, clients=ClientTable(), transactions=TransactionTable(), state=state
    )
    pairs = list(cells.view(partition).pairs())
    end = End(meta_of(replica, index, term), len(pairs), size_of(pairs))
    cuts = [0, 2, len(pairs)] if parts == 2 else [0, len(pairs)]
    pieces: list[Piece] = []
    for sequence, (first, last) in enumerate(itertools.pairwise(cuts)):
        content = encode_pairs(pairs[first:last])
        pieces.append(
            Piece(
                group=GROUP,
                to=replica.me,
                sender=LEADER,
                term=term,
                round=0,
                snapshot=stream,
                sequence=sequence,
                after=pairs[first - 1][0] if first else b"",
                crc=zlib.crc32(content),
                content=content,
                end=end if last == len(pairs) else None,
            )
        )
    return pieces


def demands(node: OneNode) -> list[Demand]:
    """What the node asked for."""
    return [frame for frame in node.line.sent if isinstance(frame, Demand)]


def invite(node: OneNode, replica: Replica) -> None:
    """Let the leader be ready to supply."""
    node.host.catch_up.received(Invite(GROUP, replica.me, LEADER, 1, 1))


def supply(node: OneNode, pieces: list[Piece]) -> None:
    """Send pieces in the round of the node's last demand."""
    round_ = demands(node)[-1].round
    for piece in pieces:
        node.host.catch_up.received(msgspec.structs.replace(piece, round=round_))

"""Snapshots as a leader would send them."""

from __future__ import annotations

import zlib

from one_node import GROUP

from zonequake_store.data_store import MemoryCells
from zonequake_store.partition import AppliedState, Cell, ClientTable, Partition
from zonequake_store.peer_protocol import SnapshotPiece, encode_pairs
from zonequake_store.raft.messages import Configuration, Peer, SnapshotMeta
from zonequake_store.replica import Replica
from zonequake_store.transactions import TransactionTable

LEADER = Peer("n1", "b")


def configuration(replica: Replica) -> Configuration:
    """The leader's and this replica's."""
    return Configuration(peers=tuple(sorted((replica.me, LEADER))), token=1)


def meta_of(replica: Replica, index: int, term: int) -> SnapshotMeta:
    return SnapshotMeta(index, term, configuration(replica), 1)


def snapshot(
    replica: Replica, *, index: int, stream: int, term: int = 1, state_index: int | None = None
) -> list[SnapshotPiece]:
    """A snapshot of one cell at `index`, in two pieces."""
    cells = MemoryCells()
    cells.put("k", Cell(index, index))
    state = AppliedState(index if state_index is None else state_index, term)
    partition = Partition(
        cells, clients=ClientTable(), transactions=TransactionTable(), state=state
    )
    pairs = list(cells.view(partition).pairs())
    assert len(pairs) == 2
    contents = [encode_pairs(pairs[:1]), encode_pairs(pairs[1:])]
    metas = [None, meta_of(replica, index, term)]
    return [
        SnapshotPiece(
            GROUP, replica.me, LEADER, stream, n, zlib.crc32(content), content, term, metas[n]
        )
        for n, content in enumerate(contents)
    ]

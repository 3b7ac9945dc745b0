"""The messages between demander and supplier. The package's docstring has their order."""

from __future__ import annotations

import msgspec

from zonequake_store.errors import ProtocolError
from zonequake_store.raft.messages import Message, Peer, SnapshotMeta

Pairs = list[tuple[bytes, bytes]]


class Checkpoint(msgspec.Struct, frozen=True, array_like=True):
    """A replica's update counters when it has applied entry `index`, which is of `term`.

    Only at the same entry must they be equal. By its index alone, a replica that lived on in an
    older lineage would be called broken for what it rightly applied there.
    """

    index: int = 0
    lwm: int = 0
    hwm: int = 0
    ranges: tuple[tuple[int, int], ...] = ()
    term: int = 0

    def is_at(self, other: Checkpoint) -> bool:
        """Returns whether both are of the same entry."""
        return (self.index, self.term) == (other.index, other.term)

    def __str__(self) -> str:
        return f"low watermark {self.lwm}, high {self.hwm}, ranges {list(self.ranges)}"


class Invite(msgspec.Struct, frozen=True, array_like=True, tag="invite"):
    """An invitation to a peer to demand what it lacks from the sender, the leader of `term`, in
    round `round` or a later one.
    """

    group: str
    to: Peer
    sender: Peer
    term: int
    round: int


class Position(msgspec.Struct, frozen=True, array_like=True):
    """The staged part of a snapshot: pieces below `sequence`, keys up to `after`."""

    snapshot: int
    sequence: int
    after: bytes
    size_bytes: int


class Demand(msgspec.Struct, frozen=True, array_like=True, tag="demand"):
    """A demand to a supplier for what follows (index, log_term), where the sender's log ends.

    `checkpoint`: the counters of the sender's applied state. `staged`: the part that it has of the
    supplier's snapshot. `full`: entries do not help, the state is needed. In one round a later
    demand only reports the sender's progress; in a new round the supplier goes on from there.
    """

    group: str
    to: Peer
    sender: Peer
    term: int
    round: int
    index: int
    log_term: int
    checkpoint: Checkpoint
    staged: Position | None = None
    full: bool = False


class Supply(msgspec.Struct, frozen=True, array_like=True, tag="supply"):
    """Entries for a demander, as an APPEND that its core checks like any other."""

    group: str
    to: Peer
    sender: Peer
    round: int
    append: Message


class End(msgspec.Struct, frozen=True, array_like=True):
    """The metadata, the number of pairs and the size of a whole snapshot."""

    meta: SnapshotMeta
    pairs: int
    size_bytes: int


class Piece(msgspec.Struct, frozen=True, array_like=True, tag="piece"):
    """Piece `sequence` (from 0) of a snapshot for a demander: the keys that follow `after`.

    `content` is a MessagePack array of pairs, `crc` its CRC-32; `term` the leader's. The last piece
    carries `end`; it may be empty.
    """

    group: str
    to: Peer
    sender: Peer
    term: int
    round: int
    snapshot: int
    sequence: int
    after: bytes
    crc: int
    content: bytes
    end: End | None = None


class Dismissal(msgspec.Struct, frozen=True, array_like=True, tag="dismissal"):
    """The refusal to supply a demander.

    `unequal`: its reason, if the counters differ at the same index: first those of the demand, then
    the sender's.
    """

    group: str
    to: Peer
    sender: Peer
    term: int
    round: int
    unequal: tuple[Checkpoint, Checkpoint] | None = None


BULK = Supply | Piece
"""Frames that carry data."""


class Report(msgspec.Struct, frozen=True, array_like=True, tag="report"):
    """A follower's counters at the configuration entry that it applied last."""

    group: str
    to: Peer
    sender: Peer
    term: int
    checkpoint: Checkpoint


class ReportVerdict(msgspec.Struct, frozen=True, array_like=True, tag="verdict"):
    """A leader's answer to a report of entry `index`; `unequal`: what was found, what is right."""

    group: str
    to: Peer
    sender: Peer
    term: int
    index: int
    unequal: tuple[Checkpoint, Checkpoint] | None = None


class Staging(msgspec.Struct, frozen=True, array_like=True):
    """The demander's record of a staged snapshot: stored with the pieces, in the same commit.

    `number` is where its edge keeps the pairs. `end`: it is whole.
    """

    number: int
    supplier: Peer
    snapshot: int
    sequence: int = 0
    after: bytes = b""
    pairs: int = 0
    size_bytes: int = 0
    end: End | None = None

    @property
    def position(self) -> Position:
        """The position that the supplier must know."""
        return Position(self.snapshot, self.sequence, self.after, self.size_bytes)


_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Pairs] = msgspec.msgpack.Decoder(Pairs)


def encode_pairs(pairs: Pairs) -> bytes:
    """Encodes the content of a piece."""
    return _encoder.encode(pairs)


def decode_pairs(content: bytes) -> Pairs:
    """Decodes the pairs of a piece. Raises ProtocolError."""
    try:
        return _decoder.decode(content)
    except msgspec.DecodeError as error:
        raise ProtocolError(f"{len(content)} bytes are no pairs of a state: {error}") from error

"""What data nodes say to each other: frames of MessagePack arrays (docs/interfaces.md).

Messages of all groups to one peer travel in one `Messages` frame a turn. A snapshot travels beside
them in pieces, each acknowledged, because as one Raft message it would stall every group's
heartbeats behind it.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from zonequake_store.framing import checked
from zonequake_store.raft.messages import Message, Peer, SnapshotMeta

Pairs = list[tuple[bytes, bytes]]


class Hello(msgspec.Struct, frozen=True, array_like=True, tag="hello"):
    """First frame in both directions: who speaks, and where it can be reached now."""

    node: str
    process_incarnation: str
    peer_address: str
    client_address: str


class Messages(msgspec.Struct, frozen=True, array_like=True, tag="m", gc=False):
    """Raft messages by group; `kept` and `again` are heartbeats and their answers (`repeats`)."""

    groups: list[tuple[str, list[Message]]]
    kept: list[tuple[int, str, Message]] = []
    again: list[int] = []


class SnapshotPiece(msgspec.Struct, frozen=True, array_like=True, tag="piece"):
    """Piece `sequence` (from 0) of a snapshot; the last one carries what it is of.

    `content` is a MessagePack array of pairs, `crc` its CRC-32; `term` the leader's.
    """

    group: str
    to: Peer
    sender: Peer
    stream: int
    sequence: int
    crc: int
    content: bytes
    term: int
    meta: SnapshotMeta | None = None


class SnapshotAck(msgspec.Struct, frozen=True, array_like=True, tag="ack"):
    """Pieces below `following` are stored; `refused` says why no more are wanted."""

    group: str
    to: Peer
    sender: Peer
    stream: int
    following: int
    refused: str | None = None


Frame = Hello | Messages | SnapshotPiece | SnapshotAck

encode_frame = msgspec.msgpack.Encoder().encode
decode_frame: Callable[[bytes | memoryview], Frame] = checked(msgspec.msgpack.Decoder(Frame).decode)
encode_pairs = encode_frame
decode_pairs: Callable[[bytes | memoryview], Pairs] = checked(msgspec.msgpack.Decoder(Pairs).decode)

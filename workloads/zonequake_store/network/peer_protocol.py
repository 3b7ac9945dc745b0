"""The messages between data nodes: frames of MessagePack arrays (docs/interfaces.md).

Messages of all groups to one peer travel in one `Messages` frame a turn. Catch-up speaks beside
them, in frames of its own for each group and peer (`catch_up.messages`), because as one Raft
message a snapshot would stall every group's heartbeats behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import msgspec

from zonequake_store.catch_up.messages import (
    Demand,
    Dismissal,
    Invite,
    Piece,
    Report,
    ReportVerdict,
    Supply,
)
from zonequake_store.network.decoding import checked
from zonequake_store.network.transaction_messages import TransactionMessage
from zonequake_store.raft.messages import Message


class Hello(msgspec.Struct, frozen=True, array_like=True, tag="hello"):
    """The first frame in both directions: the sender's identity, and its present address."""

    node: Annotated[str, msgspec.Meta(max_length=63)]
    process_incarnation: Annotated[str, msgspec.Meta(max_length=64)]
    peer_address: Annotated[str, msgspec.Meta(max_length=300)]
    client_address: Annotated[str, msgspec.Meta(max_length=300)]


class Messages(msgspec.Struct, frozen=True, array_like=True, tag="m", gc=False):
    """Raft messages by group; `kept` and `again` are heartbeats and their answers (`repeats`)."""

    groups: list[tuple[str, list[Message]]]
    kept: list[tuple[int, str, Message]] = []
    again: list[int] = []


class TransactionLetter(msgspec.Struct, frozen=True, array_like=True, tag="tx"):
    """A message about a transaction to the leader of `group`; others drop it."""

    group: str
    message: TransactionMessage


CatchUpFrame = Invite | Demand | Supply | Piece | Dismissal | Report | ReportVerdict
Frame = Hello | Messages | CatchUpFrame | TransactionLetter

encode_frame = msgspec.msgpack.Encoder().encode
decode_frame: Callable[[bytes | memoryview], Frame] = checked(msgspec.msgpack.Decoder(Frame).decode)

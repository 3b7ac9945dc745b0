"""Frames between peers stay far below what a receiver accepts, and nothing is lost or reordered."""

from __future__ import annotations

from zonequake_protocol.frames import MAX_FRAME_BYTES
from zonequake_store.network.peer_protocol import Messages, decode_frame, encode_frame
from zonequake_store.node.outbox import FRAME_BYTES, Outbox
from zonequake_store.raft.messages import Entry, EntryKind, Message, MessageKind, Peer

ME, OTHER = Peer("n0", "a"), Peer("n1", "b")


class Line:
    """A transport that keeps what it is given, or takes nothing."""

    def __init__(self, *, takes: bool = True) -> None:
        self.takes = takes
        self.frames: list[bytes] = []

    def send_messages(self, _node: str, messages: Messages) -> bool:
        if self.takes:
            self.frames.append(encode_frame(messages))
        return self.takes


def append(index: int, size_bytes: int) -> Message:
    entry = Entry(1, index, EntryKind.COMMAND, b"x" * size_bytes)
    return Message(
        kind=MessageKind.APPEND, to=OTHER, sender=ME, term=1, index=index, entries=(entry,)
    )


def test_a_backlog_of_several_groups_is_parted_into_frames_that_a_peer_accepts() -> None:
    line = Line()
    outbox = Outbox(line, lambda *_: None, append_delay_s=0)  # type: ignore[arg-type]
    for group in ("g0", "g1"):
        outbox.add(group, [append(index, 256 * 1024) for index in range(64)])
    outbox.flush()
    assert len(line.frames) >= 2 * 64 * 256 * 1024 // FRAME_BYTES
    assert max(map(len, line.frames)) < MAX_FRAME_BYTES // 2
    arrived: dict[str, list[int]] = {}
    for frame in line.frames:
        decoded = decode_frame(memoryview(frame))
        assert isinstance(decoded, Messages)
        for group, messages in decoded.groups:
            arrived.setdefault(group, []).extend(message.index for message in messages)
    assert arrived == {"g0": list(range(64)), "g1": list(range(64))}


def test_every_append_that_was_not_taken_is_told() -> None:
    told: list[tuple[str, Peer]] = []
    outbox = Outbox(
        Line(takes=False),  # type: ignore[arg-type]
        lambda group, peer: told.append((group, peer)),
        append_delay_s=0,
    )
    outbox.add("g0", [append(index, FRAME_BYTES) for index in range(3)])
    outbox.flush()
    assert told == [("g0", OTHER)] * 3

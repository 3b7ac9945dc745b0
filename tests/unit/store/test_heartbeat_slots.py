"""A heartbeat that says nothing new is sent as a number, and arrives as if it were not."""

from __future__ import annotations

import pytest

from zonequake_store.errors import ProtocolError
from zonequake_store.network import heartbeat_slots
from zonequake_store.network.heartbeat_slots import ReceivedSlots, SentSlots
from zonequake_store.network.peer_protocol import Messages, decode_frame, encode_frame
from zonequake_store.raft.messages import Entry, EntryKind, Message, MessageKind, Peer

ME, OTHER = Peer("n0", "a"), Peer("n1", "b")


def heartbeat(
    commit: int, *, kind: MessageKind = MessageKind.HEARTBEAT, to: Peer = OTHER
) -> Message:
    return Message(kind=kind, to=to, sender=ME, term=3, commit=commit, token=1)


def carried(frame: Messages) -> Messages:
    decoded = decode_frame(encode_frame(frame))
    assert isinstance(decoded, Messages)
    return decoded


def by_group(frame: Messages) -> dict[str, list[Message]]:
    found: dict[str, list[Message]] = {}
    for group, messages in frame.groups:
        found.setdefault(group, []).extend(messages)
    return found


def test_what_arrives_is_what_was_sent_and_repetitions_cost_three_bytes() -> None:
    said, heard = SentSlots(), ReceivedSlots()
    entry = Entry(3, 8, EntryKind.COMMAND, b"x")
    append = Message(
        kind=MessageKind.APPEND, to=OTHER, sender=ME, term=3, index=7, entries=(entry,)
    )
    idle = [
        (f"g{number}", [heartbeat(7), heartbeat(0, kind=MessageKind.HEARTBEAT_REPLY)])
        for number in range(100)
    ]
    frames = [
        Messages(idle),
        Messages(idle),
        Messages([("g0", [append, heartbeat(8)]), *idle[1:]]),
        Messages([("g0", [heartbeat(8)]), ("g1", [heartbeat(7, to=Peer("n1", "c"))]), *idle[2:]]),
        Messages([("g0", [heartbeat(7)]), ("g1", [heartbeat(7)]), *idle[2:]]),
    ]
    sizes = []
    for frame in frames:
        short = said.shortened(frame)
        sizes.append(len(encode_frame(short)))
        assert by_group(heard.in_full(carried(short))) == by_group(frame)
    assert sizes[1] < 3 * 2 * len(idle) < sizes[0] / 10
    assert max(sizes[2:]) < 2 * sizes[1]


def test_a_new_connection_begins_with_nothing_said() -> None:
    frame = Messages([("g0", [heartbeat(1)])])
    assert SentSlots().shortened(frame) == SentSlots().shortened(frame)
    assert by_group(ReceivedSlots().in_full(SentSlots().shortened(frame))) == by_group(frame)


def test_a_number_that_was_never_given_is_refused() -> None:
    with pytest.raises(ProtocolError, match="slot 4 was repeated, but it was never given"):
        ReceivedSlots().in_full(Messages([], [], [4]))
    with pytest.raises(ProtocolError, match="slot -1 was given; expected 0 to 65535"):
        ReceivedSlots().in_full(Messages([], [(-1, "g0", heartbeat(1))]))


def test_more_groups_than_slots_still_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat_slots, "MAX_SLOTS", 3)
    said, heard = SentSlots(), ReceivedSlots()
    for _ in range(3):
        frame = Messages([(f"g{number}", [heartbeat(number)]) for number in range(5)])
        assert by_group(heard.in_full(carried(said.shortened(frame)))) == by_group(frame)

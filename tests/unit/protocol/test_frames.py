"""Frames survive any way that TCP cuts them."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonequake_protocol.frames import MAX_FRAME_BYTES, FrameTooLong, header, split


@given(st.lists(st.binary(max_size=40), max_size=8), st.lists(st.integers(0, 400), max_size=10))
def test_frames_come_out_whole_however_they_are_cut(frames: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    received, found, removed = bytearray(), list[bytes](), 0
    for start, end in itertools.pairwise(edges):
        received += stream[start:end]
        removed += split(received, lambda frame: found.append(bytes(frame)))
        assert removed + len(received) == end
    assert (found, removed) == (frames, len(stream))


def test_the_longest_frame_comes_out_and_a_longer_one_is_refused_before_it_arrives() -> None:
    longest = bytes(MAX_FRAME_BYTES)
    sizes: list[int] = []
    split(bytearray(header(len(longest)) + longest), lambda frame: sizes.append(len(frame)))
    assert sizes == [MAX_FRAME_BYTES]
    with pytest.raises(FrameTooLong, match=rf"^a frame of {MAX_FRAME_BYTES + 1} bytes$"):
        split(bytearray(header(MAX_FRAME_BYTES + 1)), lambda frame: None)


def test_a_view_ends_with_its_call_and_what_the_taker_raises_leaves_the_buffer() -> None:
    kept: list[memoryview] = []

    def take(frame: memoryview) -> None:
        kept.append(frame)
        if frame.tobytes() == b"wrong":
            raise KeyError

    received = bytearray(b"".join(header(len(each)) + each for each in (b"right", b"wrong")))
    before = bytes(received)
    with pytest.raises(KeyError):
        split(received, take)
    assert received == before
    received.clear()  # no view keeps it from shrinking
    with pytest.raises(ValueError, match="released"):
        bytes(kept[0])

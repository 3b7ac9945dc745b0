"""Frames survive any way that TCP cuts them."""

from __future__ import annotations

import asyncio
import itertools

from hypothesis import given
from hypothesis import strategies as st

from zonequake_store.client_protocol import MAX_FRAME_BYTES
from zonequake_store.framing import FrameConnection


class Collected(FrameConnection):
    def __init__(self) -> None:
        super().__init__()
        self.frames: list[bytes] = []
        self.arrived: asyncio.Queue[bytes] = asyncio.Queue()

    def frame_received(self, frame: memoryview) -> None:
        self.frames.append(bytes(frame))
        self.arrived.put_nowait(bytes(frame))


@given(st.lists(st.binary(max_size=40), max_size=8), st.lists(st.integers(0, 400), max_size=10))
def test_frames_come_out_whole_however_they_are_cut(frames: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)
    connection = Collected()
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    for start, end in itertools.pairwise(edges):
        connection.data_received(stream[start:end])
    assert connection.frames == frames


async def test_a_frame_that_is_too_long_closes_the_connection() -> None:
    accepted: list[Collected] = []

    def accept() -> Collected:
        accepted.append(Collected())
        return accepted[-1]

    loop = asyncio.get_running_loop()
    server = await loop.create_server(accept, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write((MAX_FRAME_BYTES + 1).to_bytes(4, "big") + b"x")
    assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()
    server.close()
    assert accepted[0].frames == []


async def test_what_is_sent_in_one_turn_arrives_in_order() -> None:
    received = Collected()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: received, "127.0.0.1", 0)
    _, sender = await loop.create_connection(Collected, *server.sockets[0].getsockname())
    for number in range(100):
        sender.send(str(number).encode())
    async with asyncio.timeout(5):
        arrived = [await received.arrived.get() for _ in range(100)]
    assert arrived == [str(number).encode() for number in range(100)]
    sender.close()
    received.close()
    await asyncio.sleep(0.01)
    server.close()

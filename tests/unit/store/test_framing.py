"""What connections of frames do with what arrives, and with what they send."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from zonequake_protocol.client import Read, Request
from zonequake_protocol.frames import MAX_FRAME_BYTES, header
from zonequake_store.errors import ProtocolError
from zonequake_store.network.decoding import checked
from zonequake_store.network.framing import FrameConnection


class Collected(FrameConnection):
    def __init__(self) -> None:
        super().__init__()
        self.frames: list[bytes] = []
        self.arrived: asyncio.Queue[bytes] = asyncio.Queue()

    def frame_received(self, frame: memoryview) -> None:
        self.frames.append(bytes(frame))
        self.arrived.put_nowait(bytes(frame))


async def test_a_frame_that_is_too_long_closes_the_connection() -> None:
    accepted: list[Collected] = []

    def accept() -> Collected:
        accepted.append(Collected())
        return accepted[-1]

    loop = asyncio.get_running_loop()
    server = await loop.create_server(accept, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(header(MAX_FRAME_BYTES + 1) + b"x")
    assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()
    server.close()
    assert accepted[0].frames == []


@pytest.mark.parametrize(
    "frame",
    [b"", b"\xc1", b"\x93\x01", b"\x92\x01\x91\xa1r", b"\x92\x01\x94\xa1r\xa1\xff\xa1k\xc2"],
    ids=["empty", "no MessagePack", "cut", "fields missing", "no UTF-8"],
)
def test_what_is_not_of_the_protocol_is_one_error_of_ours(frame: bytes) -> None:
    decode = checked(msgspec.msgpack.Decoder(Request).decode)
    assert decode(b"\x92\x01\x94\xa1r\xa1g\xa1k\xc2") == Request(1, Read("g", "k"))
    with pytest.raises(ProtocolError, match=f"^{len(frame)} bytes"):
        decode(memoryview(frame))


def test_a_frame_that_is_not_of_the_protocol_closes_the_connection_and_nothing_else() -> None:
    class Strict(Collected):
        def frame_received(self, frame: memoryview) -> None:
            if bytes(frame) == b"wrong":
                raise ProtocolError("wrong")
            super().frame_received(frame)

    connection = Strict()
    frames = [b"right", b"wrong", b"behind"]
    connection.data_received(b"".join(header(len(each)) + each for each in frames))
    assert connection.frames == [b"right"]
    connection.data_received(b"")


async def test_what_is_sent_in_one_turn_arrives_in_order() -> None:
    received = Collected()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: received, "127.0.0.1", 0)
    _, sender = await loop.create_connection(Collected, *server.sockets[0].getsockname())
    for number in range(100):
        sender.send(str(number).encode())
    async with asyncio.timeout(60):
        arrived = [await received.arrived.get() for _ in range(100)]
    assert arrived == [str(number).encode() for number in range(100)]
    sender.close()
    received.close()
    await asyncio.sleep(0.01)
    server.close()

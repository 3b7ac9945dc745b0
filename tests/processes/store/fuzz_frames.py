"""Atheris over framing and decoding: whatever arrives, only ProtocolError may come of it.

    python -m tests.processes.store.fuzz_frames -max_total_time=600

Led by coverage of the decoders' Python code; msgspec's own is not instrumented. The first byte
chooses the protocol. Not part of any group: minutes find what seconds don't.
"""

from __future__ import annotations

import asyncio
import struct
import sys

import atheris

with atheris.instrument_imports(include=["zonequake_protocol", "zonequake_store"]):
    import msgspec

    from zonequake_protocol.admin import OrderBatch
    from zonequake_protocol.client import Request
    from zonequake_store.catch_up.messages import Invite
    from zonequake_store.errors import ProtocolError
    from zonequake_store.network.decoding import checked
    from zonequake_store.network.framing import FrameConnection, FrameFlush
    from zonequake_store.network.heartbeat_slots import ReceivedSlots
    from zonequake_store.network.peer_protocol import Messages, decode_frame

decode_request = checked(msgspec.msgpack.Decoder(Request).decode)
decode_orders = msgspec.json.Decoder(OrderBatch).decode


class Transport(asyncio.Transport):
    """Takes what is written, and may be closed."""

    closing = False

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    def abort(self) -> None:
        self.closing = True

    def write(self, data: object) -> None:
        del data


class Connection(FrameConnection):
    """Decodes as a client's and a peer's connection do, and goes no further."""

    def __init__(self, protocol: int) -> None:
        super().__init__(FrameFlush())
        self._protocol = protocol
        self._heard = ReceivedSlots()

    def frame_received(self, frame: memoryview) -> None:
        if self._protocol == 0:
            decode_request(frame)
            return
        decoded = decode_frame(frame)
        if isinstance(decoded, Messages):
            self._heard.in_full(decoded)
        elif isinstance(decoded, Invite):
            repr(decoded)


def try_one(data: bytes) -> None:
    """Both as it is, and as one whole frame."""
    protocol, said = data[:1], data[1:]
    match protocol[0] % 3 if protocol else 2:
        case 2:
            try:
                decode_orders(said)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                return
        case number:
            for bytes_in in (said, struct.pack(">I", len(said)) + said):
                connection = Connection(number)
                connection.connection_made(Transport())
                try:
                    connection.data_received(bytes_in)
                except ProtocolError as error:
                    raise AssertionError("the connection takes those itself") from error


if __name__ == "__main__":
    atheris.Setup(sys.argv, try_one)
    atheris.Fuzz()

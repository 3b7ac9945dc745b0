"""Connections that send and receive frames, for both the peer and the client protocol.

What is written within one pass of the loop leaves in one call, so that a burst of replies costs one
system call, not one each; `FrameFlush` says when.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from zonequake_protocol.frames import FrameTooLong, header, split
from zonequake_store.errors import ProtocolError
from zonequake_tls.connection_limits import ConnectionLimits

# TLS passes a whole write on to a buffer that isn't counted; later bytes are counted once the
# kernel takes no more.
_WRITE_BYTES = 256 << 10


class FrameFlush:
    """Sends the frames of its connections: with `flush`, or in the loop's next pass.

    A pass costs a call of the kernel for nothing, so the main writer holds the frames until it has
    written the last one, and flushes. `hold` must be followed by `flush`.
    """

    def __init__(self) -> None:
        self._waiting: list[Callable[[], None]] = []
        self._will_flush = False

    def hold(self) -> None:
        """`flush` will be called before the loop goes on."""
        self._will_flush = True

    def add(self, leave: Callable[[], None]) -> None:
        """Adds a function that is called when frames leave."""
        self._waiting.append(leave)
        if not self._will_flush:
            self._will_flush = True
            asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        """Sends everything that waits."""
        self._will_flush = False
        waiting, self._waiting = self._waiting, []
        for leave in waiting:
            leave()


class FrameConnection(asyncio.Protocol):
    """One connection. Subclasses take frames in `frame_received`.

    A frame that cannot be read closes the connection: after it nothing can be trusted.
    """

    def __init__(
        self, frame_flush: FrameFlush | None = None, limits: ConnectionLimits | None = None
    ) -> None:
        """`frame_flush`: those that this connection shares with others. `limits`: of the port that
        it came in by."""
        self._limits = limits
        self._has_spoken = False
        self._is_half = False
        self._received = bytearray()
        self._outgoing: list[bytes] = []
        self._outgoing_bytes = 0
        self._transport: asyncio.Transport | None = None
        self._frame_flush = frame_flush or FrameFlush()

    def frame_received(self, frame: memoryview) -> None:
        """Take one frame; the view is valid during the call only. May raise ProtocolError."""
        raise NotImplementedError

    def closed(self) -> None:
        """Records that the connection is gone."""

    def opened(self) -> None:
        """Records that the connection is there."""

    @property
    def is_open(self) -> bool:
        """Returns whether something can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def unsent_bytes(self) -> int:
        """Bytes that the kernel did not take yet, with those of frames that have yet to depart."""
        return self._outgoing_bytes + (
            self._transport.get_write_buffer_size() if self._transport else 0
        )

    def send(self, frame: bytes) -> None:
        """Send a frame with the next flush; dropped if the connection is gone."""
        if not self._outgoing:
            self._frame_flush.add(self._flush)
        self._outgoing.append(header(len(frame)))
        self._outgoing.append(frame)
        self._outgoing_bytes += len(frame)

    def abort(self) -> None:
        """Closes at once; discards buffered input and output."""
        self._received = bytearray()
        self._drop_outgoing()
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """Send what is due, then close."""
        self._flush()
        if self._transport is not None:
            self._transport.close()

    def _flush(self) -> None:
        outgoing = self._outgoing
        self._drop_outgoing()
        if not outgoing or not self.is_open or self._transport is None:
            return
        data = b"".join(outgoing)
        if len(data) <= _WRITE_BYTES:
            self._transport.write(data)
            return
        view = memoryview(data)
        for begin in range(0, len(data), _WRITE_BYTES):
            self._transport.write(view[begin : begin + _WRITE_BYTES])

    def _drop_outgoing(self) -> None:
        self._outgoing, self._outgoing_bytes = [], 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not subclasses of asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        self.opened()
        if self._limits is not None:
            self._limits.entered(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._drop_outgoing()
        self._received = bytearray()
        if self._limits is not None:
            self._limits.left(self)
        self.closed()

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        try:
            took_frames = split(received, self.frame_received) > 0
        except (FrameTooLong, ProtocolError):
            self.close()
            received.clear()
            took_frames = True
        if self._limits is not None:
            self._count(self._limits, took_frames=took_frames)

    def _count(self, limits: ConnectionLimits, *, took_frames: bool) -> None:
        """Tell the limits what changed, which for a connection of whole frames is nothing."""
        if took_frames:
            if not self._has_spoken:
                self._has_spoken = True
                limits.spoke(self)
            if self._is_half:
                self._is_half = False
                limits.whole(self)
        if self._received and self._transport is not None:
            self._is_half = True
            limits.holds(self, len(self._received))

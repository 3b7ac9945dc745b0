"""netfilter's packet queues over netlink: receives packets as numbers and sizes, sends verdicts.

The message formats are the kernel's (linux/netfilter/nfnetlink_queue.h).
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

_NETFILTER = 12
_SUBSYSTEM = 3 << 8
_PACKET, _VERDICT, _CONFIG = _SUBSYSTEM | 0, _SUBSYSTEM | 1, _SUBSYSTEM | 2
_REQUEST, _ACK, _ERROR = 1, 4, 2
_CONFIG_COMMAND, _CONFIG_COPY, _CONFIG_LENGTH, _CONFIG_MASK, _CONFIG_FLAGS = 1, 2, 3, 4, 5
_BIND, _COPY_PACKET, _ACCEPT, _GSO = 1, 2, 1, 4
_PACKET_HEADER, _LENGTH, _VERDICT_HEADER, _KIND = 1, 13, 2, 0x3FFF
_HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")
_RECEIVE_BUFFER_FORCE = 33
_BUFFER_BYTES = 8 << 20
_COPIED_BYTES = 1
WAITING_PACKETS = 8192
"""Packets that a queue holds; more are dropped, as by a router."""


class QueueRefused(Exception):
    """Raised when the kernel refuses a queue; the text says why."""


@dataclass(frozen=True, slots=True, order=True)
class HeldPacket:
    """A packet that the kernel holds until its verdict."""

    queue: int
    number: int
    size: int


class QueueSocket:
    """A netlink socket that owns queues of the network namespace in which it was created."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETFILTER)
        self._socket.bind((0, 0))
        self._socket.setsockopt(socket.SOL_SOCKET, _RECEIVE_BUFFER_FORCE, _BUFFER_BYTES)

    def fileno(self) -> int:
        return self._socket.fileno()

    def bind(self, queue: int) -> None:
        """Binds the queue. Raises QueueRefused."""
        for attribute in (
            _attribute(_CONFIG_COMMAND, struct.pack(">BBH", _BIND, 0, 0)),
            # The kernel reports the size with the copy, whose content is not needed.
            _attribute(_CONFIG_COPY, struct.pack(">IB", _COPIED_BYTES, _COPY_PACKET)),
            _attribute(_CONFIG_LENGTH, struct.pack(">I", WAITING_PACKETS)),
            _attribute(_CONFIG_FLAGS, struct.pack(">I", _GSO))
            + _attribute(_CONFIG_MASK, struct.pack(">I", _GSO)),
        ):
            self._socket.send(_message(_CONFIG, queue, attribute, flags=_REQUEST | _ACK))
            answer = self._socket.recv(65536)
            code = struct.unpack_from("=i", answer, _HEADER.size)[0]
            if code:
                raise QueueRefused(f"netfilter queue {queue}: {os.strerror(-code)}")

    def receive(self) -> Iterator[HeldPacket]:
        """Waits for a packet; returns all that have arrived."""
        try:
            data = self._socket.recv(1 << 20)
        except OSError:
            return  # the kernel's buffer ran over: those packets are dropped, the others continue
        at = 0
        while at + _HEADER.size <= len(data):
            length, kind, *_ = _HEADER.unpack_from(data, at)
            if kind == _PACKET:
                yield _waiting(data, at, length)
            at += (length + 3) & ~3

    def accept(self, packet: HeldPacket) -> None:
        """Releases a packet."""
        verdict = _attribute(_VERDICT_HEADER, struct.pack(">II", _ACCEPT, packet.number))
        self._socket.send(_message(_VERDICT, packet.queue, verdict, flags=_REQUEST))


def _waiting(data: bytes, at: int, length: int) -> HeldPacket:
    queue = struct.unpack_from(">H", data, at + _HEADER.size + 2)[0]
    number = size = 0
    place, end = at + _HEADER.size + 4, at + length
    while place + _ATTRIBUTE.size <= end:
        size_of, kind = _ATTRIBUTE.unpack_from(data, place)
        content = place + _ATTRIBUTE.size
        if kind & _KIND == _PACKET_HEADER:
            number = struct.unpack_from(">I", data, content)[0]
        elif kind & _KIND == _LENGTH:  # of the whole packet, as the copy is shorter
            size = struct.unpack_from(">I", data, content)[0]
        place += (size_of + 3) & ~3
    return HeldPacket(queue=queue, number=number, size=size)


def _attribute(kind: int, content: bytes) -> bytes:
    length = _ATTRIBUTE.size + len(content)
    return _ATTRIBUTE.pack(length, kind) + content + b"\0" * (-length % 4)


def _message(kind: int, queue: int, attributes: bytes, *, flags: int) -> bytes:
    body = struct.pack("=BBH", 0, 0, socket.htons(queue)) + attributes
    return _HEADER.pack(_HEADER.size + len(body), kind, flags, 1, 0) + body

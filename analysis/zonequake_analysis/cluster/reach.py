"""Tries to connect to a place of a cluster, for which Spark itself may wait many minutes."""

from __future__ import annotations

import socket
from contextlib import suppress

LAST_PORT = 65535
CONNECT_S = 5.0
"""Longest time that one connection may take."""
ANSWER_S = 2.0
"""Longest time that an answer may take."""
PARTIAL_FRAME = b"GET /\r\n"
"""A request of HTTP 0.9. Spark's frames begin with eight bytes of length, of which these are seven:
its master logs no error, and ends the connection as we do.
"""
_ANSWER_BYTES = 256


def refusal(host: str, port: int) -> OSError | None:
    """Returns why nothing can be connected to there; None if it can. An IPv6 `host` may stand in
    brackets.
    """
    try:
        socket.create_connection((host.strip("[]"), port), timeout=CONNECT_S).close()
    except OSError as error:
        return error
    return None


def answer_to_a_partial_frame(host: str, port: int) -> bytes:
    """Returns what is answered there to a request that is no whole frame of Spark's protocol: a web
    server says something, a Spark master nothing, as it waits for the rest. Raises OSError if
    nothing can be connected to there.
    """
    connection = socket.create_connection((host.strip("[]"), port), timeout=CONNECT_S)
    with connection, suppress(OSError):
        connection.settimeout(ANSWER_S)
        connection.sendall(PARTIAL_FRAME)
        connection.shutdown(socket.SHUT_WR)
        return connection.recv(_ANSWER_BYTES)
    return b""

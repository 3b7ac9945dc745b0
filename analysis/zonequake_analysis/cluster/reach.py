"""Tries to connect to a place of a cluster, for which Spark itself may wait many minutes."""

from __future__ import annotations

import socket

CONNECT_S = 5.0
"""Longest time that one connection may take."""


def refusal(host: str, port: int) -> OSError | None:
    """Returns why nothing can be connected to there; None if it can. An IPv6 `host` may stand in
    brackets.
    """
    try:
        socket.create_connection((host.strip("[]"), port), timeout=CONNECT_S).close()
    except OSError as error:
        return error
    return None

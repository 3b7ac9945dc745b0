"""Measures round trips to a port: a TCP connection's first packet and its answer."""

from __future__ import annotations

import socket
import time

_PAUSE_S = 0.02


def round_trips_ms(address: str, port: int, count: int, *, timeout_s: float) -> list[float | None]:
    """Measures `count` round trips, one after another; None for each without an answer in time.

    A refusal is an answer too: it came from the other end.
    """
    found: list[float | None] = []
    for _ in range(count):
        started_ns = time.monotonic_ns()
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout_s)
            try:
                connection.connect((address, port))
            except ConnectionRefusedError:
                pass
            except OSError:
                found.append(None)
                continue
            found.append((time.monotonic_ns() - started_ns) / 1e6)
        time.sleep(_PAUSE_S)
    return found

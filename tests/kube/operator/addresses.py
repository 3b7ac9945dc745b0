"""Where data nodes listen: their ports are fixed, so each process has addresses of its own."""

from __future__ import annotations

import os

SUBNET = f"127.{64 + os.getpid() // 256 % 128}.{os.getpid() % 256}"
"""Of two workers of one run, each has its own."""


def address(ordinal: int) -> str:
    """Where the data node of this ordinal listens."""
    return f"{SUBNET}.{10 + ordinal}"


def client_addresses(nodes: int) -> list[str]:
    """Where clients find the first `nodes` data nodes."""
    return [f"{address(ordinal)}:7002" for ordinal in range(nodes)]


def told_address(ordinal: int) -> str:
    """Where a relay listens for what is meant for this data node."""
    return f"{SUBNET}.{110 + ordinal}"

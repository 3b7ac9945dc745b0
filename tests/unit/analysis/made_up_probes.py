"""Vantages that probed writes of one partition, and their runs of failures or of silence."""

from __future__ import annotations

from zonequake_analysis.measures.availability.probes import Island, Vantage

SECOND = 1_000_000_000
EVERY_NS = SECOND // 10


def vantage(name: str = "load-0", *, first_s: float = 0, last_s: float = 30) -> Vantage:
    """One that probed ten times a second."""
    return Vantage(
        zone="z",
        partition=0,
        function="write",
        vantage=name,
        probes=300,
        failed=60,
        interval_ns=EVERY_NS,
        first_ns=int(first_s * SECOND),
        last_ns=int(last_s * SECOND),
    )


def island(
    begin_s: float,
    end_s: float,
    *,
    name: str = "load-0",
    silent: bool = False,
    failed: int = 1,
    inside_ns: int = 0,
) -> Island:
    """From success to success; `inside_ns`: so much later its first probe failed, and so much
    earlier its last one. Of a silence nothing is certain.
    """
    begin, end = int(begin_s * SECOND), int(end_s * SECOND)
    return Island(
        zone="z",
        partition=0,
        function="write",
        vantage=name,
        silent=silent,
        failed=failed,
        possible=(begin, end),
        certain=(begin, begin) if silent else (begin + inside_ns, end - inside_ns),
    )

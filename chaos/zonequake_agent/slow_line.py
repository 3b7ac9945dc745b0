"""Computes when a packet leaves a slow line: by a rate, a delay, and a jitter around it. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class SlowLine:
    """One direction of a slow link.

    A packet first waits in line and is sent at the rate, then travels for the delay. With jitter
    the travel times differ, so that one packet may overtake another, as in tc's netem.
    """

    delay_ms: float
    jitter_ms: float
    bytes_per_second: int
    _free_ns: int = 0

    def leaves_ns(self, *, now_ns: int, size: int, draw: float) -> int:
        """Returns the time at which a packet of `size` bytes that arrived at `now_ns` leaves;
        `draw` is in [-1, 1].
        """
        sent_ns = max(now_ns, self._free_ns)
        if self.bytes_per_second:
            sent_ns += size * 1_000_000_000 // self.bytes_per_second
            self._free_ns = sent_ns
        return sent_ns + int((self.delay_ms + draw * self.jitter_ms) * 1e6)

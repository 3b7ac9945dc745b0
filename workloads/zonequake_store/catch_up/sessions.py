"""The supplier's record of a peer that it supplies."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from zonequake_store.catch_up.messages import Checkpoint, End
from zonequake_store.raft.messages import Peer


@dataclass(slots=True, kw_only=True)
class OpenSnapshot:
    """A state that is open for a peer. `index` 0: not open yet."""

    number: int
    index: int = 0
    end: End | None = None
    checkpoint: Checkpoint | None = None
    reading: bool = False
    sent: int = 0
    after: bytes = b""
    sent_bytes: int = 0
    acknowledged: int = 0
    whole: bool = False
    """The last piece was sent."""


@dataclass(slots=True, kw_only=True)
class SupplySession:
    """One supplied peer. `index`, `log_term`: where the next APPEND begins."""

    peer: Peer
    round: int = 0
    silent_ticks: int = 0
    invited: bool = False
    """An invitation left; it may have got lost."""
    asked: bool = False
    begun: bool = False
    """A round began, and nothing was sent in it yet."""
    full: bool = False
    index: int = 0
    log_term: int = 0
    in_flight: deque[int] = field(default_factory=deque)
    snapshot: OpenSnapshot | None = None

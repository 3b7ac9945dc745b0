"""One node's replica as what-if supposes it, and where the file says that its log ends."""

from __future__ import annotations

from dataclasses import dataclass

from zonequake_protocol.admin import ConfigurationReport

LINEAGE = 10**9
"""A whole term is lineage x 10**9 + number; the file has only numbers."""


@dataclass(slots=True)
class SupposedReplica:
    """A replica on one node's disk or in its memory."""

    incarnation: str
    running: bool = False
    token: int = 0
    enforced_lineage: int = 0
    had_leader: bool = False
    configuration: ConfigurationReport | None = None
    configuration_at: tuple[int, int] = (0, 0)
    """(whole term, index) at which its peers or its token changed last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnd:
    """The end of a replica's log: of all entries, and of user commands; (whole term, index)."""

    last: tuple[int, int] = (0, 0)
    user: tuple[int, int] = (0, 0)

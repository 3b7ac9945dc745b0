"""The errors that Ignite answers with, and which of them are certain. Pure.

A change of one row is one message that writes and commits at once (`full` in `InternalTableImpl`).
An error is certain if it comes before the primary replica replicates that. After everything else
the write may be there or may come yet.
"""

from __future__ import annotations

from zonequake_load.errors import AnsweredError
from zonequake_target_ignite.client.protocol.messages import ServerError

_GROUPS = {
    1: "CMN", 2: "TBL", 3: "CLIENT", 4: "SQL", 5: "META", 6: "IDX", 7: "TX", 8: "REP",
    9: "STORAGE", 10: "DISTRZONES", 11: "NETWORK", 12: "NODECFG", 18: "PLACEMENTDRIVER",
}  # fmt: skip

CERTAIN = {
    "IGN-TX-4": "a lock isn't had: nothing is replicated before all locks are",
    "IGN-TX-5": "a lock isn't had in time: as IGN-TX-4",
}
"""Names of errors that come before the commit, each with the reason (Ignite 3.1, its sources).

A node tries again by itself after IGN-TX-4 and after errors of a replica that is not primary, which
come as early (`exceptionAllowsImplicitTxRetry`).
"""


class IgniteError(AnsweredError):
    """A node answered with an error, which Ignite names like `IGN-TX-4`."""

    def __init__(self, *, name: str, message: str, certain: bool) -> None:
        super().__init__(f"{name} {message}", certain=certain)
        self.name = name


def name_of(code: int) -> str:
    """Returns the name of a code: its group is in the upper half."""
    group = code >> 16 & 0xFFFF
    return f"IGN-{_GROUPS.get(group, group)}-{code & 0xFFFF}"


def answered(error: ServerError) -> IgniteError:
    """Returns the error that a node answered with."""
    name = name_of(error.code)
    return IgniteError(name=name, message=error.message, certain=name in CERTAIN)

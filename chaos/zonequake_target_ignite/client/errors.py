"""The errors that Ignite answers with, and which of them are certain. Pure.

A statement without a transaction of its own is carried out in one that the node begins and
commits. An error is certain if it comes before that commit, for the node then rolls back and lets
nothing be seen of it. Everything else may be the failure of the commit, or of the one message that
writes and commits at once (`full` in `InternalTableImpl`), after which the write may be there or
may come yet.
"""

from __future__ import annotations

from zonequake_load.errors import AnsweredError
from zonequake_target_ignite.client.messages import ServerError

_GROUPS = {
    1: "CMN", 2: "TBL", 3: "CLIENT", 4: "SQL", 5: "META", 6: "IDX", 7: "TX", 8: "REP",
    9: "STORAGE", 10: "DISTRZONES", 11: "NETWORK", 12: "NODECFG", 18: "PLACEMENTDRIVER",
}  # fmt: skip

DUPLICATE_KEY = "IGN-SQL-5"
"""A constraint is violated: here only that of the primary key, by an INSERT."""

CERTAIN = {
    "IGN-SQL-2": "no such schema: looked up before the statement is planned",
    "IGN-SQL-3": "the statement can't be parsed",
    "IGN-SQL-4": "the statement names what there isn't, or has the wrong types: not yet planned",
    DUPLICATE_KEY: "the primary replica finds the key before it replicates anything",
    "IGN-SQL-8": "no node can be found for a part of the statement: no part of it runs yet",
    "IGN-TX-4": "a lock isn't had: the statement ends before its commit is asked for",
    "IGN-TX-5": "a lock isn't had in time: as IGN-TX-4",
}
"""Names of errors that come before the commit, each with the reason (Ignite 3.1, its sources)."""


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

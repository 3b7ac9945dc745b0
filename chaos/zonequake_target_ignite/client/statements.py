"""The table of a zone, and the statements that the load sends. Pure.

    K   the key, by which rows are spread over partitions
    V   a register's integer, or a list's integers with commas between
    F   a register's filler, written in the same statement and never read

The table and its distribution zone both have the name of the scenario's zone. Each statement names
one key, so that Ignite needs only that partition's primary replica; a MERGE, which would write a
key that may be absent in one statement, needs those of all partitions.
"""

from __future__ import annotations

from zonequake_protocol.client import Value

LIST_MARK = ","
"""Ends each element of a list, so that a list of one is no register."""

LONGEST_TEXT = 65_536
"""The length of a VARCHAR that Ignite takes for one without a length."""


def quoted(name: str) -> str:
    """Returns a name as an SQL identifier that keeps its letters."""
    return '"' + name.replace('"', '""') + '"'


def create_table(zone: str) -> str:
    return (
        f"CREATE TABLE IF NOT EXISTS {quoted(zone)} (K VARCHAR PRIMARY KEY, "
        f"V VARCHAR({LONGEST_TEXT}), F VARBINARY({1 << 20})) ZONE {quoted(zone)}"
    )


def select(zone: str) -> str:
    return f"SELECT V FROM {quoted(zone)} WHERE K = ?"  # noqa: S608 - a quoted name


def update(zone: str, *, filler: bool) -> str:
    """Returns a write of a key that is there: new value, filler, key."""
    filled = ", F = ?" if filler else ""
    return f"UPDATE {quoted(zone)} SET V = ?{filled} WHERE K = ?"  # noqa: S608


def append(zone: str) -> str:
    """Returns an append to a list that is there: element, key."""
    return f"UPDATE {quoted(zone)} SET V = V || ? WHERE K = ?"  # noqa: S608


def swap(zone: str) -> str:
    """Returns a cas: new value, key, expected value."""
    return f"UPDATE {quoted(zone)} SET V = ? WHERE K = ? AND V = ?"  # noqa: S608


def insert(zone: str, *, filler: bool = False) -> str:
    """Returns the creation of a key: value, filler, key. It fails if the key is there."""
    columns, values = ("V, F, K", "?, ?, ?") if filler else ("V, K", "?, ?")
    return f"INSERT INTO {quoted(zone)} ({columns}) VALUES ({values})"  # noqa: S608


def stored(value: int | str) -> str:
    """Returns a register's value as text."""
    return str(value)


def element(value: int | str) -> str:
    """Returns an element of a list as it is appended."""
    return f"{value}{LIST_MARK}"


def read(text: str | None) -> Value:
    """Returns a value as it was written; one in another form is shown as text."""
    if text is None:
        return None
    try:
        if text.endswith(LIST_MARK):
            return [int(each) for each in text[: -len(LIST_MARK)].split(LIST_MARK)]
        return int(text)
    except ValueError:
        return text

"""The table of a zone, and the statements that the load sends. Pure.

    K   the key, by which rows are spread over partitions
    V   a register's integer, or a list's integers with commas between
    F   a register's filler, written in the same statement and never read

A table is made of each distribution zone, and both have the name of the scenario's zone.
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


def write(zone: str, *, filler: bool) -> str:
    """Returns an upsert of key and value, and of the filler behind them."""
    if filler:
        return _merge(zone, "V = S.V, F = S.F", ("K", "V", "F"))
    return _merge(zone, "V = S.V", ("K", "V"))


def append(zone: str) -> str:
    """Returns the statement that appends one element, with its mark, or begins the list."""
    return _merge(zone, "V = T.V || S.V", ("K", "V"))


def swap(zone: str) -> str:
    """Returns a cas: new value, key, expected value."""
    return f"UPDATE {quoted(zone)} SET V = ? WHERE K = ? AND V = ?"  # noqa: S608


def insert(zone: str) -> str:
    """Returns a cas that expects the key to be absent."""
    return f"INSERT INTO {quoted(zone)} (K, V) VALUES (?, ?)"  # noqa: S608


def _merge(zone: str, change: str, columns: tuple[str, ...]) -> str:
    types = {"K": "VARCHAR", "V": "VARCHAR", "F": "VARBINARY"}
    given = ", ".join(f"CAST(? AS {types[name]}) AS {name}" for name in columns)
    names, values = ", ".join(columns), ", ".join(f"S.{name}" for name in columns)
    return (
        f"MERGE INTO {quoted(zone)} T USING (SELECT {given}) S ON T.K = S.K "  # noqa: S608
        f"WHEN MATCHED THEN UPDATE SET {change} "
        f"WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({values})"
    )


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

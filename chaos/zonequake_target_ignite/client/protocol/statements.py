"""The table of a zone, and how values stand in its rows. Pure.

    K   the key, by which rows are spread over partitions
    V   a register's integer, or a list's integers with commas between
    F   a register's filler, written with the value and never looked at

The table and its distribution zone both have the name of the scenario's zone.
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

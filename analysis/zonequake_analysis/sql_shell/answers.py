"""The rows of a query as text: a table for people, CSV and JSON for programs."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime
from enum import StrEnum
from typing import TextIO

import msgspec

from zonequake_analysis.text.untrusted_text import one_line, visible

NULL = "NULL"


class Form(StrEnum):
    """The format in which rows are written."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


def write_rows(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    out: TextIO,
    *,
    form: Form,
    most: int | None = None,
) -> None:
    """Writes rows as they come; of a table at most `most`, and a line that says so.

    Raises ValueError for columns that JSON can't tell apart.
    """
    match form:
        case Form.TABLE:
            out.writelines(line + "\n" for line in _table(columns, rows, most))
        case Form.CSV:
            writer = csv.writer(out, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows([_csv(value) for value in row] for row in rows)
        case Form.JSON:
            twice = sorted({name for name in columns if columns.count(name) > 1})
            if twice:
                raise ValueError(
                    f"found the column {', '.join(twice)} twice, expected names of their own for "
                    "JSON: rename one by AS"
                )
            out.writelines(_json(dict(zip(columns, row, strict=True))) + "\n" for row in rows)


def _table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], most: int | None
) -> Iterator[str]:
    all_rows = iter(rows)
    kept = list(itertools.islice(all_rows, most))
    is_cut = most is not None and next(all_rows, None) is not None
    if len(kept) == len(columns) == 1 and isinstance(text := kept[0][0], str) and "\n" in text:
        yield visible(text)  # a plan of EXPLAIN: unreadable in one line
        return
    texts = [[_shown(value) for value in row] for row in kept]
    names = [one_line(name) for name in columns]
    widths = [max(map(len, column)) for column in zip(names, *texts, strict=True)]
    to_the_right = [all(_is_number(row[number]) for row in kept) for number in range(len(names))]
    for line in [names, ["-" * width for width in widths], *texts]:
        yield "  ".join(
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, to_the_right, strict=True)
        ).rstrip()
    rows_word = "row" if len(kept) == 1 else "rows"
    more = f"{len(kept)} {rows_word}, and more: --rows, or LIMIT and OFFSET, show others"
    yield more if is_cut else f"{len(kept)} {rows_word}"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | None) and not isinstance(value, bool)


def _shown(value: object) -> str:
    """Renders a value for a terminal, in one line, without characters that a reader can't see."""
    match value:
        case None:
            return NULL
        case bool():
            return str(value).lower()
        case int() | float() | datetime() | date():
            return str(value)
        case str():
            return one_line(value)
        case _:
            return one_line(_json(value))


def _csv(value: object) -> object:
    """Renders a value as CSV holds it: null is empty, what has parts is JSON."""
    match value:
        case bool():
            return str(value).lower()
        case None | int() | float() | str() | datetime() | date():
            return value
        case _:
            return _json(value)


def _json(value: object) -> str:
    return msgspec.json.encode(_plain(value), enc_hook=str).decode()


def _plain(value: object) -> object:
    """Turns a row within a row into a mapping by its fields' names; all else stays as it is."""
    if hasattr(value, "asDict"):
        return {name: _plain(inner) for name, inner in value.asDict().items()}
    if isinstance(value, dict):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value

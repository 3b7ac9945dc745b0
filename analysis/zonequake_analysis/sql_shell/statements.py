"""Statements of a person: which are queries, and what Spark says of one in a sentence. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection

QUERIES = ("SELECT", "WITH", "VALUES", "TABLE", "DESCRIBE", "DESC", "SHOW", "EXPLAIN")
"""First words of statements that only read."""

_COMMENT = r"--[^\r\n]*|/\*.*?\*/"
_LITERAL = r"""\br'[^']*'|\br"[^"]*"|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\""""
_OTHERS = r"""`[^`]*`|['"`].*|/\*.*"""
"""Names in quotes; and what is begun, and not ended."""
_PARTS = re.compile(
    rf"(?P<comment>{_COMMENT})|(?P<end>;)|(?P<literal>{_LITERAL})|{_OTHERS}",
    re.DOTALL | re.IGNORECASE,
)
_FORBIDDEN = re.compile(
    r"\bINSERT\s+(?:INTO|OVERWRITE)\b"
    r"|\b(?:java_method|(?:try_)?reflect)\b(?=`?\s*\()"
    r"|\bIDENTIFIER\b(?=\s*\()"  # the name of a function may stand in its text
    r"|\bUSING\b(?=\s*(?:r\s*)?['\"])",  # a program of SELECT TRANSFORM, MAP or REDUCE
    re.IGNORECASE,
)
_CLASS = re.compile(r"^\[([A-Z_.0-9]+)\]\s*")
_STATE = re.compile(r"\s*SQLSTATE: \w+")
_NO_TABLE = re.compile(r"^The table or view `?([^\s`]+(?:`\.`[^\s`]+)*)`? cannot be found")
_PLACE = re.compile(r"[;(]?\s*\(?line (\d+),? pos (\d+)\)?")


class StatementRefused(Exception):
    """A statement that can't be answered, with a sentence for its author."""


def cut(text: str) -> tuple[list[str], str]:
    """Returns the statements that end in the text, and the beginning of the next one.

    A `;` in a comment or between quotes ends none. What has only comments is no statement.
    """
    ended, begun = [], 0
    for part in _PARTS.finditer(text):
        if part["end"]:
            ended.append(text[begun : part.end()])
            begun = part.end()
    return [one for one in ended if _has_words(one)], text[begun:] * _has_words(text[begun:])


def _without_comments(text: str) -> str:
    return _PARTS.sub(lambda part: " " if part["comment"] else part[0], text)


def _without_literals(text: str) -> str:
    """Returns a statement without the texts in it, or with them if it may have comments: Spark ends
    those elsewhere in rare cases, so that a text here could be none there."""
    if "--" in text or "/*" in text:
        return _without_comments(text)
    return _PARTS.sub(lambda part: "''" if part["literal"] else part[0], text)


def _has_words(text: str) -> bool:
    return bool(_without_comments(text).strip(" \t\r\n;"))


def query_of(text: str) -> str:
    """Returns the statement without its end. Raises StatementRefused for none, and for no query."""
    statement = text.strip().rstrip(";").rstrip()
    words = re.findall(r"\w+", _without_comments(statement))
    if not words:
        raise StatementRefused(
            "found no statement, expected a query such as SELECT * FROM findings"
        )
    if words[0].upper() not in QUERIES:
        raise StatementRefused(
            f"found {words[0]}, expected a query: one that begins with {', '.join(QUERIES)}; a "
            "run's tables are only read"
        )
    if found := _FORBIDDEN.search(_without_literals(statement)):
        raise StatementRefused(
            f"found {' '.join(found.group().split())}, expected a query of the run's tables alone: "
            "no INSERT, no function that calls Java, no IDENTIFIER(...), and no program"
        )
    return statement


def in_a_sentence(said: str, tables: Collection[str]) -> str:
    """Returns what Spark said of a statement, without class, state, plan and Java's stack."""
    first = said.strip().partition("\n")[0].strip()
    found = _CLASS.match(first)
    words = _CLASS.sub("", first)
    unknown = _NO_TABLE.match(words)
    if unknown is not None or (found and found.group(1) == "TABLE_OR_VIEW_NOT_FOUND"):
        name = unknown.group(1).replace("`", "") if unknown else "of this name"
        return f"found no table {name}, expected one of {', '.join(sorted(tables))}"
    place = _PLACE.search(said)
    words = _PLACE.sub("", _STATE.sub("", words)).rstrip(" ;,.(")
    at = f" (line {place.group(1)}, column {int(place.group(2)) + 1})" if place else ""
    return f"{words}{at}"

"""Reads EDN text into Python values, entry by entry, with lines. Reads a file once, in pieces.

It is our own reader because a history has 200,000 entries (`docs/dependencies.md` has the times of
the existing packages). It reads all EDN that Jepsen prints.

    nil true 3 3N 1.5 1/2     None, True, 3, 3, 1.5, Symbol("1/2")
    ##NaN ##Inf               Symbol("##NaN"), Symbol("##Inf")
    "text" :name name         str, Keyword, Symbol
    [..] (..)                 list
    #{2 1}                    Symbol("#{1 2}"): a set is one value, and no pair of a key and another
    {..}                      dict
    #any.tag{..}              the value after the tag
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from zonequake_analysis.errors import ImportRefused


class Keyword(str):
    """A keyword with its colon, such as `:read`."""

    __slots__ = ()


class Symbol(str):
    """A bare word that is no number, such as `foo/bar`, or a character, such as `\\a`."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class EdnEntry:
    """A value, and the line (from 1) of the file on which it begins."""

    line: int
    value: object


_END = r'\s,;"\[\](){}'
_TOKEN = re.compile(
    rf"""[\s,]*(
    \#?{{|[\[\]()}}]
    |"(?:[^"\\]|\\.)*"
    |"(?s:.*)
    |\#_|\#[^{_END}]+
    |\\.[^{_END}]*|[^{_END}]+
    |;.*
    )""",
    re.VERBOSE,
)
_NUMBER = re.compile(r"[+-]?\d+(?P<part>\.\d*)?(?P<power>[eE][+-]?\d+)?[NM]?\Z")
_CONSTANTS: dict[str, object] = {"nil": None, "true": True, "false": False}
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_CLOSES = {"[": "]", "(": ")", "{": "}", "#{": "}"}
_OPENS = {"]", ")", "}"}
_AROUND = ("", "[", "(")
_MOST_KNOWN = 100_000
_LONGEST_NUMBER = 300
_DEEPEST = 100


class _OpenCollection:
    """A collection that is not closed yet. `dropping`: how many of the next values are left out."""

    __slots__ = ("bracket", "dropping", "items", "line")

    def __init__(self, bracket: str, line: int) -> None:
        self.bracket, self.line = bracket, line
        self.items: list[object] = []
        self.dropping = 0


def entries(lines: Iterable[str], *, file: str) -> Iterator[EdnEntry]:
    """Yields the values of a text: those at its top, or those of the one vector or list there.

    Raises ImportRefused if the text is not EDN.
    """
    known: dict[str, object] = dict(_CONSTANTS)
    top = _OpenCollection("", 1)
    stack = [top]
    for number, line in _whole_strings(lines, file):
        for word in _TOKEN.findall(line):
            begins = number
            first = word[0]
            if first.isdecimal() and word.isdecimal() and len(word) <= _LONGEST_NUMBER:
                value: object = int(word)
            elif word in known:
                value = known[word]
            elif word in _CLOSES:
                if len(stack) > _DEEPEST:
                    raise ImportRefused(
                        file, number, "", f"found values more than {_DEEPEST} levels deep"
                    )
                stack.append(_OpenCollection(word, number))
                continue
            elif word in _OPENS:
                value = _closed(stack, word, file, number)
                begins = stack.pop().line
            elif first == '"':
                value = _unescaped(word[1:-1]) if "\\" in word else word[1:-1]
            elif word == "#_":
                stack[-1].dropping += 1
                continue
            elif first in "#;" and not word.startswith("##"):
                continue
            else:
                value = _named(word)
                if first == ":" and len(known) < _MOST_KNOWN:
                    known[word] = value
            owner = stack[-1]
            if owner.dropping:
                owner.dropping -= 1
            elif len(stack) > 2 or owner.bracket not in _AROUND:
                owner.items.append(value)
            elif owner is not top or word not in "])" or value != []:
                # The vector around all entries closes as a value too, and is empty by then.
                yield EdnEntry(begins, value)
    if len(stack) > 1:
        raise ImportRefused(
            file,
            stack[-1].line,
            "",
            f"found a {stack[-1].bracket!r} that is never closed; the file may be cut off: "
            "remove what is not whole",
        )


def _closed(stack: list[_OpenCollection], bracket: str, file: str, line: int) -> object:
    """Returns the value of the collection on top of the stack, which stays there."""
    done = stack[-1]
    if _CLOSES.get(done.bracket) != bracket:
        opened = f" for the {done.bracket!r} of line {done.line}" if done.bracket else ""
        raise ImportRefused(file, line, "", f"found a {bracket!r}{opened}; nothing to close by it")
    items = done.items
    if done.bracket == "#{":
        return Symbol(f"#{{{' '.join(sorted(map(text_of, items)))}}}")
    if done.bracket != "{":
        return items
    if len(items) % 2:
        raise ImportRefused(file, line, "", "found a map with a key that has no value")
    keys = [key if isinstance(key, str | int) else text_of(key) for key in items[::2]]
    return dict(zip(keys, items[1::2], strict=True))


def _whole_strings(lines: Iterable[str], file: str) -> Iterator[tuple[int, str]]:
    """Yields the lines with their numbers; a string over several lines makes them one line."""
    begun: list[str] = []
    begun_at = 0
    for number, line in enumerate(lines, 1):
        if begun:
            if '"' not in line:
                begun.append(line)
                continue
            begun.append(line)
            line = "".join(begun)
        if '"' in line and _torn(line):
            begun, begun_at = [line], begun_at if begun else number
            continue
        yield (begun_at if begun else number), line
        begun = []
    if begun:
        raise ImportRefused(file, begun_at, "", "found a string that is never closed")


def _torn(line: str) -> bool:
    """Returns whether the line's last string has no end on it."""
    if "\\" not in line and ";" not in line and not line.count('"') % 2:
        return False
    tokens = _TOKEN.findall(line)
    return bool(tokens) and tokens[-1][0] == '"' and not _STRING.fullmatch(tokens[-1])


def _named(name: str) -> object:
    if name[0] == ":":
        return Keyword(name)
    number = _NUMBER.match(name) if len(name) <= _LONGEST_NUMBER else None
    if number is None:
        return Symbol(name)
    digits = name.rstrip("NM")
    if number["part"] or number["power"] or name[-1] == "M":
        return float(digits)
    return int(digits)


def _unescaped(text: str) -> str:
    plain = _ESCAPE.sub(
        lambda m: chr(int(m[1][1:], 16)) if len(m[1]) > 1 else _ESCAPED.get(m[1], m[1]), text
    )
    # Two halves escape a character beyond 16 bits; one half alone is no character.
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def text_of(value: object) -> str:
    """Returns a value as EDN on one line; without keywords it is nearly JSON."""
    match value:
        case None:
            return "nil"
        case True | False:
            return str(value).lower()
        case Keyword() | Symbol():
            return str(value)
        case str():
            return msgspec.json.encode(value).decode()
        case list():
            return f"[{' '.join(map(text_of, value))}]"
        case dict():
            return f"{{{', '.join(f'{text_of(k)} {text_of(v)}' for k, v in value.items())}}}"
        case _:
            return str(value)


_NOT_BARE = tuple('0123456789+-:[{("#\\')


def text_of_key(key: object) -> str:
    """Returns a key's name: strings are bare unless that is ambiguous, so that 1 and "1" stay
    two.
    """
    bare = (
        type(key) is str
        and key != ""
        and not key.startswith(_NOT_BARE)
        and key not in ("nil", "true", "false")
    )
    return str(key) if bare else text_of(key)

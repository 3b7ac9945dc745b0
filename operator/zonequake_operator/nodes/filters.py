"""The data nodes filter (document `distribution-zones`, DATA_NODES_FILTER; design §3).

    ("US" || "EU") && "SSD"      groups, or, and         "US", "EU"        a list is an or
    !"COMPUTE_ONLY"              not                     contains("eu-")  some attribute contains it
    /zone=eu-.*/                 a regular expression that matches a whole attribute

A node's attributes, as texts: its name; `key=value` for each of its attributes with a value; the
bare `key` if that is empty or `true`; and each item of the attribute `tags` (`tags: "SSD,EU"`). So
the bare tag "US" isn't the value of `region=US`, and a tag isn't `SSD=`. Typographic quotes are
accepted, as the document has them.

`&&` binds tighter than `||`, which binds tighter than the list's comma.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import re2
from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedToken, VisitError
from lark.parsers.lalr_interactive_parser import InteractiveParser

from zonequake_operator.errors import FilterError

MAX_FILTER_CHARS = 1024
MAX_NESTING = 30
"""Groups and negations within each other. Each takes a few frames of Python's stack, and one that
ran over would end every round of its zone."""
MAX_REGEX_BYTES = 1 << 20
"""Memory of one compiled expression. RE2 matches in linear time, so this bounds a hostile one."""

TAGS_ATTRIBUTE = "tags"

Predicate = Callable[[frozenset[str]], bool]

_GRAMMAR = r"""
    start: listed
    ?listed: ored ("," ored)* -> either
    ?ored: both ("||" both)* -> either
    ?both: unary ("&&" unary)*
    ?unary: "!" unary -> negation
          | atom
    ?atom: TAG -> tag
         | "contains" "(" TAG ")" -> contains
         | REGEX -> regex
         | "(" listed ")"
    TAG: /["“”„][^"“”„]+["“”„]/
    REGEX: /\/(\\.|[^\/\\])+\//
    AND: "&&"
    OR: "||"
    %ignore /\s+/
"""

_EXPECTED = {
    "TAG": 'a quoted tag ("SSD")',
    "CONTAINS": 'contains("…")',
    "REGEX": "/a regular expression/",
    "BANG": "!",
    "LPAR": "(",
    "AND": "&&",
    "OR": "||",
    "COMMA": "','",
    "RPAR": ")",
    "$END": "the end",
}
"""The terminals in words for readers, in the order in which they are named."""

_OPENING = ("LPAR", "BANG")
_QUOTES = '"“”„'
_WORD = re.compile(r"\w[-\w.=]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """A parsed filter."""

    text: str
    _predicate: Predicate

    def matches(self, name: str, attributes: Mapping[str, str]) -> bool:
        """Returns whether the node passes the filter."""
        return self._predicate(attribute_texts(name, attributes))


def attribute_texts(name: str, attributes: Mapping[str, str]) -> frozenset[str]:
    """Returns the texts that a filter sees of a node: see the head of this module."""
    texts = {name}
    for key, value in attributes.items():
        if value:
            texts.add(f"{key}={value}")
        if value in ("", "true"):
            texts.add(key)
        if key == TAGS_ATTRIBUTE:
            texts.update(tag.strip() for tag in value.split(",") if tag.strip())
    return frozenset(texts)


@lru_cache(maxsize=256)
def parse(text: str) -> Filter:
    """Parse a filter.

    Raises:
        FilterError: it isn't well formed; with the position and what was expected there.
    """
    if len(text) > MAX_FILTER_CHARS:
        problem = f"longer than {MAX_FILTER_CHARS} characters"
        raise FilterError(text, MAX_FILTER_CHARS, problem)
    reading = _PARSER.parse_interactive(text)
    try:
        for token in reading.iter_parse():
            if token.type in _OPENING and _nesting(reading) == MAX_NESTING:
                problem = f"nested deeper than {MAX_NESTING} groups and negations"
                raise FilterError(text, (token.start_pos or 0) + 1, problem)
        tree = reading.feed_eof()  # type: ignore[no-untyped-call]
        predicate: Predicate = _Build(text).transform(tree)
    except UnexpectedCharacters as error:
        at = error.pos_in_stream or 0
        raise FilterError(text, at + 1, _unreadable(text, at, _accepted(reading))) from None
    except UnexpectedToken as error:
        at_end = error.token.type == "$END"
        found = "the end" if at_end else repr(str(error.token))
        position = len(text) + 1 if at_end else (error.pos_in_stream or 0) + 1
        expected = _expected(_accepted(reading))
        raise FilterError(text, position, f"found {found}, expected {expected}") from None
    except VisitError as error:
        if isinstance(error.orig_exc, FilterError):
            raise error.orig_exc from None
        raise
    return Filter(text=text, _predicate=predicate)


def _nesting(reading: InteractiveParser) -> int:
    """Returns how many groups and negations are open at this point."""
    values = reading.parser_state.value_stack
    return sum(isinstance(value, Token) and value.type in _OPENING for value in values)


def _accepted(reading: InteractiveParser) -> set[str]:
    """Returns the terminals that could have come next."""
    found: set[str] = reading.accepts()  # type: ignore[no-untyped-call]
    return found


def _unreadable(text: str, at: int, accepted: set[str]) -> str:
    """Returns what is wrong where no terminal begins."""
    rest = text[at:]
    if rest[0] in _QUOTES:
        if rest[1:2] and rest[1] in _QUOTES:
            return f"found an empty tag, expected {_expected({'TAG'})}"
        return "the tag that begins here has no closing quote"
    if rest[0] == "/":
        if rest[1:2] == "/":
            return "found an empty regular expression"
        return "the regular expression that begins here has no closing /"
    word = _WORD.match(rest)
    if word is None:
        return f"found {rest[0]!r}, expected {_expected(accepted)}"
    hint = f'; if it is a tag, quote it: "{word[0]}"' if "TAG" in accepted else ""
    return f"found {word[0]!r}, expected {_expected(accepted)}{hint}"


def _expected(terminals: Iterable[str]) -> str:
    known = list(_EXPECTED)
    *others, last = (_EXPECTED[each] for each in sorted(terminals, key=known.index))
    return f"{', '.join(others)} or {last}" if others else last


@v_args(inline=True)
class _Build(Transformer[Token, Predicate]):
    """Turns the syntax tree into one predicate over a node's attribute texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def start(self, inner: Predicate) -> Predicate:
        return inner

    def either(self, *parts: Predicate) -> Predicate:
        return lambda texts: any(part(texts) for part in parts)

    def both(self, *parts: Predicate) -> Predicate:
        return lambda texts: all(part(texts) for part in parts)

    def negation(self, inner: Predicate) -> Predicate:
        return lambda texts: not inner(texts)

    def tag(self, quoted: Token) -> Predicate:
        tag = quoted[1:-1]
        return lambda texts: tag in texts

    def contains(self, quoted: Token) -> Predicate:
        part = quoted[1:-1]
        return lambda texts: any(part in text for text in texts)

    def regex(self, slashed: Token) -> Predicate:
        options = re2.Options()
        options.max_mem = MAX_REGEX_BYTES
        options.log_errors = False
        try:
            compiled = re2.compile(slashed[1:-1].replace(r"\/", "/"), options)
        except re2.error as error:
            problem = error.args[0] if error.args else "unknown"
            sentence = problem.decode() if isinstance(problem, bytes) else str(problem)
            raise FilterError(
                self._text, (slashed.start_pos or 0) + 1, f"the regular expression: {sentence}"
            ) from None
        return lambda texts: any(compiled.fullmatch(text) is not None for text in texts)


_PARSER = Lark(_GRAMMAR, parser="lalr", propagate_positions=False)

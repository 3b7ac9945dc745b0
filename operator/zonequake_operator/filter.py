"""The data nodes filter (document `distribution-zones`, DATA_NODES_FILTER; design §3).

    ("US" || "EU") && "SSD"      groups, or, and         "US", "EU"        a list is an or
    !"COMPUTE_ONLY"              not                     contains("eu-")  some attribute contains it
    /zone=eu-.*/                 a regular expression that matches a whole attribute

A node's attributes, as texts: its name; `key=value` for each of its attributes; the bare `key` if
the value is empty or `true`; and each item of the attribute `tags` (`tags: "SSD,EU"`). So the bare
tag "US" isn't the value of `region=US`. Typographic quotes are accepted, as the document has them.
`&&` binds tighter than `||`, which binds tighter than the list's comma.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import re2
from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedToken, VisitError

from .errors import FilterError

MAX_FILTER_CHARS = 1024
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
    %ignore /\s+/
"""

_EXPECTED = {
    "TAG": 'a quoted tag ("SSD")',
    "REGEX": "/a regular expression/",
    "CONTAINS": 'contains("…")',
    "BANG": "!",
    "LPAR": "(",
    "RPAR": ")",
    "COMMA": ",",
    "__ANON_0": "||",
    "__ANON_1": "&&",
    "$END": "the end",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """A parsed filter."""

    text: str
    _predicate: Predicate

    def matches(self, name: str, attributes: Mapping[str, str]) -> bool:
        """Does the node pass?"""
        return self._predicate(attribute_texts(name, attributes))


def attribute_texts(name: str, attributes: Mapping[str, str]) -> frozenset[str]:
    """The texts that a filter sees of a node: see the head of this module."""
    texts = {name}
    for key, value in attributes.items():
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
        raise FilterError(
            text[:40] + "…", MAX_FILTER_CHARS, f"longer than {MAX_FILTER_CHARS} characters"
        )
    try:
        predicate: Predicate = _Build(text).transform(_PARSER.parse(text))
    except UnexpectedCharacters as error:
        at = error.pos_in_stream or 0
        raise FilterError(
            text, at + 1, f"found {text[at]!r}, expected {_expected(error.allowed)}"
        ) from None
    except UnexpectedEOF as error:
        raise FilterError(
            text, len(text) + 1, f"found the end, expected {_expected(error.expected)}"
        ) from None
    except UnexpectedToken as error:
        at_end = error.token.type == "$END"
        found = "the end" if at_end else repr(str(error.token))
        position = len(text) + 1 if at_end else (error.pos_in_stream or 0) + 1
        raise FilterError(
            text, position, f"found {found}, expected {_expected(error.accepts or error.expected)}"
        ) from None
    except VisitError as error:
        if isinstance(error.orig_exc, FilterError):
            raise error.orig_exc from None
        raise
    return Filter(text=text, _predicate=predicate)


def _expected(tokens: Iterable[str] | None) -> str:
    names = sorted({_EXPECTED.get(token, token) for token in tokens or ("TAG",)})
    return " or ".join(names)


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

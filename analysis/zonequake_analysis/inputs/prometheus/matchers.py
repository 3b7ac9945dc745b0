"""Label matchers as PromQL writes them: `__name__=~"zonequake_.*",pod="a"`. Pure."""

from __future__ import annotations

import re

from zonequake_analysis.errors import PrometheusError

TYPES = {"=": 0, "!=": 1, "=~": 2, "!~": 3}
"""Operators with their numbers in remote_read's protocol."""

_ESCAPES = {r"\\": "\\", r"\"": '"', r"\n": "\n"}
"""Escapes of a text of PromQL, which remote_read takes without them."""

_MATCHER = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*\s*(?:=~|!~|!=|=)\s*"(?:[^"\\]|\\.)*")\s*(?:,|$)')


def matchers_in(text: str) -> list[str]:
    """Returns the matchers of a selector without its braces. Raises PrometheusError."""
    found: list[str] = []
    at = 0
    while at < len(text):
        match = _MATCHER.match(text, at)
        if match is None:
            raise PrometheusError(
                f'match: found {text[at:]!r}, expected name="value" with =, !=, =~ or !~, several '
                "with commas between them, and no braces"
            )
        found.append(match[1])
        at = match.end()
    return found


def matcher(text: str) -> tuple[int, str, str]:
    """Returns `name=~"value"` as (type, name, value). Raises PrometheusError."""
    for operator in ("=~", "!~", "!=", "="):
        name, found, value = text.partition(operator)
        value = value.strip()
        if found and name and value[:1] == value[-1:] == '"' and len(value) >= 2:
            return TYPES[operator], name.strip(), _unescaped(value[1:-1])
    raise PrometheusError(f'matcher {text!r}: expected name="value" with =, !=, =~ or !~')


def _unescaped(text: str) -> str:
    def meant(found: re.Match[str]) -> str:
        if found[0] not in _ESCAPES:
            raise PrometheusError(
                f"matcher value {text!r}: found {found[0]}, expected \\\\ for a backslash (PromQL)"
            )
        return _ESCAPES[found[0]]

    return re.sub(r"\\.?", meant, text)

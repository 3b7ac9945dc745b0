"""A live Prometheus that an analysis is to read a run's metrics from: its URL, and which series."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from zonequake_analysis.errors import PrometheusError
from zonequake_analysis.inputs.prometheus.matchers import matcher, matchers_in

_EXPECTED = "expected http://host:port, or https://, with a path if the server has one"


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveServer:
    """`url`: the server's base URL; `match`: label matchers that must all hold, as PromQL writes
    them without braces; empty for all series.
    """

    url: str
    match: str = ""

    @classmethod
    def of(cls, url: str, match: str = "") -> Self:
        """Returns the server that a user named. Raises PrometheusError for a URL or matchers that
        there can't be.
        """
        check_url(url)
        for one in matchers_in(match):
            matcher(one)
        return cls(url=url.rstrip("/"), match=match)


def check_url(url: str) -> None:
    """Raises PrometheusError for a URL that can't be meant, without repeating what may be a
    credential.
    """
    scheme, found, rest = url.partition("://")
    if "@" in url:
        raise PrometheusError(f"found a user's name in the URL, {_EXPECTED}")
    if "?" in url or "#" in url:
        raise PrometheusError(f"found options in the URL, {_EXPECTED}")
    if scheme not in ("http", "https") or not found:
        raise PrometheusError(f"found {url!r}, {_EXPECTED}")
    if not rest.partition("/")[0]:
        raise PrometheusError(f"found {url!r} without a host, {_EXPECTED}")

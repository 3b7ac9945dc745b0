"""Reads the URL of a Spark Connect server, whose options may hold a token and are told nowhere."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

from zonequake_analysis.cluster.reach import LAST_PORT
from zonequake_analysis.errors import SessionError

_CONNECT = "sc://"
_CONNECT_URL = re.compile(
    rf"({_CONNECT}([^:/;@?#\[\]\s]+|\[[0-9a-fA-F:.]+\])(?::(\d{{1,5}}))?)(?:/(?:;(.+))?)?"
)
_CONNECT_OPTION = re.compile(r"[^=/?#\s]+=([^=/?#\s]*)")
"""An option that Spark's client reads; it shows any other one in an error, with its value."""
_CONNECT_PORT = 15002


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectServer:
    """A Spark Connect server. `values`: those of its URL's options, of which one may be a token."""

    host: str
    port: int
    values: tuple[str, ...]


def connect_server(remote: str) -> ConnectServer:
    """Returns the server that a URL names. Raises SessionError, without a word of the URL."""
    found = _CONNECT_URL.fullmatch(remote)
    if found is None or int(found[3] or _CONNECT_PORT) not in range(1, LAST_PORT + 1):
        raise SessionError(
            "--remote or SPARK_REMOTE: expected sc://host:port, with options only after /;"
        )
    options = [_CONNECT_OPTION.fullmatch(each) for each in (found[4] or "").split(";") if found[4]]
    values = [option[1] for option in options if option is not None]
    if len(values) < len(options):
        raise SessionError(
            "--remote or SPARK_REMOTE: found an option after /; that is no name=value, expected "
            "them as in sc://host:port/;use_ssl=true;token=…, and in a value %3D for =, %2F for /, "
            "%3B for ;, %3F for ?, %23 for # and %20 for a space"
        )
    return ConnectServer(
        host=found[2],
        port=int(found[3] or _CONNECT_PORT),
        values=tuple(filter(None, (*values, *map(unquote, values)))),
    )


def without_options(url: str) -> str:
    """Returns a URL of Spark as it may be told: options of Spark Connect may hold a token."""
    if not url.startswith(_CONNECT):
        return url
    found = _CONNECT_URL.fullmatch(url)
    return f"{_CONNECT}…" if found is None else found[1]

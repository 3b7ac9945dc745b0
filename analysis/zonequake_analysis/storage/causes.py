"""A store's errors in words for people: the location, the store's message, and the likely cause."""

from __future__ import annotations

import errno
import os
import random
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

from zonequake_analysis.errors import AnalysisError, LocationError
from zonequake_analysis.storage import limits

_T = TypeVar("_T")

_UNREACHABLE = (
    "nothing answers at this store: is its address right (AWS_ENDPOINT_URL; of HDFS the URI), does "
    "it run, and does a firewall let this machine connect?"
)
_CAUSES = (
    (
        r"NO_SUCH_BUCKET|NoSuchBucket|Bucket .*does not exist|bucket does not exist",
        "there is no such bucket at this endpoint",
    ),
    (
        r"INVALID_ACCESS_KEY_ID|InvalidAccessKeyId|SIGNATURE_DOES_NOT_MATCH|SignatureDoesNotMatch"
        r"|INVALID_SIGNATURE|EXPIRED_TOKEN|ExpiredToken|INVALID_CLIENT_TOKEN|UNRECOGNIZED_CLIENT",
        "the store refuses these credentials: see AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, "
        "AWS_SESSION_TOKEN, AWS_PROFILE of this process, and its clock",
    ),
    (
        r"ACCESS_DENIED|AccessDenied|HTTP status 403|Permission",
        "these credentials, or their absence, don't allow it: a run's location needs rights to "
        "list, read, write and delete",
    ),
    (
        r"HTTP status 30[17]|PermanentRedirect|configured region",
        "the bucket is in another region: set AWS_REGION",
    ),
    (
        r"Failed to flush|SLOW_DOWN|SlowDown|THROTTL|HTTP status 503",
        "the store is too busy: try again later",
    ),
    (
        r"No NameNode hosts found|fs\.defaultFS",
        "no configuration names this HDFS: write hdfs://host:port, or let HADOOP_CONF_DIR name the "
        "folder of its core-site.xml and hdfs-site.xml",
    ),
    (
        r"SafeModeException",
        "the NameNode is in safe mode: try again when `hdfs dfsadmin -safemode get` says OFF",
    ),
    (
        r"minReplication|All DataNodes|No block locations",
        "no DataNode takes or gives the file: do they run, and can this machine connect to them?",
    ),
    (
        r"SSL|TLS|certificate|curlCode: (35|51|58|59|60|77)\b",
        "TLS was refused: is the endpoint https, and does AWS_CA_BUNDLE name its authority?",
    ),
    (
        r"NETWORK_CONNECTION|curlCode: (5|6|7|28|52|55|56)\b|REQUEST_TIMEOUT|timed? ?out|Timeout"
        r"|UNAVAILABLE|Could ?n.t connect"
        r"|Connection (refused|reset)|lookup address|listener disconnected",
        _UNREACHABLE,
    ),
)
_MOST_SAID = 400
_UNREAD_REFUSAL = "Failed to flush response stream"
_FIRST_PAUSE_S = 0.1
_MOST_PAUSE_S = 20.0
_SECRETS = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID")
_SHORTEST_SECRET = 8
"""Letters of a credential that stands in no ordinary word."""


class Named(Protocol):
    """A location as messages show it."""

    @property
    def local(self) -> Path | None: ...


@contextmanager
def in_words(location: Named) -> Iterator[None]:
    """Raises LocationError instead of a store's own errors; a local file's errors stay as they are.

    A missing file is FileNotFoundError everywhere.
    """
    try:
        yield
    except LocationError:
        raise
    except FileNotFoundError as error:
        if location.local is not None:
            raise
        raise FileNotFoundError(errno.ENOENT, "found no such file", str(location)) from error
    except (OSError, ValueError, NotImplementedError) as error:
        if location.local is not None:
            raise
        said = without_secrets(" ".join(str(error).split()))
        cause = likely_cause(said)
        raise LocationError(
            f"{location}: {cause} ({said[:_MOST_SAID]})", unreachable=cause == _UNREACHABLE
        ) from None


def patiently(read: Callable[[], _T]) -> _T:
    """Retries reads that a busy store refused with an answer longer than the requested part.

    The S3 client has room only for that part: it can't read the refusal, and gives up when it
    would otherwise have tried again.
    """
    for attempt in range(1, limits.ATTEMPTS):
        try:
            return read()
        except OSError as error:
            if _UNREAD_REFUSAL not in str(error):
                raise
            time.sleep(min(_FIRST_PAUSE_S * 2**attempt, _MOST_PAUSE_S) * random.uniform(0.5, 1.0))  # noqa: S311 - no secret
    return read()


def told_by_worker(text: str, kind: type[AnalysisError] = LocationError) -> str | None:
    """Returns the words of the error that ended a task, from Spark's stack trace; None if none of
    this kind did.
    """
    name = re.escape(f"{kind.__module__}.{kind.__qualname__}")
    found = re.findall(rf"^{name}: (.+)$", text, re.MULTILINE)
    return found[0] if found else None


def likely_cause(said: str) -> str:
    """Returns the likely cause of a store's error."""
    for pattern, cause in _CAUSES:
        if re.search(pattern, said):
            return cause
    return "the store refused it"


def without_secrets(said: str) -> str:
    """Returns the text without any credential of this process, in case a store repeats one.

    One of a few letters, as of a store for a trial, is taken out as a word alone: else the text
    would lose letters.
    """
    for name in _SECRETS:
        if secret := os.environ.get(name):
            hidden = re.escape(secret)
            if len(secret) < _SHORTEST_SECRET:
                hidden = rf"(?<!\w){hidden}(?!\w)"
            said = re.sub(hidden, "…", said)
    return said

"""Tries an executor's way to its driver before Java starts, and says why it is barred.

Java tries a connection that is dropped for two minutes, three times, without a word. The pod ends
instead, and its words are its termination message: Spark deletes the pod, so its log is soon gone.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from zonequake_analysis.cluster.reach import refusal
from zonequake_analysis.errors import DriverUnreached
from zonequake_analysis.pods.waiting import UNREACHED

TRIED_S = 20.0
"""Longest time for which connections may fail: network and names of a new pod may come late."""
MESSAGE = Path("/dev/termination-log")
_POLL_S = 0.5


def check_driver(url: str, *, message: Path = MESSAGE) -> None:
    """Tries to connect to the driver at Spark's URL. Raises DriverUnreached, as `message` says.

    A URL without a host and a port is left to Spark.
    """
    try:
        place = urlsplit(url)
        host, port = place.hostname, place.port
    except ValueError:
        return
    if not host or not port:
        return
    ends_s = time.monotonic() + TRIED_S
    while (why := refusal(host, port)) is not None:
        if time.monotonic() >= ends_s:
            told = f"{UNREACHED} at {host}:{port} ({why})"
            with suppress(OSError):
                message.write_text(told)
            raise DriverUnreached(told)
        time.sleep(_POLL_S)

"""Ends Spark's start at a standalone master that takes no application.

Something that takes connections and never answers is no master, or one that hangs. Spark asks it
three times for 20 s, stops its context while this still begins, and tells of that instead.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from zonequake_analysis.cluster.masters import STANDALONE
from zonequake_analysis.errors import SessionError
from zonequake_analysis.jvm import local_jvm

ANSWERED_S = 40.0
"""Longest time that a master may take for an application; one that runs takes milliseconds."""
_FIRST_LOOK_S = 5.0
_POLL_S = 1.0
_CLIENTS_THREADS = "appclient-regist"
"""The beginning of the names of the threads by which Spark asks a master, from its first try on."""
_UNTAKEN = ("All masters are unresponsive", "on a stopped SparkContext")


@contextmanager
def ended_if_not_taken(master: str) -> Iterator[None]:
    """Ends the JVM that begins a context inside if the master doesn't take it for ANSWERED_S.

    Raises SessionError then, and if Spark itself gives up. The JVM of `spark-submit` isn't ours:
    Spark gives up there. Does nothing for other masters.
    """
    if not master.startswith(STANDALONE):
        yield
        return
    began, ended = threading.Event(), threading.Event()
    watcher = threading.Thread(target=_watch, args=(began, ended), name="registration", daemon=True)
    watcher.start()
    before = logging.root.manager.disable
    try:
        yield
    except Exception as error:
        if began.is_set() or any(words in str(error) for words in _UNTAKEN):
            raise SessionError(_told(master)) from error
        raise
    finally:
        ended.set()
        watcher.join()
        logging.disable(before)


def _told(master: str) -> str:
    return (
        f"the Spark master at {master} takes connections, but no application: is this a master's "
        "port (7077 as a rule; 8080 is its web page), does it run (its log, its web page), and has "
        "it Spark of this version?"
    )


def _watch(ended_here: threading.Event, ended: threading.Event) -> None:
    """Ends the JVM, and says so first, once it has asked for ANSWERED_S."""
    asks_since_s: float | None = None
    pause_s = _FIRST_LOOK_S
    while not ended.wait(pause_s):
        pause_s = _POLL_S
        if asks_since_s is None:
            asks_since_s = time.monotonic() if _asks() else None
        elif time.monotonic() - asks_since_s >= ANSWERED_S:
            ended_here.set()
            logging.disable(logging.CRITICAL)  # the bridge to the JVM would log its end as a stack
            local_jvm.end()
            return


def _asks() -> bool:
    """Returns whether the JVM has begun to ask a master; False if it can't say so."""
    from pyspark import SparkContext

    jvm: Any = SparkContext._jvm
    if jvm is None:
        return False
    try:
        return _CLIENTS_THREADS in jvm.java.lang.Thread.getAllStackTraces().keySet().toString()
    except Exception:  # noqa: BLE001 - whatever the bridge raises while the JVM begins or ends
        return False

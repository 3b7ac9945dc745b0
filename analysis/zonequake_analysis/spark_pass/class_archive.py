"""The classes of Spark's JVM as an archive, so that it starts with half the work.

Most of a small analysis is a JVM that reads and verifies ten thousand classes. The first analysis
on a machine has its JVM write them, as it ends, into an archive (class-data sharing), which all
later ones map into memory:

    ~/.cache/zonequake/spark-<Java and Spark>-metrics.jsa   of a run with metrics: for any run
    ~/.cache/zonequake/spark-<Java and Spark>-history.jsa   of one without: until there is the other

An archive of another Java or Spark has another name, and the JVM itself passes over one that
doesn't fit. A process that writes an archive removes those unread for a week, not all others:
two environments on a machine would remove each other's. The folder may be deleted at any time; if
it can't be written, there is no archive.
"""

from __future__ import annotations

import atexit
import os
import secrets
import subprocess
import sys
import time
from contextlib import suppress
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from zonequake_analysis.jvm.java_command import OPTIONS, class_path, installed_spark, is_known, java

if TYPE_CHECKING:
    from pyspark import SparkContext

_OF_THIS_PROCESS = secrets.token_hex(4)
"""Tells its draft from that of a process in another container, with the same number and home."""

_QUIET = "-Xlog:cds*=off"
_END_S = 60.0
"""Longest time that the JVM may take to write its archive."""
_LEFT_BEHIND_S = 3600.0
_UNREAD_S = 7 * 24 * 3600.0


class ArchivedRun(StrEnum):
    """The runs whose classes an archive has, those with most classes first."""

    METRICS = "metrics"
    HISTORY = "history"

    @classmethod
    def of(cls, *, has_metrics: bool) -> ArchivedRun:
        """Returns the kind of a run."""
        return cls.METRICS if has_metrics else cls.HISTORY


def archive_options(recorded: ArchivedRun | None, *, own_command: bool = False) -> str:
    """Returns the JVM's options: to read the archive or, if there is none, to write it as it ends.

    `recorded`: the kind of run whose classes may be written; None if none may. `own_command`:
    whether the JVM is started by the command of `jvm.java_command`, which has fewer jars.
    """
    try:
        if any(sign.isspace() or sign in "\"'\\" for sign in str(_folder())):
            return ""  # Spark takes options apart at spaces
        for kind in ArchivedRun:
            if (file := _file(kind, own_command)).exists():
                with suppress(OSError):  # another user's folder
                    os.utime(file)  # the time of the last reader
                return f"-XX:SharedArchiveFile={file} {_QUIET}"
            if kind is recorded:
                break  # an archive of fewer classes would keep this one from being written
        if recorded is None:
            return ""
        written = _written(recorded, own_command)
        written.parent.mkdir(parents=True, exist_ok=True)
        _remove_left_behind(written.parent)
        if not os.access(written.parent, os.W_OK):
            return ""
    except (OSError, RuntimeError):  # no Java, no home folder
        return ""
    return f"-XX:+IgnoreUnrecognizedVMOptions -XX:ArchiveClassesAtExit={written} {_QUIET}"


def keep_at_exit(recorded: ArchivedRun) -> None:
    """Has the end of this process end its JVM, and keep the archive that it writes, if it does."""
    with suppress(OSError, RuntimeError):
        own = is_known()
        atexit.register(_keep, _written(recorded, own), _file(recorded, own))


def _keep(written: Path, file: Path) -> None:
    from pyspark import SparkContext

    context, gateway = SparkContext._active_spark_context, SparkContext._gateway
    process = getattr(gateway, "proc", None)
    if context is None or process is None or str(written) not in _options_of(context):
        return
    told = f"analyze: keeps Spark's classes in {file.parent} for later analyses, only this once"
    print(told, file=sys.stderr)  # noqa: T201
    context.stop()
    process.stdin.close()  # the JVM ends with it
    with suppress(OSError, subprocess.TimeoutExpired):
        process.wait(_END_S)
        written.replace(file)


def _options_of(context: SparkContext) -> str:
    return context.getConf().get("spark.driver.extraJavaOptions", "") or ""


def _written(kind: ArchivedRun, own_command: bool) -> Path:
    file = _file(kind, own_command)
    return file.with_name(f"{file.name}.{os.getpid()}-{_OF_THIS_PROCESS}")


def _file(kind: ArchivedRun, own_command: bool) -> Path:
    """Returns the place of an archive. Raises OSError without Java, RuntimeError without a home."""
    return _folder() / f"spark-{_java_and_spark(own_command)}-{kind}.jsa"


def _folder() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "zonequake"


def _java_and_spark(own_command: bool) -> str:
    """Returns a name for this Java and this Spark, as they were installed and are started."""
    package, version = installed_spark()
    jars = Path(os.environ.get("SPARK_HOME", package)) / "jars"
    parts = [str(part) for path in (java(), jars) for part in (path, path.stat().st_mtime_ns)]
    if own_command:  # a JVM passes over the archive of another class path, or of other modules
        parts += [class_path(), *OPTIONS]
    return sha256("\0".join([version, *parts]).encode()).hexdigest()[:12]


def _remove_left_behind(folder: Path) -> None:
    """Removes archives of analyses that never came to their end, and those that are read no more.

    A JVM that has mapped one keeps it, and one that finds none starts without.
    """
    for pattern, longest_s in (("spark-*.jsa.*", _LEFT_BEHIND_S), ("spark-*.jsa", _UNREAD_S)):
        for file in folder.glob(pattern):
            with suppress(FileNotFoundError):  # another analysis was quicker
                if time.time() - file.stat().st_mtime > longest_s:
                    file.unlink()

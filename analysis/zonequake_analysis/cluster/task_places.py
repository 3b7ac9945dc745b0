"""Tells on which executors tasks ran, where Spark shows none: through Spark Connect.

A task adds to its result the executor that it runs on, as a line; the client keeps all lines by
session. A repeated task counts once, as its first result is dropped.

The executor is the process above the task's Python. All cluster managers give its number and its
address on its command line (`--executor-id`, `--hostname`); variables differ from one to the other.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from weakref import WeakKeyDictionary

import msgspec
from pyspark import TaskContext
from pyspark.sql import SparkSession

_PROCESSES = Path("/proc")
_NUMBER, _ADDRESS = "--executor-id", "--hostname"


class TaskPlace(msgspec.Struct, frozen=True, array_like=True):
    """The place of a task.

    `task`: Spark's number of the attempt, unique in an application; `executor`: Spark's name for
    it, empty if its command line can't be read or has none; `address`: then the machine's name.
    """

    task: int
    executor: str
    address: str


_TOLD: WeakKeyDictionary[SparkSession, set[TaskPlace]] = WeakKeyDictionary()
"""The places of each session's tasks, as its context has them where there is one."""


def own_place() -> bytes:
    """Returns the place of the task that calls it, as a line; lines may be joined."""
    context = TaskContext.get()
    executor, address = executor_above(os.getpid())
    place = TaskPlace(
        task=0 if context is None else context.taskAttemptId(), executor=executor, address=address
    )
    return msgspec.json.encode(place) + b"\n"


def keep_places(spark: SparkSession, told: Iterable[bytes]) -> None:
    """Keeps what the tasks of a job told."""
    lines = b"".join(map(bytes, told))
    found = msgspec.json.Decoder(TaskPlace).decode_lines(lines)
    _TOLD.setdefault(spark, set()).update(found)


def places_of(spark: SparkSession) -> frozenset[TaskPlace]:
    """Returns the places of all tasks of a session that told theirs."""
    return frozenset(_TOLD.get(spark, ()))


@cache
def executor_above(pid: int, processes: Path = _PROCESSES) -> tuple[str, str]:
    """Returns name and address of the executor that started this process; `("", HOST)` if none did.

    `processes`: where the kernel shows them.
    """
    try:
        while pid > 0:
            words = (processes / str(pid) / "cmdline").read_bytes().decode().split("\0")
            if _NUMBER in words and _ADDRESS in words:
                return _after(words, _NUMBER), _after(words, _ADDRESS)
            status = (processes / str(pid) / "status").read_text()
            pid = next(int(line.split()[1]) for line in status.splitlines() if "PPid:" in line)
    except (OSError, ValueError, StopIteration):
        pass  # no Linux, or a process of another account
    return "", socket.gethostname()


def _after(words: list[str], option: str) -> str:
    return words[words.index(option) + 1]

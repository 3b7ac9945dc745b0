"""Worker processes that never outlive this process.

Each child watches a pipe of which only this process holds the other end. The pipe closes when the
work is over, when it is aborted (Ctrl-C), and when this process dies, even by SIGKILL; a child ends
at once when its pipe closes.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection
from typing import TypeVar

_WAITING_PER_CHILD = 3
"""Tasks asked for ahead, so that no child waits for the next one."""

Task = TypeVar("Task")
Result = TypeVar("Result")


@contextmanager
def children(count: int) -> Iterator[ProcessPoolExecutor]:
    """Yields a pool of `count` fresh processes; leaving the block by an error kills them.

    Fresh, not forked, because the tables of the checkers start threads, which a fork would break.
    """
    theirs, ours = Pipe(duplex=False)
    with theirs, ours:
        pool = ProcessPoolExecutor(
            count, mp_context=get_context("spawn"), initializer=_end_with, initargs=(theirs,)
        )
        try:
            yield pool
        except BaseException:
            ours.close()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def in_order(
    pool: ProcessPoolExecutor, work: Callable[[Task], Result], tasks: Iterable[Task], *, count: int
) -> Iterator[Result]:
    """Yields the result of `work` for each task, in the order of the tasks; takes a task only when
    it needs the next one.
    """
    waiting: deque[Future[Result]] = deque()
    for task in tasks:
        with no_interrupt():
            waiting.append(pool.submit(work, task))
        if len(waiting) > _WAITING_PER_CHILD * count:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


@contextmanager
def no_interrupt() -> Iterator[None]:
    """Blocks SIGINT inside the block; processes that start meanwhile never get it.

    Ctrl-C reaches all processes of a terminal; a child would print a traceback of twenty lines.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with(parent: Connection) -> None:
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: Connection) -> None:
    parent.poll(None)  # nothing is ever sent: it returns when the other end is closed
    os._exit(1)

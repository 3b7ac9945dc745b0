"""A real data node that sends itself SIGKILL at a chosen commit of its LMDB files.

    ZQ_CRASH=log:before:7 python crashing_node.py

ends the process at the seventh writing transaction of the environment `log` (`log` or `data`):
`before` everything is put and not committed, `during` the commit, or `after` it, when no client has
heard of it yet. `ZQ_CRASH=file:before:2` does so at the second file or folder that is synced by
itself: the mark that a commit failed, and the environment that is written again for it. Everything
else is the node as it is shipped.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import lmdb

from zonequake_store.__main__ import main
from zonequake_store.storage import distrusted_files, lmdb_files

_COMMIT_S = 0.0002
"""About what a commit takes until its pages are written."""


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _die_soon() -> None:
    time.sleep(_COMMIT_S)
    _die()


class _Commit:
    """A writing transaction at whose end the process may die."""

    def __init__(self, transaction: lmdb.Transaction, when: str | None) -> None:
        self._transaction = transaction
        self._when = when

    def __enter__(self) -> lmdb.Transaction:
        return self._transaction.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        match self._when if kind is None else None:
            case "before":
                _die()
            case "during":
                threading.Thread(target=_die_soon, daemon=True).start()
        self._transaction.__exit__(kind, error, trace)
        if self._when is not None and kind is None:
            _die()


class _Environment:
    """An LMDB environment that counts its writing transactions and dies at one of them."""

    def __init__(self, environment: lmdb.Environment, when: str, left: int) -> None:
        self._environment = environment
        self._when = when
        self._left = left

    def __getattr__(self, name: str) -> Any:
        return getattr(self._environment, name)

    def begin(self, *arguments: Any, **named: Any) -> Any:
        transaction = self._environment.begin(*arguments, **named)
        if not named.get("write"):
            return transaction
        self._left -= 1
        return _Commit(transaction, self._when if self._left == 0 else None)


def crash_at_file(when: str, sync: int) -> None:
    """Die at one of the syncs of single files."""
    synced, left = lmdb_files.sync_file, itertools.count(sync, -1)

    def syncs(path: Path) -> None:
        dies = next(left) == 1
        if dies and when == "before":
            _die()
        synced(path)
        if dies:
            _die()

    for module in (lmdb_files, distrusted_files):
        module.sync_file = syncs  # type: ignore[attr-defined]


def crash_at(which: str, when: str, commit: int) -> None:
    """Replace `lmdb.open`, so that the environment `which` has its end in it."""
    opened = lmdb.open

    def opens(path: str, *arguments: Any, **named: Any) -> Any:
        environment = opened(path, *arguments, **named)
        return _Environment(environment, when, commit) if Path(path).name == which else environment

    lmdb.open = opens  # type: ignore[assignment]


if __name__ == "__main__":
    which, when, commit = os.environ["ZQ_CRASH"].split(":")
    if which == "file":
        crash_at_file(when, int(commit))
    else:
        crash_at(which, when, int(commit))
    sys.exit(main())

"""Starts our programs as processes that needn't import anything any more.

A data node imports for 0.8 s of a processor, an operator for 1.4 s, and tests start hundreds. So a
server beside each pytest process imports what they need, once, and forks: what it starts is a
process of its own, with its own id, signals, files and end, as after `python -m`. It finds modules
where the test finds them: `multiprocessing` hands `sys.path` on, and `PYTHONPATH` is for what the
program starts itself. A library that comes before libc (`LD_PRELOAD`) is loaded as a program is
executed: it has a server of its own. The containers of `cluster` start programs in the usual way.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from multiprocessing import connection, forkserver
from pathlib import Path
from unittest.mock import patch

import pytest
from kubernetes.aio.config import kube_config

PRELOADED = (
    "aiohttp.web",
    "kopf",
    "kubernetes.aio.config",
    "lark",
    "numpy",
    "prometheus_client",
    "re2",
    "uvloop",
    "zonequake_load.client.connection",
    "zonequake_load.pod.load",
    "zonequake_load.pod.server",
    "zonequake_store.node.app",
    "tests.frozen_heap",
)

_LOADED_FIRST = "LD_PRELOAD"
_STARTS = threading.Lock()


class WarmProcess:
    """A program under way, with the methods of `subprocess.Popen` that tests use."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        """Starts Python with these words: `-m MODULE` or a file, and then the program's own."""
        self._command = tuple(command)
        self._lock = threading.Lock()
        log.touch()
        self._process = multiprocessing.get_context("forkserver").Process(
            target=_run, args=(self._command, dict(environment), str(log))
        )
        with _served(environment.get(_LOADED_FIRST, "")):
            self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        """As of now; negative: the signal that ended it."""
        with self._lock:
            return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Raises subprocess.TimeoutExpired if it is still under way after `timeout` seconds."""
        connection.wait([self._process.sentinel], timeout)
        found = self.returncode
        if found is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self._command, timeout)
        return found

    def send_signal(self, number: int) -> None:
        """Does nothing if it has ended, also before the server has told its exit code."""
        with self._lock, suppress(ProcessLookupError):
            if self._process.exitcode is None:
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@contextmanager
def _served(library: str) -> Iterator[None]:
    """Processes that begin within it are forked by the server of this library ("": of none)."""
    with _STARTS:
        ask = _server(library).connect_to_new_process
        with patch.object(forkserver, "connect_to_new_process", ask):
            yield


@cache
def _server(library: str) -> forkserver.ForkServer:
    server = forkserver.ForkServer()
    server.set_forkserver_preload(list(PRELOADED))
    with pytest.MonkeyPatch.context() as environment:
        if library:
            environment.setenv(_LOADED_FIRST, library)
        server.ensure_running()
    return server


def _run(command: tuple[str, ...], environment: dict[str, str], log: str) -> None:
    """In the forked process: becomes the program."""
    opened = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for stream in (1, 2):
        os.dup2(opened, stream)
    os.environ.clear()
    os.environ.update(environment)
    importlib.reload(kube_config)  # which reads the environment once, as it is imported
    try:
        if command[0] == "-m":
            sys.argv = [*command[1:]]
            runpy.run_module(command[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = [*command]
            runpy.run_path(command[0], run_name="__main__")
    except SystemExit:
        raise
    except BaseException:  # noqa: BLE001  as Python itself does it: printed, and exit code 1
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)

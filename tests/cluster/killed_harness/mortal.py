"""`zonequake`, that dies by its own SIGKILL at a chosen side effect.

    python mortal.py STEPS_FILE [PATTERN NUMBER WAY] -- run SCENARIO ...

A step is whatever the harness changes: each writing request, each command in a container (as it is
under way, too), each command and signal on the node, each line of the journal before and after it
is on disk, each replaced file. They are noted in STEPS_FILE, one a line, with the run's phase. At
the NUMBER-th step whose kind matches PATTERN it dies: `before` the step, or `after` it was done,
when nobody has heard of it yet.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from zonequake_chaos.cli import main
from zonequake_chaos.events import EventLog

_NAMES = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|ZQ-[0-9a-f]{8}")
_OBJECT = re.compile(r"/namespaces/[^/]+/(.+)$")


class Death:
    """Counts steps, and kills this process at the chosen one."""

    def __init__(self, notes: Path, chosen: tuple[str, int, str] | None) -> None:
        self._notes = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._write = os.write
        self._kill = os.kill
        self._chosen = chosen
        self._seen: Counter[str] = Counter()
        self._matching = 0
        self.phase = "start"

    def before(self, kind: str) -> bool:
        """A step of `kind` begins; whether this process dies after it."""
        self._seen[kind] += 1
        self._write(self._notes, f"{self.phase}\t{kind}\t{self._seen[kind]}\n".encode())
        if self._chosen is None or re.fullmatch(self._chosen[0], kind) is None:
            return False
        self._matching += 1
        if self._matching != self._chosen[1]:
            return False
        if self._chosen[2] == "before":
            self.die()
        return True

    def die(self) -> None:
        self._write(self._notes, b"died\n")
        self._kill(os.getpid(), signal.SIGKILL)

    def around(self, kind: Callable[..., str | None], call: Callable[..., Any]) -> Any:
        """`call`, as a step whose kind follows from its arguments; None: it changes nothing."""

        def counted(*arguments: Any, **named: Any) -> Any:
            words = kind(*arguments, **named)
            if words is None:
                return call(*arguments, **named)
            last = self.before(words)
            done = call(*arguments, **named)
            if last:
                self.die()
            return done

        return counted

    def around_async(
        self, kind: Callable[..., str | None], call: Callable[..., Awaitable[Any]]
    ) -> Any:
        """The same for a coroutine."""

        async def counted(*arguments: Any, **named: Any) -> Any:
            words = kind(*arguments, **named)
            if words is None:
                return await call(*arguments, **named)
            last = self.before(words)
            done = await call(*arguments, **named)
            if last:
                self.die()
            return done

        return counted


def _request(_: object, method: str, url: Any, **named: Any) -> str | None:
    if method in ("GET", "HEAD"):
        return None
    found = _OBJECT.search(urlsplit(str(url)).path)
    return f"{method} {found.group(1) if found else urlsplit(str(url)).path}"


def _exec(_: object, url: Any, **named: Any) -> str:
    words = [value for key, value in named["params"] if key == "command"]
    number = next((word for word in words if word.isdigit()), "")
    found = _OBJECT.search(urlsplit(str(url)).path)
    return f"exec {found.group(1) if found else url} {number}"


def _command(argv: Any, *_: Any, **__: Any) -> str:
    words = [Path(str(argv[0])).name, *map(str, argv[1:])]
    # Numbers of processes differ from run to run, and so do UIDs and the names made of them.
    kept = [word for word in words if not word.isdigit() and not _NAMES.search(word)]
    return "command " + " ".join(kept)


def install(death: Death) -> None:
    """Puts `death` around everything by which the harness changes something."""
    session: Any = aiohttp.ClientSession
    session._request = death.around_async(_request, session._request)
    session._ws_connect = death.around_async(_exec, session._ws_connect)
    subprocess.run = death.around(_command, subprocess.run)
    os.kill = death.around(lambda _, number: f"signal {signal.Signals(number).name}", os.kill)
    for name in ("write", "fsync"):
        setattr(os, name, death.around(_journal_step(name), getattr(os, name)))
    replace: Any = Path.replace
    path: Any = Path
    path.replace = death.around(lambda _, target: f"file {Path(target).name}", replace)
    emit = EventLog.emit
    log: Any = EventLog

    def noted(events: EventLog, kind: str, data: Any, **named: Any) -> Any:
        if kind == "run.phase":
            death.phase = str(data["phase"])
        return emit(events, kind, data, **named)

    log.emit = noted


def _journal_step(name: str) -> Callable[..., str | None]:
    def kind(*_: object) -> str | None:
        # This frame's caller is the wrapper, and the wrapper's is whoever called os.
        caller = sys._getframe(2).f_globals.get("__name__")
        return f"journal {name}" if caller == "zonequake_chaos.journal" else None

    return kind


def _chosen(words: list[str]) -> tuple[str, int, str] | None:
    if not words:
        return None
    kind, number, way = words
    return kind, int(number), way


if __name__ == "__main__":
    own, rest = sys.argv[1 : sys.argv.index("--")], sys.argv[sys.argv.index("--") + 1 :]
    install(Death(Path(own[0]), _chosen(own[1:])))
    sys.argv = ["zonequake", *rest]
    main()

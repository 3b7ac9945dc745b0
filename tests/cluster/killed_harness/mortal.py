"""`zonequake`, that dies by its own SIGKILL at a chosen side effect.

    python mortal.py STEPS_FILE [PATTERN NUMBER WAY] -- run SCENARIO ...

A step is whatever the harness changes: each writing request, each command in a container (as it is
under way, too), each command and signal on the node, each line of the journal before and after it
is on disk, each replaced file. They are noted in STEPS_FILE, one a line, with the run's phase,
while faults are done that of the fault. At the NUMBER-th step that matches PATTERN, by its kind or
by `phase: kind`, it dies: `before` the step; `after` it was done, before another process has heard
of it; or `during` it, when whatever it began goes on without it.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from zonequake_chaos.commands.cli import main
from zonequake_chaos.record.event_log import EventLog
from zonequake_chaos.runner.runner import Runner

DURING_S = 0.1
"""Into a step: a program of the node's has begun by then, and hasn't ended yet."""

_READING = {
    "processes",
    "leftovers",
    "counts",
    "holds",
    "probe",
    "clock",
    "failing-syncs",
    "filled",
}
"""Verbs of the fault agent that change nothing."""

_NAMES = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|ZQ-[0-9a-f]{8}")
_OBJECT = re.compile(r"/namespaces/[^/]+/(.+)$")
_ORDINAL = re.compile(r"(?<=-)([0-9]+|[0-9a-z]{8,10}-[0-9a-z]{5})(?=[/:]|$)")


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
        whole = f"{self.phase}: {kind}"
        self._seen[whole] += 1
        self._write(self._notes, f"{self.phase}\t{kind}\t{self._seen[whole]}\n".encode())
        if self._chosen is None:
            return False
        pattern, number, way = self._chosen
        if not any(re.fullmatch(pattern, words) for words in (kind, whole)):
            return False
        self._matching += 1
        if self._matching != number:
            return False
        if way == "before":
            self.die()
        if way == "during":
            threading.Timer(DURING_S, self.die).start()
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
    return f"{method} {_object(url)}"


def _object(url: Any) -> str:
    """What an address is about; which of its owner's pods it is differs from run to run."""
    path = urlsplit(str(url)).path
    found = _OBJECT.search(path)
    return _ORDINAL.sub("N", found.group(1) if found else path)


def _exec(_: object, url: Any, **named: Any) -> str | None:
    words = [value for key, value in named["params"] if key == "command"]
    verb = _verb(words)
    what = verb or next((word for word in words if word.isdigit()), "")
    if not what or verb in _READING:
        return None  # it only looks
    return f"exec {_object(url)} {what}"


def _verb(words: list[str]) -> str:
    """What the fault agent is told to do, if it is the one that is called."""
    agent = "zonequake_agent"
    return words[words.index(agent) + 1] if agent in words else ""


def _command(argv: Any, *_: Any, **__: Any) -> str | None:
    words = [Path(str(argv[0])).name, *map(str, argv[1:])]
    if _verb(words) in _READING:
        return None
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
    one_fault = Runner._one_fault
    runner: Any = Runner

    async def named(self: Runner, fault: Any, world: Any) -> None:
        death.phase = f"faults/{fault.name}"
        await one_fault(self, fault, world)

    runner._one_fault = named


def _journal_step(name: str) -> Callable[..., str | None]:
    def kind(*_: object) -> str | None:
        # This frame's caller is the wrapper, and the wrapper's is whoever called os.
        caller = sys._getframe(2).f_globals.get("__name__")
        return f"journal {name}" if caller == "zonequake_chaos.record.cleanup_journal" else None

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

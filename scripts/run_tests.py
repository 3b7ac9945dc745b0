"""Runs the groups of checks, each to its end, and prints what failed and how long it took.

    python -m scripts.run_tests [GROUP...]     all groups of `make test`, or those named
    python -m scripts.run_tests --all          these, and then the long sweeps

Groups run in four lanes beside each other, one of each at a time; those that compute give way to
those that mostly wait. A lane that has ended helps those that compute. What a group prints is kept,
and printed as a whole when the group has ended; meanwhile a line a minute says how far it is. A
group that runs alone prints as it goes.

Ends with 1 if any group failed. With CI=true in the environment a skipped test counts as a failure,
unless its reason stands in the table "Tests that may be skipped" of docs/testing.md: a check that
silently doesn't run is worse than none.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

from scripts.groups import AWAITED, GROUPS, LONG_GROUPS, Group, Lane

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
ALLOWED_SKIPS_PAGE = ROOT / "docs" / "testing.md"
ALLOWED_SKIPS_HEADING = "## Tests that may be skipped"


PROGRESS_EVERY_S = 60.0
POLL_S = 0.1
NICE, NICE_AWAITED = 10, 5
"""Of all lanes but the one that waits, and of their groups that others need: on a fresh machine the
lane that waits can't end before these."""
SLOWEST = ("--durations=12", "--durations-min=3")
"""Each group ends with its slowest tests: what a quicker `make test` would begin with."""
END_S = 60.0
"""How long a group may take to end once it was interrupted."""

COLD_RUN_BYTES = 16 * 2**30
"""Programs, images, volumes and run folders of a run that begins with none of them."""

ALL = "--all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a group ended; `problem` is empty if it passed.

    `cpu_s`: what its processes computed, but those that have another parent: the node's pods.
    """

    name: str
    duration_s: float
    cpu_s: float = 0.0
    tests: int
    problem: str


class Runs:
    """Groups under way: where each writes, and how to end them all."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.cpu_s: defaultdict[str, float] = defaultdict(float)
        """By the groups' names."""
        self.stopped = threading.Event()

    def say(self, words: str, log: Path | None = None) -> None:
        """Prints a line, and what stands in a file, without another group's lines between them."""
        with self._lock:
            print(words, flush=True)
            if log is not None:
                with log.open("rb") as written:
                    shutil.copyfileobj(written, sys.stdout.buffer)
                sys.stdout.buffer.flush()

    def run(self, command: Sequence[str], group: Group, log: Path | None) -> int:
        """The exit code of a command of the group, which prints into `log`, or here; 124 if it is
        over the group's limit."""

        def note(words: str) -> None:
            print(words, file=out, flush=True)

        with log.open("a") if log is not None else contextlib.nullcontext() as out:
            note(f"--- {' '.join(command)}")
            process = subprocess.Popen(
                [str(BIN / command[0]), *command[1:]],
                cwd=ROOT,
                env=environment(os.environ),
                stdout=out,
                stderr=subprocess.STDOUT if out is not None else None,
                start_new_session=True,  # so that a group over its limit ends with its processes
                preexec_fn=ready if log is None else partial(give_way, niceness(group)),
            )
            try:
                deadline_s = time.monotonic() + group.limit_s
                while not self._has_ended(process, group) and not self.stopped.is_set():
                    if time.monotonic() > deadline_s:
                        note(f"--- over its limit of {group.limit_s} s")
                        return 124
                    time.sleep(POLL_S)
                return 130 if process.returncode is None else process.returncode
            finally:
                _end(process)

    def _has_ended(self, process: subprocess.Popen[bytes], group: Group) -> bool:
        """As `poll`, but counts what the process and its children computed."""
        found, status, usage = os.wait4(process.pid, os.WNOHANG)
        if found:
            process.returncode = os.waitstatus_to_exitcode(status)
            self.cpu_s[group.name] += usage.ru_utime + usage.ru_stime
        return bool(found)


def environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment of a group's processes. Images of containers often forbid Python to
    keep what it compiled: each of the thousands of processes would compile our modules once more.
    """
    return {name: value for name, value in inherited.items() if name != "PYTHONDONTWRITEBYTECODE"}


def ready() -> None:
    """In a child before its program: a shell's background job ignores SIGINT, and its children with
    it; ours must not."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def niceness(group: Group) -> int:
    """How far a group gives way to the lane that waits."""
    if group.lane is Lane.WAITS:
        return 0
    return NICE_AWAITED if group.name in AWAITED else NICE


def give_way(nice: int) -> None:
    """The same, and groups of a lower niceness go first."""
    ready()
    if not nice:
        return
    os.nice(nice)
    # With one, a session is a unit of scheduling of its own, and nice counts only within it.
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(nice))


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a process that has not ended yet, with all of its session."""
    if process.poll() is not None:
        return
    os.killpg(process.pid, signal.SIGINT)
    try:
        process.wait(timeout=END_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def main(names: list[str]) -> int:
    """Runs the groups with these names; those of `make test` if there are none, with --all all."""
    known = {group.name: group for group in (*GROUPS, *LONG_GROUPS)}
    if names == [ALL]:
        names = list(known)
    unknown = [name for name in names if name not in known]
    if unknown:
        print(
            f"no such group: {', '.join(unknown)}; there are {', '.join(known)}, and {ALL} alone",
            file=sys.stderr,
        )
        return 254
    if warning := little_room(shutil.disk_usage(ROOT).free):
        print(warning, flush=True)
    start_s = time.monotonic()
    groups = [known[name] for name in names] or list(GROUPS)
    outcomes = run_groups([group for group in groups if group in GROUPS])
    outcomes += [run_group(group) for group in groups if group in LONG_GROUPS]
    print(f"\n{'group':<14} {'tests':>6} {'time':>8} {'cpu':>8}  result")
    for outcome in outcomes:
        tests = str(outcome.tests) if outcome.tests else ""
        result = outcome.problem or "passed"
        times = f"{outcome.duration_s:>6.0f} s {outcome.cpu_s:>6.0f} s"
        print(f"{outcome.name:<14} {tests:>6} {times}  {result}")
    cpu_s = sum(outcome.cpu_s for outcome in outcomes)
    print(f"{'all':<14} {'':>6} {time.monotonic() - start_s:>6.0f} s {cpu_s:>6.0f} s")
    return 1 if any(outcome.problem for outcome in outcomes) else 0


def little_room(free_bytes: int) -> str:
    """A warning if a cold run needs more than is free; empty if there is enough."""
    if free_bytes >= COLD_RUN_BYTES:
        return ""
    return (
        f"warning: {free_bytes / 2**30:,.1f} GiB are free on the file system of {ROOT}, a cold run "
        f"needs {COLD_RUN_BYTES / 2**30:,.0f}: without room the embedded node evicts its pods"
    )


def run_groups(groups: Sequence[Group]) -> list[Outcome]:
    """Runs groups, one after another if they are of one lane, else lane beside lane."""
    lanes = [found for lane in Lane if (found := [g for g in groups if g.lane is lane])]
    if len(lanes) == 1:
        return [run_group(group) for group in groups]
    progress = Progress(
        runs=Runs(),
        ended={group.name: threading.Event() for group in groups},
        left={found[0].lane: deque(found) for found in lanes},
    )
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(len(lanes)) as pool:
        try:  # an interrupt may come as soon as the first lane has begun
            ways = [pool.submit(progress.run_lane, found[0].lane, Path(folder)) for found in lanes]
            while not all(way.done() for way in ways):
                progress.tell()
                time.sleep(POLL_S)
        finally:
            progress.runs.stopped.set()
        for way in ways:
            way.result()
    return [progress.outcomes[group.name] for group in groups]


@dataclass(kw_only=True)
class Progress:
    """What runs beside each other, and what has come of it."""

    runs: Runs
    ended: dict[str, threading.Event]
    left: dict[Lane, deque[Group]]
    """The groups that have not begun yet."""
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    running: dict[str, Path] = field(default_factory=dict)
    _start_s: float = field(default_factory=time.monotonic)
    _told_s: float = field(default_factory=time.monotonic)

    def run_lane(self, lane: Lane, folder: Path) -> None:
        """Runs the lane's groups one after another, each once what it needs has ended, and then
        the last ones of lanes that compute and are not so far."""
        try:
            self._run_lane(lane, folder)
        except BaseException:
            self.runs.stopped.set()  # else other lanes might wait forever
            raise

    def _next(self, lane: Lane) -> Group | None:
        """Returns a group that no lane has taken. Two that measure times would disturb each other,
        so that no lane takes one of `Lane.WAITS` from its lane."""
        with contextlib.suppress(IndexError):
            return self.left[lane].popleft()
        for other in (Lane.OTHERS, Lane.COMPUTES):
            with contextlib.suppress(KeyError, IndexError):
                return self.left[other].pop()
        return None

    def _run_lane(self, lane: Lane, folder: Path) -> None:
        while (group := self._next(lane)) is not None:
            for name in group.needs:
                if name in self.ended:
                    while not self.ended[name].wait(POLL_S):
                        if self.runs.stopped.is_set():
                            return
            log = folder / f"{group.name}.log"
            log.touch()
            self.running[group.name] = log
            outcome = run_group(group, runs=self.runs, log=log)
            del self.running[group.name]
            self.outcomes[group.name] = outcome
            if self.runs.stopped.is_set():
                return
            self.runs.say(f"\n=== {group.name}", log)
            self.runs.say(f"--- {group.name}: {outcome.problem or 'passed'}")
            self.ended[group.name].set()

    def tell(self) -> None:
        """Prints a line now and then that says what is under way."""
        now_s = time.monotonic()
        if now_s < self._told_s + PROGRESS_EVERY_S:
            return
        self._told_s = now_s
        minutes, seconds = divmod(round(now_s - self._start_s), 60)
        under_way = ", ".join(f"{name}{how_far(log)}" for name, log in [*self.running.items()])
        self.runs.say(f"... {minutes}:{seconds:02}  {under_way}")


def how_far(log: Path) -> str:
    """The last percentage that pytest printed, or nothing."""
    found = re.findall(r"\[ *\d+%\]", log.read_text(errors="replace"))
    return f" {found[-1]}" if found else ""


def run_group(group: Group, *, runs: Runs | None = None, log: Path | None = None) -> Outcome:
    """Runs one group to its end or its limit; it prints into `log`, or here."""
    if log is None:
        print(f"\n=== {group.name}", flush=True)
    runs = runs or Runs()
    start_s = time.monotonic()
    tests, problem = 0, _commands(group, runs, log)
    if group.folder and not problem:
        tests, problem = _pytest(group, runs, log)
    return Outcome(
        name=group.name,
        duration_s=time.monotonic() - start_s,
        cpu_s=runs.cpu_s[group.name],
        tests=tests,
        problem=problem,
    )


def _commands(group: Group, runs: Runs, log: Path | None) -> str:
    failed = [" ".join(words) for words in group.commands if runs.run(words, group, log) != 0]
    return f"FAILED: {', '.join(failed)}" if failed else ""


def _pytest(group: Group, runs: Runs, log: Path | None) -> tuple[int, str]:
    assert group.folder
    if not (ROOT / group.folder).is_dir():
        return 0, f"FAILED: there is no folder {group.folder}"
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "junit.xml"
        command = ("pytest", "-q", *SLOWEST, *group.options, f"--junitxml={results}", group.folder)
        code = runs.run(command, group, log)
        tests, skips = read_results(results) if results.exists() else (0, [])
    if code != 0:
        return tests, f"FAILED: pytest ended with {code}"
    if tests == len(skips):
        return tests, "FAILED: no test ran"
    refused = [skip for skip in skips if skip not in allowed_skips(ALLOWED_SKIPS_PAGE.read_text())]
    if refused and os.environ.get("CI") == "true":
        return tests, f"FAILED: {len(refused)} skipped, for instance: {refused[0]}"
    return tests, ""


def read_results(path: Path) -> tuple[int, list[str]]:
    """The number of tests in a JUnit file, and the reason of each that was skipped."""
    cases = list(ElementTree.parse(path).iter("testcase"))  # noqa: S314  pytest wrote it just now
    skipped = [skip for case in cases for skip in case.findall("skipped")]
    return len(cases), [skip.get("message", "") for skip in skipped]


def allowed_skips(page: str) -> set[str]:
    """The reasons in the table below the heading, the first column of each row."""
    section = page.partition(ALLOWED_SKIPS_HEADING)[2].partition("\n## ")[0]
    cells = re.findall(r"^\| `([^`]+)` \|", section, flags=re.MULTILINE)
    return set(cells)


def heed_sigterm() -> None:
    """Has SIGTERM end the groups with all their processes, as SIGINT does."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


if __name__ == "__main__":
    heed_sigterm()
    sys.exit(main(sys.argv[1:]))

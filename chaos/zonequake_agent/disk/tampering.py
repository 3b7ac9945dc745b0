"""Changes some system calls of a pod's processes: they fail with EIO, or take longer.

strace attaches to the processes and answers or delays these calls (`-e inject`). It writes a line
for each, which is the proof. While it is attached, each system call of these processes takes about
0.1 ms longer. After its end, even by SIGKILL, they run on as before; it also ends by itself at a
time limit, if it is not ended earlier. A restarted process is not affected.

Not covered: calls through io_uring; as syncs, writes to files opened with O_SYNC or O_DSYNC.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from zonequake_agent import ending, pods

SYNCS = "fsync,fdatasync,msync"
WRITES = "write,pwrite64,writev,pwritev,pwritev2"
_MARKS = ("(INJECTED)", "(DELAYED)")
_ATTACH_TIMEOUT_S = 5.0
_POLL_S = 0.05
_SAID = 300
_LOGS = Path("/tmp")  # noqa: S108 - the agent's own, or the machine's; named by the pod's UID


class NotTraced(Exception):
    """Raised when strace is missing, could not attach, or does not detach; the text says why."""


class NoSuchFile(Exception):
    """Raised when a pattern matches no file in the pod; the text names the pattern."""


class TamperingKind(StrEnum):
    """The kinds of changes, each with an strace and a log of its own."""

    FAILING = "syncs"
    SLOW = "slow"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tampering:
    """A change of the calls `calls`, as strace names them in `-e inject`; only of those that name
    one of `paths`, if there are any.
    """

    kind: TamperingKind
    calls: str
    effect: str
    paths: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        """Returns strace's options."""
        return [
            *("-e", f"trace={self.calls}", "-e", f"inject={self.calls}:{self.effect}"),
            *("-e", "signal=none"),
            *(word for path in self.paths for word in ("-P", path)),
        ]


FAILING_SYNCS = Tampering(kind=TamperingKind.FAILING, calls=SYNCS, effect="error=EIO")


def slow(calls: str, *, delay_ms: float, paths: Sequence[str]) -> Tampering:
    """Returns the change that delays each call by this time, before the kernel executes it."""
    return Tampering(
        kind=TamperingKind.SLOW,
        calls=calls,
        effect=f"delay_enter={round(delay_ms * 1000)}",
        paths=tuple(paths),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TamperedCalls:
    """The pod's processes that run, those whose calls are changed now, and how many calls were."""

    running: list[int]
    traced: list[int]
    changed: int


def begin(uid: str, tampering: Tampering, *, seconds: float) -> TamperedCalls:
    """Changes the pod's calls from now on, for at most `seconds`. Raises PodAbsent, NotTraced.

    A process that ends before its tracer has attached is no error: some stores end at their first
    failed sync (etcd), sooner than it can be checked.
    """
    pids, kind = pods.workers(uid), tampering.kind
    if shutil.which("strace") is None:
        raise NotTraced("there is no strace on this node: apt-get install strace")
    end(uid, kind)
    log, said = _log(uid, kind), _said(uid, kind)
    # In its own session: the agent ends, and strace runs on.
    command = [
        *("setsid", "--fork", "timeout", "--kill-after=2", f"{seconds:g}"),
        *("strace", "-f", "-q", "-o", str(log), *tampering.words),
        *(word for pid in pids for word in ("-p", str(pid))),
    ]
    with said.open("wb") as output:
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    deadline = time.monotonic() + _ATTACH_TIMEOUT_S
    while untraced := [pid for pid in pids if ending.runs(pid) and not _traced([pid], log)]:
        if time.monotonic() >= deadline:
            words = said.read_text(errors="replace").strip()[-_SAID:]
            end(uid, kind)
            raise NotTraced(
                f"strace did not attach to {untraced} of {pids} within {_ATTACH_TIMEOUT_S:g} s: "
                f"{words or 'it printed nothing'}"
            )
        time.sleep(_POLL_S)
    return look(uid, kind)


def look(uid: str, kind: TamperingKind) -> TamperedCalls:
    """Returns the present state."""
    try:
        lines = _log(uid, kind).read_text(errors="replace").splitlines()
    except FileNotFoundError:
        lines = []
    pids = [process.pid for process in pods.processes(uid)]
    return TamperedCalls(
        running=[pid for pid in pids if ending.runs(pid)],
        traced=sorted(_traced(pids, _log(uid, kind))),
        changed=sum(any(mark in line for mark in _MARKS) for line in lines),
    )


def end(uid: str, kind: TamperingKind) -> TamperedCalls:
    """Stops changing the pod's calls; returns the state before. An strace that is not ours stays.

    Raises NotTraced if an strace does not detach.
    """
    found = look(uid, kind)
    left = ending.end(_writing_to(_log(uid, kind)))
    if left:
        raise NotTraced(
            f"strace is still running after SIGKILL, as {sorted(left)}: "
            "calls may still be changed; end these processes on the node"
        )
    for file in (_log(uid, kind), _said(uid, kind)):
        file.unlink(missing_ok=True)
    return found


def left(uid: str) -> list[str]:
    """Returns what is left of such faults, as sentences; ignores an strace that is not ours."""
    return [sentence for kind in TamperingKind for sentence in _left(uid, kind)]


def heal(uid: str) -> None:
    """Ends each of these faults of which something is left. Raises NotTraced."""
    for kind in TamperingKind:
        if any(_left(uid, kind)):
            end(uid, kind)


def files(uid: str, patterns: Iterable[str]) -> list[str]:
    """Returns the paths that exist now in the pod's containers and match a pattern, sorted.

    Raises PodAbsent, NoSuchFile for a pattern without a match.
    """
    pids, found = pods.workers(uid), set[str]()
    for pattern in patterns:
        met = {path for pid in pids for path in _matching(pid, pattern)}
        if not met:
            raise NoSuchFile(
                f"no file in the pod matches {pattern}: expected the absolute path of a file that "
                "exists when the fault begins, in which * stands for any part of a name"
            )
        found |= met
    return sorted(found)


def _matching(pid: int, pattern: str) -> Iterator[str]:
    root = pods.PROC / str(pid) / "root"
    for path in root.glob(pattern.lstrip("/")):
        yield f"/{path.relative_to(root)}"


def _left(uid: str, kind: TamperingKind) -> Iterator[str]:
    for pid in sorted(_writing_to(_log(uid, kind))):
        yield f"strace process {pid}"
    for file in (_log(uid, kind), _said(uid, kind)):
        if file.exists():
            yield f"file {file}"


def _log(uid: str, kind: TamperingKind) -> Path:
    return _LOGS / f"zonequake-{kind}-{uid}.log"


def _said(uid: str, kind: TamperingKind) -> Path:
    return _log(uid, kind).with_suffix(".said")


def _traced(pids: Sequence[int], log: Path) -> set[int]:
    """Returns those of the processes that are traced by an strace that writes to this file."""
    return {pid for pid, tracer in _tracers(pids).items() if _writes_to(tracer, log)}


def _tracers(pids: Sequence[int]) -> dict[int, int]:
    """Returns the tracer of each of these processes that is traced."""
    found = {}
    for pid in pids:
        try:
            status = (pods.PROC / str(pid) / "status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if tracer := int(status.partition("TracerPid:")[2].split()[0]):
            found[pid] = tracer
    return found


def _writing_to(log: Path) -> set[int]:
    """Returns every strace that writes to this file, and the process that limits its time."""
    pids = [int(folder.name) for folder in pods.PROC.iterdir() if folder.name.isdigit()]
    return {pid for pid in pids if _writes_to(pid, log)}


def _writes_to(pid: int, log: Path) -> bool:
    try:
        words = (pods.PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return b"strace" in words and str(log).encode() in words

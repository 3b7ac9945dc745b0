"""Makes a pod's fsync, fdatasync and msync fail with EIO, without a broken disk.

strace attaches to the pod's processes and answers these calls in the kernel's place (`-e inject`).
It writes a line for each, which is the proof. While it is attached, each system call of these
processes takes about 0.1 ms longer. After its end, even by SIGKILL, they run on as before; it also
ends by itself at a time limit, if it is not ended earlier. A restarted process is not affected.

Not covered: writes to files opened with O_SYNC or O_DSYNC.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from zonequake_agent import ending, pods

CALLS = "fsync,fdatasync,msync"
_ATTACH_TIMEOUT_S = 5.0
_POLL_S = 0.05
_SAID = 300
_LOGS = Path("/tmp")  # noqa: S108 - the agent's own, or the machine's; named by the pod's UID


class NotTraced(Exception):
    """Raised when strace is missing, could not attach, or does not detach; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailingSyncs:
    """The pod's processes, those whose syncs fail now, and how many syncs have failed so far."""

    running: list[int]
    traced: list[int]
    failed: int


def begin(uid: str, *, seconds: float) -> FailingSyncs:
    """Makes the pod's syncs fail from now on, for at most `seconds`. Raises PodAbsent, NotTraced.

    A process that ends before its tracer has attached is no error: some stores end at their first
    failed sync (etcd), sooner than it can be checked.
    """
    pids = pods.workers(uid)
    if shutil.which("strace") is None:
        raise NotTraced("there is no strace on this node: apt-get install strace")
    end(uid)
    log, said = _log(uid), _log(uid, "said")
    # In its own session: the agent ends, and strace runs on.
    command = [
        *("setsid", "--fork", "timeout", "--kill-after=2", f"{seconds:g}"),
        *("strace", "-f", "-q", "-o", str(log)),
        *("-e", f"trace={CALLS}", "-e", f"inject={CALLS}:error=EIO", "-e", "signal=none"),
        *(word for pid in pids for word in ("-p", str(pid))),
    ]
    with said.open("wb") as output:
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    deadline = time.monotonic() + _ATTACH_TIMEOUT_S
    while untraced := [pid for pid in pids if ending.runs(pid) and pid not in _tracers([pid])]:
        if time.monotonic() >= deadline:
            words = said.read_text(errors="replace").strip()[-_SAID:]
            end(uid)
            raise NotTraced(
                f"strace did not attach to {untraced} of {pids} within {_ATTACH_TIMEOUT_S:g} s: "
                f"{words or 'it printed nothing'}"
            )
        time.sleep(_POLL_S)
    return look(uid)


def look(uid: str) -> FailingSyncs:
    """Returns the present state."""
    try:
        lines = _log(uid).read_text(errors="replace").splitlines()
    except FileNotFoundError:
        lines = []
    pids = [process.pid for process in pods.processes(uid)]
    return FailingSyncs(
        running=pids,
        traced=sorted(_tracers(pids)),
        failed=sum("(INJECTED)" in line for line in lines),
    )


def end(uid: str) -> FailingSyncs:
    """Stops making the pod's syncs fail; returns the state before.

    Raises NotTraced if an strace does not detach.
    """
    found = look(uid)
    pids = [process.pid for process in pods.processes(uid)]
    left = ending.end({*_tracers(pids).values(), *_writing_to(_log(uid))})
    if left:
        raise NotTraced(
            f"strace is still running after SIGKILL, as {sorted(left)}: "
            "syncs may still fail; end these processes on the node"
        )
    for log in (_log(uid), _log(uid, "said")):
        log.unlink(missing_ok=True)
    return found


def left(uid: str) -> list[str]:
    """Returns what is left of the fault, as sentences; ignores an strace that is not ours."""
    return [
        *(f"strace process {pid}" for pid in sorted(_writing_to(_log(uid)))),
        *(f"file {log}" for log in (_log(uid), _log(uid, "said")) if log.exists()),
    ]


def _log(uid: str, kind: str = "log") -> Path:
    return _LOGS / f"zonequake-syncs-{uid}.{kind}"


def _tracers(pids: Sequence[int]) -> dict[int, int]:
    """Returns the tracer of each of these processes that is traced by strace."""
    found = {}
    for pid in pids:
        try:
            status = (pods.PROC / str(pid) / "status").read_text()
            tracer = int(status.partition("TracerPid:")[2].split()[0])
            if tracer and _name(tracer) == "strace":
                found[pid] = tracer
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def _writing_to(log: Path) -> set[int]:
    """Returns every strace that writes to this file, and the process that limits its time."""
    found = set()
    for folder in pods.PROC.iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except (FileNotFoundError, ProcessLookupError):
                continue
            if b"strace" in words and str(log).encode() in words:
                found.add(int(folder.name))
    return found


def _name(pid: int) -> str:
    return (pods.PROC / str(pid) / "comm").read_text().strip()

"""What the fault agent does to single processes and their volumes, on real ones."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import IO

import pytest

from tests.patience import PATIENCE_S
from zonequake_agent import leftovers, pods, wall_clock
from zonequake_agent.disk import filling, mounts, tampering
from zonequake_agent.disk.tampering import FAILING_SYNCS, TamperingKind

UID = str(uuid.uuid4())
"""Of each worker its own: strace's file is named by it in a folder that all of the machine's share,
and its end ends every strace that writes there."""
DAY_S = 86_400

CLOCK = """
import json, time
while True:
    clocks = [time.time(), time.monotonic(), time.clock_gettime(time.CLOCK_TAI)]
    print(json.dumps(clocks), flush=True)
    time.sleep(0.02)
"""
SYNCS = """
import os, sys, threading, time
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
def sync():
    while True:
        os.pwrite(file, b"x", 0)
        try:
            os.fdatasync(file)
            print("stored", flush=True)
        except OSError as error:
            print(error.errno, flush=True)
        time.sleep(0.02)
threading.Thread(target=sync, daemon=True).start()
time.sleep(600)
"""
ENDS = """
import os, sys, time
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
print("here", flush=True)
while True:
    os.pwrite(file, b"x", 0)
    os.fdatasync(file)
"""
SLEEPS = "import time; print('here', flush=True); time.sleep(600)"


def said_by(process: subprocess.Popen[str]) -> IO[str]:
    assert process.stdout is not None
    return process.stdout


@contextmanager
def running(
    code: str, *words: str, before: tuple[str, ...] = ()
) -> Iterator[subprocess.Popen[str]]:
    command = [*before, sys.executable, "-c", code, *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            said_by(process).readline()
            yield process
        finally:
            process.kill()


@pytest.fixture
def pod_of(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes these processes the whole of a pod, for each call that asks for its processes."""
    # strace may take its time on a busy machine until it has attached to them.
    monkeypatch.setattr(tampering, "_ATTACH_TIMEOUT_S", PATIENCE_S)

    def of(*pids: int) -> None:
        all_ = [pods.PodProcess(pid=pid, name="python", container="c") for pid in pids]
        monkeypatch.setattr(pods, "processes", lambda uid, proc=pods.PROC: all_)
        monkeypatch.setattr(pods, "workers", lambda uid: list(pids))

    return of


def said(process: subprocess.Popen[str], count: int = 1) -> list[str]:
    """Its next lines, behind what waits in the pipe."""
    lines = said_by(process)
    os.set_blocking(lines.fileno(), False)
    while lines.readline():
        continue
    os.set_blocking(lines.fileno(), True)
    return [lines.readline().strip() for _ in range(count + 1)][1:]


def are_off(process: subprocess.Popen[str], by_s: int) -> bool:
    """Whether its clock of the wall and atomic time are off by so much, and its monotonic one
    isn't: what it reads lies between two readings of ours, however far these are apart."""
    before, found, after = _clocks(), json.loads(said(process)[0]), _clocks()
    return all(
        early + off_s - 1 <= its <= late + off_s + 1
        for early, its, late, off_s in zip(before, found, after, (by_s, 0, by_s), strict=True)
    )


def _clocks() -> tuple[float, float, float]:
    return time.time(), time.monotonic(), time.clock_gettime(time.CLOCK_TAI)


@pytest.mark.parametrize("step_s", [3600, -DAY_S, 1 << 31])
def test_a_wall_clock_is_stepped_for_one_process_alone_and_comes_back(step_s: int) -> None:
    with running(CLOCK) as victim, running(CLOCK) as bystander:
        assert wall_clock.step(victim.pid, step_s).step_s == step_s
        assert are_off(victim, step_s)
        assert are_off(bystander, 0)
        assert wall_clock.step_of(victim.pid).step_s == step_s
        wall_clock.step(victim.pid, -step_s)
        assert are_off(victim, -step_s)
        for _ in range(2):
            wall_clock.step(victim.pid, 0)
            assert are_off(victim, 0)
        assert wall_clock.step_of(victim.pid).step_s == 0


def test_syncs_fail_while_strace_is_there_and_pass_again(
    tmp_path: Path, pod_of: Callable[[int], None]
) -> None:
    with running(SYNCS, str(tmp_path / "file")) as victim:
        pod_of(victim.pid)
        assert tampering.begin(UID, FAILING_SYNCS, seconds=60).traced == [victim.pid]
        assert set(said(victim, 5)) == {"5"}, "EIO"
        assert tampering.look(UID, TamperingKind.FAILING).changed >= 5
        assert tampering.end(UID, TamperingKind.FAILING).changed >= 5
        assert set(said(victim, 5)) == {"stored"}
        again = tampering.end(UID, TamperingKind.FAILING)
        assert (again.traced, again.changed) == ([], 0)


def test_a_process_goes_on_when_its_strace_is_killed(
    tmp_path: Path, pod_of: Callable[[int], None]
) -> None:
    with running(SYNCS, str(tmp_path / "file")) as victim:
        pod_of(victim.pid)
        tampering.begin(UID, FAILING_SYNCS, seconds=60)
        (tracer,) = tampering._tracers([victim.pid]).values()
        os.kill(tracer, signal.SIGKILL)
        while tampering._tracers([victim.pid]):
            time.sleep(0.02)
        assert set(said(victim, 5)) == {"stored"}
        assert tampering.look(UID, TamperingKind.FAILING).traced == [], (
            "and it is seen that nothing fails any more"
        )
        tampering.end(UID, TamperingKind.FAILING)


def test_syncs_pass_again_by_themselves_when_no_harness_comes_back(
    tmp_path: Path, pod_of: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tampering, "_ATTACH_TIMEOUT_S", 5.0)
    seconds = 0.5
    began: tampering.TamperedCalls | None = None
    with running(SYNCS, str(tmp_path / "file")) as victim:
        pod_of(victim.pid)
        while began is None:
            assert seconds < PATIENCE_S
            with suppress(tampering.NotTraced):  # it was over before anybody saw that it had begun
                began = tampering.begin(UID, FAILING_SYNCS, seconds=seconds)
            seconds *= 4
        deadline = time.monotonic() + PATIENCE_S
        while tampering.look(UID, TamperingKind.FAILING).traced:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert set(said(victim, 5)) == {"stored"}
        tampering.end(UID, TamperingKind.FAILING)


def test_a_process_that_ends_at_its_first_failed_sync_was_hit(
    tmp_path: Path, pod_of: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is dead before the agent can look whether strace has attached to it."""
    tracers = tampering._tracers

    def looked_for_too_late(pids: list[int]) -> dict[int, int]:
        if pids == [victim.pid]:
            victim.wait(timeout=60)
        return tracers(pids)

    monkeypatch.setattr(tampering, "_tracers", looked_for_too_late)
    with running(ENDS, str(tmp_path / "file")) as victim, running(SLEEPS) as bystander:
        pod_of(victim.pid, bystander.pid)
        began = tampering.begin(UID, FAILING_SYNCS, seconds=60)
        assert victim.wait(timeout=PATIENCE_S) == 1, "OSError: EIO"
        assert (began.traced, began.changed) == ([bystander.pid], 1)
        assert tampering.end(UID, TamperingKind.FAILING).changed == 1


def test_a_process_that_was_killed_and_is_not_reaped_does_not_run_untraced(
    tmp_path: Path, pod_of: Callable[..., None]
) -> None:
    with running(SYNCS, str(tmp_path / "file")) as victim, running(SLEEPS) as bystander:
        pod_of(victim.pid, bystander.pid)
        tampering.begin(UID, FAILING_SYNCS, seconds=60)
        victim.kill()
        deadline = time.monotonic() + PATIENCE_S
        while victim.pid in (found := tampering.look(UID, TamperingKind.FAILING)).traced:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert (found.running, found.traced) == ([bystander.pid], [bystander.pid])
        tampering.end(UID, TamperingKind.FAILING)


def test_strace_that_does_not_attach_is_an_error_that_names_whom_it_missed(
    pod_of: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(SLEEPS) as traced, running(SLEEPS) as other:
        held = ["strace", "-q", "-p", str(traced.pid), "-o", "/dev/null"]
        with subprocess.Popen(held, stderr=subprocess.DEVNULL) as holder:
            while tampering._tracers([traced.pid]) != {traced.pid: holder.pid}:
                time.sleep(0.02)
            pod_of(traced.pid, other.pid)
            # The time is up once strace has attached to the other, and not before.
            clock = SimpleNamespace(
                monotonic=lambda: (
                    time.monotonic() + (3600 if tampering._tracers([other.pid]) else 0)
                ),
                sleep=time.sleep,
            )
            monkeypatch.setattr(tampering, "time", clock)
            with pytest.raises(tampering.NotTraced, match=rf"to \[{traced.pid}\] of"):
                tampering.begin(UID, FAILING_SYNCS, seconds=60)
            holder.kill()


DELAYS = """
import os, sys, time
files = [os.open(name, os.O_RDWR | os.O_CREAT) for name in sys.argv[1:]]
print("here", flush=True)
while True:
    took = []
    for file in files:
        for call in (lambda: os.pwrite(file, b"x", 0), lambda: os.fdatasync(file)):
            begun = time.monotonic()
            call()
            took.append(time.monotonic() - begun >= 0.2)
    print(*map(int, took), flush=True)
"""


@pytest.mark.parametrize(
    ("calls", "named", "slow"),
    [
        (tampering.SYNCS, [], "0 1 0 1"),
        (tampering.SYNCS, ["b*"], "0 0 0 1"),
        (tampering.WRITES, ["a"], "1 0 0 0"),
    ],
)
def test_calls_of_named_files_are_slow_and_no_others(
    calls: str, named: list[str], slow: str, tmp_path: Path, pod_of: Callable[[int], None]
) -> None:
    with running(DELAYS, str(tmp_path / "a"), str(tmp_path / "b")) as victim:
        pod_of(victim.pid)
        paths = tampering.files(UID, [str(tmp_path / name) for name in named])
        order = tampering.slow(calls, delay_ms=200, paths=paths)
        assert tampering.begin(UID, order, seconds=60).traced == [victim.pid]
        deadline = time.monotonic() + PATIENCE_S
        while said(victim) != [slow]:  # a call may be slow because the machine is
            assert time.monotonic() < deadline
        assert tampering.look(UID, TamperingKind.SLOW).changed > 0
        assert [one.split(" ")[0] for one in leftovers.left(UID)] == ["strace"] * 2 + ["file"] * 2
        assert tampering.look(UID, TamperingKind.FAILING).traced == [], "none of its own"
        for _ in range(2):
            leftovers.heal(UID)
        assert leftovers.left(UID) == []
        while said(victim) != ["0 0 0 0"]:
            assert time.monotonic() < deadline


def test_a_name_of_no_file_is_refused(tmp_path: Path, pod_of: Callable[[int], None]) -> None:
    pod_of(os.getpid())
    with pytest.raises(tampering.NoSuchFile, match=r"no file in the pod matches /.*/\*\.wal: exp"):
        tampering.files(UID, [f"{tmp_path}/*.wal"])


def test_strace_at_a_process_that_never_syncs_proves_nothing(
    pod_of: Callable[[int], None],
) -> None:
    with running(SLEEPS) as wrong:
        pod_of(wrong.pid)
        tampering.begin(UID, FAILING_SYNCS, seconds=60)
        time.sleep(0.3)
        assert tampering.look(UID, TamperingKind.FAILING).changed == 0
        tampering.end(UID, TamperingKind.FAILING)


WRITES = """
import errno, os, sys, time
os.mkdir("/tmp/volume")
assert os.system("mount -t tmpfs -o size=1m limited /tmp/volume") == 0
print("here", flush=True)
time.sleep(600)
"""


@contextmanager
def a_pod_with_a_volume(
    pod_of: Callable[[int], None], path: str
) -> Iterator[subprocess.Popen[str]]:
    """The process of a pod that has a volume of one mebibyte at `path`."""
    code = WRITES.replace("/tmp/volume", path)
    with running(code, before=("unshare", "--mount", "--")) as owner:
        pod_of(owner.pid)
        yield owner


def test_a_volume_is_filled_to_the_last_block_and_emptied(
    pod_of: Callable[[int], None], tmp_path: Path
) -> None:
    path = str(tmp_path / "volume")
    with a_pod_with_a_volume(pod_of, path) as owner:
        assert filling.look(UID, path) == filling.VolumeState(
            file_bytes=0, free_bytes=1 << 20, refuses=False
        )
        full = filling.fill(UID, path)
        assert full == filling.VolumeState(file_bytes=1 << 20, free_bytes=0, refuses=True)
        Path(f"/proc/{owner.pid}/root{path}/{filling.FILE_NAME}").unlink()
        assert not filling.look(UID, path).refuses, "a file that is gone is seen"
        filling.fill(UID, path)
        for _ in range(2):
            assert filling.empty(UID, path).free_bytes == 1 << 20


def test_an_unrecorded_fill_file_is_found_and_taken_away(
    pod_of: Callable[[int], None], tmp_path: Path
) -> None:
    path = str(tmp_path / "volume")
    with a_pod_with_a_volume(pod_of, path):
        assert leftovers.left(UID) == []
        filling.fill(UID, path)
        assert leftovers.left(UID) == [f"fill file at {path}"]
        for _ in range(2):
            leftovers.heal(UID)
        assert leftovers.left(UID) == []
        assert filling.look(UID, path).free_bytes == 1 << 20


def test_an_unrecorded_step_of_a_clock_is_found_and_set_right(
    pod_of: Callable[[int], None],
) -> None:
    with running(CLOCK) as victim:
        pod_of(victim.pid)
        assert leftovers.left(UID) == []
        wall_clock.step(victim.pid, DAY_S)
        assert leftovers.left(UID) == [f"stepped clock of process {victim.pid}"]
        for _ in range(2):
            leftovers.heal(UID)
        assert leftovers.left(UID) == []
        assert are_off(victim, 0)


def test_unrecorded_tampering_is_found_and_another_programs_strace_stays(
    tmp_path: Path, pod_of: Callable[[int], None]
) -> None:
    with running(SYNCS, str(tmp_path / "file")) as victim:
        pod_of(victim.pid)
        tampering.begin(UID, FAILING_SYNCS, seconds=60)
        found = leftovers.left(UID)
        assert any(one.startswith("strace process") for one in found)
        assert any(one.startswith("file") for one in found)
        for _ in range(2):
            leftovers.heal(UID)
        assert leftovers.left(UID) == []
        assert set(said(victim, 5)) == {"stored"}
        watching = ["strace", "-f", "-q", "-o", str(tmp_path / "log"), "-p", str(victim.pid)]
        with subprocess.Popen(watching) as others:
            while not tampering._tracers([victim.pid]):
                time.sleep(0.02)
            assert leftovers.left(UID) == []
            leftovers.heal(UID)
            assert tampering._tracers([victim.pid]) == {victim.pid: others.pid}
            others.kill()


def test_an_agent_that_a_dead_harness_left_at_work_is_found(tmp_path: Path) -> None:
    (tmp_path / "zonequake_agent.py").write_text("import time; time.sleep(600)")
    for verb, words, harms in (
        ("fail-syncs", [UID, "60"], True),
        ("step-clock", [UID, "3600"], True),
        ("step-clock", [UID, "0"], False),
        ("let-syncs-pass", [UID], False),
        ("fill", ["another-pod", "/data"], False),
    ):
        command = [sys.executable, "-m", "zonequake_agent", verb, *words]
        with subprocess.Popen(command, cwd=tmp_path) as working:
            line = Path(f"/proc/{working.pid}/cmdline")
            while b"zonequake_agent" not in line.read_bytes():
                time.sleep(0.01)
            expected = [f"agent process {working.pid}, which still runs {verb}"]
            assert leftovers.left(UID) == (expected if harms else [])
            working.kill()


def test_a_folder_of_the_nodes_own_disk_is_never_filled(
    pod_of: Callable[[int], None], tmp_path: Path
) -> None:
    pod_of(os.getpid())
    with pytest.raises(mounts.SharedVolume, match="nothing is mounted"):
        filling.fill(UID, str(tmp_path))
    with pytest.raises(mounts.SharedVolume, match="root file system"):
        filling.fill(UID, "/")
    assert not list(tmp_path.iterdir())


def test_a_volume_that_is_a_folder_of_a_larger_one_is_never_filled() -> None:
    shared = "36 25 254:16 /volumes/pvc-1 /data rw,relatime shared:1 - ext4 /dev/vdb rw"
    with pytest.raises(mounts.SharedVolume, match=r"/volumes/pvc-1 of a shared file system"):
        mounts.whole_volume(shared, "/data", "254:0")
    mounts.whole_volume(shared.replace("/volumes/pvc-1", "/"), "/data", "254:0")

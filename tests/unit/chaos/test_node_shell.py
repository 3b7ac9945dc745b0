"""Hands on a node: whom they find, on a folder in place of /proc; and real commands here."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from zonequake_agent import pods
from zonequake_chaos.errors import FaultFailed, NoProcess
from zonequake_chaos.node_access.own_machine import OwnMachine
from zonequake_chaos.node_access.shell import PodOnNode, asked, asked_if_there
from zonequake_cluster.instance import Instance
from zonequake_kube.execution import ExecResult

UID = "5b1c2f0e-1111-2222-3333-444455556666"
CONTAINER = "ab" * 32
ABSENT = PodOnNode(name="zq-default-0", uid=UID, node="n")


@pytest.fixture
def shell(tmp_path: Path) -> OwnMachine:
    return OwnMachine(Instance(name="none", root=tmp_path))


def test_a_pods_processes_are_those_whose_cgroup_names_it(tmp_path: Path) -> None:
    pod = f"3:cpu:/zonequake-1/kubepods/burstable/pod{UID}"
    slices = f"0::/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice"
    for pid, cgroup in (
        ("30", f"{pod}/{CONTAINER}\n"),
        ("4", f"{pod}/{'c' * 64}\n"),
        ("31", f"{slices}/cri-containerd-{CONTAINER}.scope\n"),
        ("5", "3:cpu:/zonequake-1/kubepods/besteffort/pod0000/abc\n"),
        ("self", f"pod{UID}"),
    ):
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "cgroup").write_text(cgroup)
        (tmp_path / pid / "comm").write_text("python\n")
        fields = ["0"] * 19 + [{"4": "100"}.get(pid, "200")]
        (tmp_path / pid / "stat").write_text(f"{pid} (a) b) {' '.join(fields)}\n")
    (tmp_path / "7").mkdir()  # it has ended meanwhile
    found = pods.processes(UID, tmp_path)
    assert [process.pid for process in found] == [4, 30, 31]
    assert [process.container for process in found] == ["c" * 64, CONTAINER, CONTAINER]


async def test_a_command_runs_on_the_node_and_any_exit_code_is_an_answer(shell: OwnMachine) -> None:
    ended = await shell.run(ABSENT, [sys.executable, "-c", "print(1); raise SystemExit(7)"])
    assert (ended.code, ended.stdout) == (7, "1\n")


async def test_a_command_that_does_not_end_in_time_is_an_error(shell: OwnMachine) -> None:
    with pytest.raises(FaultFailed, match="sleep 5, for pod zq-default-0"):
        await shell.run(ABSENT, ["sleep", "5"], timeout_s=0.1)


async def test_a_command_under_way_is_waited_for_by_who_is_cancelled(
    shell: OwnMachine, tmp_path: Path
) -> None:
    """What undoes it comes next, and must not come before it."""
    begun, done = tmp_path / "begun", tmp_path / "done"
    script = f"touch {begun}; sleep 0.5; touch {done}"
    running = asyncio.create_task(shell.run(ABSENT, ["sh", "-c", script]))
    while not begun.exists():  # noqa: ASYNC110  a file has no event for it
        await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert done.exists()


async def test_a_pod_without_a_process_is_told_from_what_failed(shell: OwnMachine) -> None:
    with pytest.raises(NoProcess, match="no process of the pod"):
        await asked(shell, ABSENT, object, "clock", UID)
    await asked_if_there(shell, ABSENT, "clock", UID)
    with pytest.raises(FaultFailed, match="exit code 2"):
        await asked_if_there(shell, ABSENT, "no-such-verb", UID)


async def test_an_answer_of_another_agent_is_an_error_that_shows_it(
    shell: OwnMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run(*_: object, **__: object) -> ExecResult:
        return ExecResult(code=0, stdout='{"pids": 3}', stderr="")

    monkeypatch.setattr(OwnMachine, "run", run)
    with pytest.raises(FaultFailed, match=r"found '\{\"pids\": 3\}', expected .* of this version"):
        await asked(shell, ABSENT, list[int], "clock", UID)


def test_a_component_that_ends_before_its_signal_comes_has_got_none(
    shell: OwnMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    monkeypatch.setattr(OwnMachine, "_pid", lambda self, component: ended.pid)
    assert shell.kill("kube-apiserver") == 0
    shell.resume("kube-apiserver")
    with pytest.raises(FaultFailed, match="does not run"):
        shell.pause("kube-apiserver")

"""A paused process is proven to be stopped, by the kernel, when its pause begins and when it ends.

The pod and its processes are played.
"""

from __future__ import annotations

import contextlib
import dataclasses
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.chaos.made_up_injections import made_up_injection, made_up_victim
from zonequake_chaos.errors import FaultFailed
from zonequake_chaos.faults.kinds.processes import ProcessPause
from zonequake_chaos.faults.life import Injection
from zonequake_chaos.record.cleanup_journal import CleanupJournal
from zonequake_kube.errors import NotFound, WaitExpired
from zonequake_kube.execution import ExecResult
from zonequake_kube.objects import pod_view


class Pod:
    """One pod whose process 7 is stopped by SIGSTOP, unless it is `deaf`."""

    def __init__(self) -> None:
        self.uid, self.restarts = "u", 0
        self.stopped = self.deaf = self.gone = False
        self.signals: list[int] = []

    async def get(self, kind: str, name: str) -> dict[str, Any]:
        if self.gone:
            raise NotFound(f"{kind} {name} not found")
        return {
            "metadata": {"name": name, "uid": self.uid},
            "spec": {"containers": [{"name": "store"}]},
            "status": {
                "phase": "Running",
                "containerStatuses": [{"name": "store", "restartCount": self.restarts}],
            },
        }

    async def execute(
        self, pod: str, container: str, command: list[str], *, timeout_s: float
    ) -> ExecResult:
        return ExecResult(code=0, stdout="7\n" if self.stopped else "", stderr="")

    @contextlib.asynccontextmanager
    async def executing(
        self, pod: str, container: str, command: list[str], *, timeout_s: float, stdin: bool
    ) -> AsyncIterator[Any]:
        async def line() -> str:
            return "ready"

        async def say(text: str) -> None:
            self.signals.append(int(command[-1]))
            self.stopped = self.signals[-1] == signal.SIGSTOP and not self.deaf

        async def result() -> ExecResult:
            return ExecResult(code=0, stdout="7\n", stderr="")

        yield SimpleNamespace(line=line, say=say, result=result)


class Silent:
    """An observer to which no node answers."""

    async def wait(self, seen: Any, *, timeout_s: float, waiting_for: Any) -> None:
        assert seen(SimpleNamespace(nodes={}))


@pytest.fixture
def pod(monkeypatch: pytest.MonkeyPatch) -> Pod:
    monkeypatch.setattr("zonequake_chaos.faults.life._POLL_S", 0)
    return Pod()


@pytest.fixture
def injection(pod: Pod, tmp_path: Path) -> Injection:
    return made_up_injection(
        [made_up_victim()],
        name="pause",
        timeout_s=0.2,
        hold_s=1,
        kube=pod,
        observer=Silent(),
        journal=CleanupJournal(tmp_path),
    )


async def paused(injection: Injection) -> ProcessPause:
    life = ProcessPause()
    await life.prepare(injection)
    await life.inject(injection)
    assert await life.wait_until_effective(injection) == {"silent": ["n0"], "stopped": {"n0": [7]}}
    return life


async def test_a_process_that_is_stopped_to_the_end_is_continued(
    injection: Injection, pod: Pod
) -> None:
    life = await paused(injection)
    await life.recover(injection)
    assert injection.ended_early is None
    assert not pod.stopped
    await life.clean_up(injection)
    assert injection.debts == []


async def test_all_processes_of_a_pause_are_continued_at_the_same_moment(
    injection: Injection, pod: Pod, monkeypatch: pytest.MonkeyPatch
) -> None:
    (victim,) = injection.victims
    injection.victims = (victim, dataclasses.replace(victim, node="n1"))
    life = ProcessPause()
    await life.inject(injection)
    together: list[tuple[str, ...]] = []

    async def all_at_once(asked: Injection, number: signal.Signals) -> None:
        assert number is signal.SIGCONT
        together.append(tuple(each.node for each in asked.victims))

    monkeypatch.setattr("zonequake_chaos.faults.kinds.processes.signal_all", all_at_once)
    await life.recover(injection)
    assert together == [("n0", "n1")]


async def test_a_process_that_runs_on_is_not_proven_to_be_paused(
    injection: Injection, pod: Pod
) -> None:
    pod.deaf = True
    with pytest.raises(WaitExpired, match=r"stopped processes so far: \{'n0': \[\]\}"):
        await paused(injection)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"stopped": False}, "its process was resumed before its pause ended"),
        ({"restarts": 1, "stopped": False}, "its container was restarted while its process"),
        ({"uid": "next"}, "its pod was replaced while its process was stopped"),
        ({"gone": True}, "its pod was deleted while its process was stopped"),
    ],
)
async def test_a_pause_that_did_not_last_says_so(
    injection: Injection, pod: Pod, changed: dict[str, Any], why: str
) -> None:
    life = await paused(injection)
    for name, value in changed.items():
        setattr(pod, name, value)
    await life.recover(injection)
    assert (injection.ended_early or "").startswith(f"n0: {why}")
    await life.clean_up(injection)
    assert injection.debts == []


async def test_a_pause_that_the_kubelet_would_end_is_refused_before_the_signal(
    injection: Injection, pod: Pod
) -> None:
    (victim,) = injection.victims
    injection.victims = (dataclasses.replace(victim, patience_s=60.0),)
    injection.hold_s = 75
    with pytest.raises(FaultFailed, match="found holdSeconds 75, expected less than 60: the kube"):
        await ProcessPause().prepare(injection)
    assert (pod.signals, injection.debts) == ([], [])
    injection.hold_s = 59
    await ProcessPause().prepare(injection)


def patience_s(probe: dict[str, Any] | None) -> float | None:
    """That of a member whose container has this probe; its hands listen at 8082."""
    member = {"name": "etcd"} | ({} if probe is None else {"livenessProbe": probe})
    hands = {"name": "hands", "ports": [{"containerPort": 8082}]}
    labels = {"zonequake.io/program": "etcd"}
    metadata = {"name": "m", "uid": "u", "labels": labels}
    return pod_view({"metadata": metadata, "spec": {"containers": [member, hands]}}).patience_s


def test_the_kubelets_patience_is_that_of_the_probe_which_the_process_answers() -> None:
    probe = {"httpGet": {"path": "/", "port": 2381}, "periodSeconds": 10, "failureThreshold": 6}
    assert patience_s(None) is None
    assert patience_s(probe) == 60
    assert patience_s({"httpGet": {"port": "http"}}) == 30, "by the kubelet's defaults"
    assert patience_s(probe | {"httpGet": {"port": 8082}}) is None, "its hands answer that one"

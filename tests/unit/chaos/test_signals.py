"""Signals reach all victims at the same moment, and only those that were asked for."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.chaos.made_up_injections import made_up_injection, made_up_victim
from zonequake_chaos.errors import FaultFailed
from zonequake_chaos.faults.kinds.pod_kill import kill_and_delete
from zonequake_chaos.faults.life import Injection
from zonequake_chaos.faults.signals import ready_to_signal, signal_all
from zonequake_kube.errors import ClusterError
from zonequake_kube.execution import ExecResult

PODS = ("n0", "n1", "n2")


class Pods:
    """In which the command takes its time to begin: one loop turn more in each pod."""

    def __init__(self, *, met: str = "7\n", missing: str = "", code: int = 0) -> None:
        self.happened: list[tuple[str, str]] = []
        self._met, self._missing, self._code = met, missing, code

    @contextlib.asynccontextmanager
    async def executing(
        self, pod: str, container: str, command: list[str], *, timeout_s: float, stdin: bool
    ) -> AsyncIterator[Any]:
        assert (container, stdin) == ("store", True)
        if pod == self._missing:
            raise ClusterError(f"exec in pod {pod}: no such pod")

        async def line() -> str:
            for _ in range(PODS.index(pod)):
                await asyncio.sleep(0)
            self.happened.append(("ready", pod))
            return "ready"

        async def say(text: str) -> None:
            self.happened.append(("told", pod))

        async def result() -> ExecResult:
            for _ in range(PODS.index(pod)):
                await asyncio.sleep(0)
            self.happened.append(("heard", pod))
            return ExecResult(code=self._code, stdout=self._met, stderr="")

        yield SimpleNamespace(line=line, say=say, result=result)
        self.happened.append(("left", pod))

    async def delete(self, kind: str, pod: str, *, uid: str, grace_s: int) -> None:
        assert (kind, uid, grace_s) == ("Pod", "u", 0)
        self.happened.append(("deleted", pod))

    def injection(self) -> Injection:
        clock = SimpleNamespace(now=lambda: SimpleNamespace(time_ns=5))
        victims = [made_up_victim(pod, process_incarnation=None) for pod in PODS]
        return made_up_injection(victims, name="fault", kube=self, clock=clock)


async def test_no_pod_is_told_before_the_command_waits_in_all_of_them() -> None:
    pods = Pods()
    injection = pods.injection()
    await signal_all(injection, signal.SIGKILL)
    steps = [what for what, _ in pods.happened if what != "heard"]
    assert steps == ["ready"] * 3 + ["told"] * 3 + ["left"] * 3
    assert injection.killed_ns == dict.fromkeys(PODS, 5)


async def test_a_pod_in_which_the_command_does_not_begin_spares_the_others() -> None:
    pods = Pods(missing="n2")
    with pytest.raises(ClusterError, match="pod n2"):
        await signal_all(pods.injection(), signal.SIGKILL)
    assert "told" not in {what for what, _ in pods.happened}


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
async def test_a_signal_that_met_no_process_is_an_error(number: signal.Signals) -> None:
    """A process that was dead before is not killed, whatever the kubelet counts later."""
    injection = Pods(met="").injection()
    with pytest.raises(FaultFailed, match=f"{number.name} reached no process in pod n0"):
        await signal_all(injection, number)
    assert injection.killed_ns == {}


async def test_a_kill_that_ends_its_own_command_is_no_error_and_no_proof_yet() -> None:
    injection = Pods(met="", code=137).injection()
    async with ready_to_signal(injection, signal.SIGKILL) as kill_all:
        await kill_all()
    assert injection.killed_ns == {}


async def test_no_pod_is_deleted_before_its_process_was_killed() -> None:
    """Else the kubelet's SIGTERM may come first, and the data node hands over its leaderships."""
    pods = Pods()
    await kill_and_delete(pods.injection())
    order = [what for what, _ in pods.happened if what in ("heard", "deleted")]
    assert order == ["heard"] * 3 + ["deleted"] * 3

"""Stops the operator, or kills it: no decisions are made for a while, or a new process starts over.

The operator runs under an init like the data nodes (`zonequake_chaos.faults.signals`), so both
signals can be sent from inside its container. All replicas of the operator are hit.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass

from zonequake_chaos.errors import FaultFailed
from zonequake_chaos.faults.life import Injection, Proof
from zonequake_chaos.faults.signals import (
    STILL,
    check_patience,
    continue_process,
    process_states,
    send_signal,
)
from zonequake_chaos.record.cleanup_journal import ContinueProcess
from zonequake_kube.errors import ClusterError, HarnessError
from zonequake_kube.objects import OPERATOR_LABELS, PodView, pod_view


@dataclass(slots=True)
class _Operators:
    """The operator's pods as they were before the fault."""

    before: tuple[PodView, ...] = ()

    async def find(self, injection: Injection) -> tuple[PodView, ...]:
        """Finds the operator's pods. Raises FaultFailed if there is none."""
        found = await _operators(injection)
        if not found:
            raise FaultFailed(f"{injection.name}: no pod with the labels {OPERATOR_LABELS} runs")
        self.before = found
        return found


class OperatorPause:
    """Life of `OperatorPauseSpec`. Effective once the kernel reports the processes as stopped.

    A kubelet ends a container that answers no probe for some time: a longer pause is refused, and
    one that turns out to be longer is reported as ended early.
    """

    def __init__(self) -> None:
        self._operators = _Operators()

    async def prepare(self, injection: Injection) -> None:
        found = await self._operators.find(injection)
        for pod in found:
            check_patience(injection, pod.name, pod.patience_s)
        for pod in found:
            injection.owe(ContinueProcess(pod=pod.name, uid=pod.uid))

    async def inject(self, injection: Injection) -> None:
        for pod in self._operators.before:
            await _signal(injection, pod, signal.SIGSTOP)

    async def wait_until_effective(self, injection: Injection) -> Proof:
        stopped: dict[str, list[int]] = {}

        async def all_stopped() -> bool:
            for pod in self._operators.before:
                stopped[pod.name] = await _stopped(injection, pod)
            return all(stopped.values())

        await injection.until(
            all_stopped, waiting_for=lambda: f"stopped processes so far: {stopped or 'none'}"
        )
        return {"stopped": stopped}

    async def recover(self, injection: Injection) -> None:
        for pod in self._operators.before:
            try:
                still = await _stopped(injection, pod)
            except HarnessError:
                still = []
            if not still:
                injection.ended_early = f"{pod.name} was resumed before its pause ended"
            await continue_process(injection.world.kube, pod=pod.name, uid=pod.uid)

    async def wait_until_recovered(self, injection: Injection) -> None:
        await _until_ready(injection)

    async def clean_up(self, injection: Injection) -> None:
        for pod in self._operators.before:
            await continue_process(injection.world.kube, pod=pod.name, uid=pod.uid)
        injection.pay()


class OperatorKill:
    """Life of `OperatorKillSpec`. Effective once the signal reached a process, or the kubelet
    counted a restart.
    """

    def __init__(self) -> None:
        self._operators = _Operators()
        self._killed: dict[str, str] = {}

    async def prepare(self, injection: Injection) -> None:
        """Records nothing: the kubelet restarts the container."""
        await self._operators.find(injection)

    async def inject(self, injection: Injection) -> None:
        for pod in self._operators.before:
            try:
                self._killed[pod.name] = f"process {await _signal(injection, pod, signal.SIGKILL)}"
            except ClusterError:
                continue  # the container may end before the command can report

    async def wait_until_effective(self, injection: Injection) -> Proof:
        async def all_killed() -> bool:
            for pod in await _operators(injection):
                if pod.restarts > _restarts(self._operators.before, pod):
                    self._killed.setdefault(pod.name, f"restart {pod.restarts}")
            return all(pod.name in self._killed for pod in self._operators.before)

        await injection.until(
            all_killed, waiting_for=lambda: f"killed so far: {self._killed or 'none'}"
        )
        return {"killed": self._killed}

    async def recover(self, injection: Injection) -> None:
        """Does nothing: the kubelet restarts the container."""

    async def wait_until_recovered(self, injection: Injection) -> None:
        async def restarted() -> bool:
            found = await _operators(injection)
            return bool(found) and all(
                p.restarts > _restarts(self._operators.before, p) for p in found
            )

        await injection.until(
            restarted, waiting_for=lambda: "the kubelet has restarted no operator"
        )
        await _until_ready(injection)

    async def clean_up(self, injection: Injection) -> None:
        injection.pay()


async def _operators(injection: Injection) -> tuple[PodView, ...]:
    pods = map(pod_view, await injection.world.kube.find("Pod", OPERATOR_LABELS))
    return tuple(pod for pod in pods if pod.phase == "Running" and not pod.deleting)


def _restarts(before: tuple[PodView, ...], pod: PodView) -> int:
    """Returns the restarts that the same pod had before; a new pod counts from 0."""
    return next((each.restarts for each in before if each.uid == pod.uid), -1)


async def _signal(injection: Injection, pod: PodView, number: signal.Signals) -> str:
    """Sends the signal; returns the processes that it reached. Raises FaultFailed if none."""
    result = await send_signal(
        injection.world.kube, pod=pod.name, container=pod.container, number=number
    )
    if result.code != 0 or not result.stdout.strip():
        raise FaultFailed(
            f"{injection.name}: {number.name} reached no process in pod {pod.name} "
            f"(exit code {result.code}): {result.stderr.strip()[-300:] or 'no child of PID 1'}"
        )
    return ", ".join(result.stdout.split())


async def _stopped(injection: Injection, pod: PodView) -> list[int]:
    """Returns the stopped processes; none unless all of them are stopped."""
    states = await process_states(injection.world.kube, pod=pod.name, container=pod.container)
    return sorted(states) if states and set(states.values()) == {STILL} else []


async def _until_ready(injection: Injection) -> None:
    async def ready() -> bool:
        found = await _operators(injection)
        return bool(found) and all(pod.ready for pod in found)

    await injection.until(ready, waiting_for=lambda: "no operator is Ready")

"""Runs commands on a pod's node, for what neither the API server nor the pod can do.

One protocol, two implementations: the machine itself, if it runs the embedded cluster's node
(`own_machine.OwnMachine`), and the fault agent's pod on that node. Both run the same program,
`zonequake_agent`; they differ only in `run`, on which the functions below are built.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import msgspec

from zonequake_chaos.errors import FaultFailed, NoProcess
from zonequake_kube.execution import ExecResult

RUN_TIMEOUT_S = 20.0
_Answer = TypeVar("_Answer")

_ASKED_TIMEOUT_S = 60.0
"""Time-out of the agent's answer: to fill a volume of some gigabytes takes a while."""

ABSENT = 3
"""The agent's exit code where no process of the pod runs on the node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodOnNode:
    """A pod, and the name of the node that carries it."""

    name: str
    uid: str
    node: str


class NodeShell(Protocol):
    """Runs commands as root on a node, in its own PID namespace."""

    @property
    def agent(self) -> Sequence[str]:
        """The command that starts the agent there, up to its verb."""
        ...

    async def run(
        self, pod: PodOnNode, argv: Sequence[str], *, timeout_s: float = RUN_TIMEOUT_S
    ) -> ExecResult:
        """Runs a command on the pod's node and waits for its end; any exit code is an answer.

        Waits even if the caller is cancelled (`to_its_end`). Raises HarnessError if the command
        could not be run, or did not end in time.
        """
        ...


async def to_its_end(work: Coroutine[object, object, _Answer]) -> _Answer:
    """Waits for the end of a command even if the caller is cancelled: the command runs on, and its
    undoing must not come first."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.gather(task, return_exceptions=True)
        raise


async def asked(
    shell: NodeShell, pod: PodOnNode, answer: type[_Answer], verb: str, *words: str
) -> _Answer:
    """Calls the agent on the pod's node; returns its answer.

    Raises HarnessError, FaultFailed if the agent fails, NoProcess if the pod has no process.
    """
    ended = await shell.run(pod, [*shell.agent, verb, *words], timeout_s=_ASKED_TIMEOUT_S)
    if ended.code == ABSENT:
        raise NoProcess(f"{verb} in pod {pod.name}: {_said(ended)}")
    if ended.code != 0:
        raise FaultFailed(f"{verb} in pod {pod.name}: {_said(ended)}")
    try:
        return msgspec.json.decode(ended.stdout, type=answer)
    except msgspec.MsgspecError as error:
        raise FaultFailed(
            f"{verb} in pod {pod.name}: found {ended.stdout[:100]!r}, expected {answer}: is the "
            f"agent there of this version? {error}"
        ) from error


def told(value: object) -> str:
    """Returns a value of an answer as a word of a later call."""
    return msgspec.json.encode(value).decode()


async def asked_if_there(shell: NodeShell, pod: PodOnNode, verb: str, *words: str) -> None:
    """Calls the agent as `asked` does, but without an error if the pod has no process: nothing is
    left to do then.
    """
    with contextlib.suppress(NoProcess):
        await asked(shell, pod, object, verb, *words)


def shell_of(shell: NodeShell | None) -> NodeShell:
    """Returns the shell; `check_shell` has made sure before the run that it exists."""
    assert shell is not None, "checked before the run"
    return shell


def _said(ended: ExecResult) -> str:
    return f"exit code {ended.code}: {(ended.stderr or ended.stdout).strip()[-300:]}"

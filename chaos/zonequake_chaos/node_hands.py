"""Hands on the node that carries a pod: for what neither the API server nor the pod can do.

One protocol, two implementations: the machine itself, where an embedded cluster's node runs on it
(`own_node.OwnNode`), and the fault agent's pod on that node. Both run the same program,
`zonequake_agent`; `run` is all that they differ in, and the functions below are built on it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import msgspec

from zonequake_chaos.errors import FaultFailed
from zonequake_chaos.kube import ExecResult

RUN_TIMEOUT_S = 20.0
_Answer = TypeVar("_Answer")

_ASKED_TIMEOUT_S = 60.0
"""A volume of some gigabytes takes a while to be filled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodOnNode:
    """A pod, and the name of the node that carries it."""

    name: str
    uid: str
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostProcess:
    """A process of a pod as its node counts; `container` is the container runtime's name."""

    pid: int
    name: str
    container: str


class NodeHands(Protocol):
    """Runs commands as root on a node, in its own PID namespace."""

    @property
    def agent(self) -> Sequence[str]:
        """How the agent's program is called there: the words before its verb."""
        ...

    async def run(
        self, pod: PodOnNode, argv: Sequence[str], *, timeout_s: float = RUN_TIMEOUT_S
    ) -> ExecResult:
        """Runs a command on the pod's node and waits for its end; any exit code is an answer.

        Raises HarnessError if it could not be run, or did not end in time.
        """
        ...


async def processes(hands: NodeHands, pod: PodOnNode) -> list[HostProcess]:
    """The pod's processes, the one that holds its namespaces (`pause`) too; none if all have ended.

    Raises HarnessError.
    """
    ended = await hands.run(pod, [*hands.agent, "processes", pod.uid])
    if ended.code != 0:
        raise FaultFailed(f"processes of pod {pod.name}: {_said(ended)}")
    return [HostProcess(**found) for found in json.loads(ended.stdout)]


async def asked(
    hands: NodeHands, pod: PodOnNode, answer: type[_Answer], verb: str, *words: str
) -> _Answer:
    """What the agent answers on the pod's node. Raises HarnessError, FaultFailed if it can't."""
    ended = await hands.run(pod, [*hands.agent, verb, *words], timeout_s=_ASKED_TIMEOUT_S)
    if ended.code != 0:
        raise FaultFailed(f"{verb} in pod {pod.name}: {_said(ended)}")
    return msgspec.json.decode(ended.stdout, type=answer)


async def asked_if_there(hands: NodeHands, pod: PodOnNode, verb: str, *words: str) -> None:
    """As `asked`, but nothing is left to be done where no process of the pod runs any more."""
    ended = await hands.run(pod, [*hands.agent, verb, *words], timeout_s=_ASKED_TIMEOUT_S)
    if ended.code not in (0, ABSENT):
        raise FaultFailed(f"{verb} in pod {pod.name}: {_said(ended)}")


def hands_of(hands: NodeHands | None) -> NodeHands:
    """Those that were checked before the run."""
    assert hands is not None, "checked before the run"
    return hands


async def inside(
    hands: NodeHands,
    pod: PodOnNode,
    argv: Sequence[str],
    *,
    namespaces: Sequence[str] = ("net",),
    timeout_s: float = RUN_TIMEOUT_S,
) -> ExecResult:
    """Runs a command of the node inside namespaces of the pod, named as `nsenter` does.

    With `mount` the command is one of the pod's image. Raises HarnessError, FaultFailed if no
    process of the pod runs there.
    """
    words = [*hands.agent, "inside", pod.uid, ",".join(namespaces), *argv]
    ended = await hands.run(pod, words, timeout_s=timeout_s)
    if ended.code == ABSENT:
        raise FaultFailed(f"pod {pod.name}: {_said(ended)}")
    return ended


ABSENT = 3
"""The agent's exit code where no process of the pod runs on the node."""


def _said(ended: ExecResult) -> str:
    return f"exit code {ended.code}: {(ended.stderr or ended.stdout).strip()[-300:]}"

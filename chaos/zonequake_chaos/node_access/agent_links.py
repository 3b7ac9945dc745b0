"""The fault agent's work on a pod's links, as calls in a shell on its node (docs/agent.md)."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass
from typing import Any

from zonequake_chaos.errors import FaultFailed
from zonequake_chaos.node_access.shell import RUN_TIMEOUT_S, NodeShell, PodOnNode

_PROBES = 7
PROBE_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkFaultEffect:
    """The packet counts of a fault's rules, and those of its delayer, if it has one."""

    dropped: int
    passed: int
    delayed: int = 0
    mean_held_ms: float = 0.0
    longest_held_ms: float = 0.0


async def break_links(shell: NodeShell, pod: PodOnNode, order: dict[str, object]) -> None:
    """Applies the fault; `order` is an agent's LinkFault. Raises HarnessError."""
    await _ask(shell, pod, "apply", pod.uid, json.dumps(order))


async def undo_links(shell: NodeShell, pod: PodOnNode, fault: str = "") -> None:
    """Removes the fault from the pod; without a name all link faults. Raises HarnessError.

    Does nothing for a pod that is gone.
    """
    await _ask(shell, pod, "undo", pod.uid, *([fault] if fault else []))


async def met(shell: NodeShell, pod: PodOnNode, fault: str) -> LinkFaultEffect:
    """Returns the counts of the fault's rules so far. Raises HarnessError."""
    found = await _ask(shell, pod, "counts", pod.uid, fault)
    told = json.loads(found.get("delayed", "{}"))
    return LinkFaultEffect(
        dropped=found["dropped"],
        passed=found["passed"],
        delayed=told.get("packets", 0),
        mean_held_ms=told.get("mean_held_ms", 0.0),
        longest_held_ms=told.get("longest_held_ms", 0.0),
    )


async def holds(shell: NodeShell, pod: PodOnNode, fault: str) -> bool:
    """Returns whether the fault is active at the pod and not expired. Raises HarnessError."""
    return bool(await _ask(shell, pod, "holds", pod.uid, fault))


async def round_trip_ms(
    shell: NodeShell, source: PodOnNode, address: str, port: int
) -> float | None:
    """Returns the median round trip from inside the pod in ms; None if most probes got no answer.

    Raises HarnessError.
    """
    words = [source.uid, address, str(port), str(_PROBES), str(PROBE_TIMEOUT_S)]
    timeout_s = RUN_TIMEOUT_S + _PROBES * PROBE_TIMEOUT_S
    trips = await _ask(shell, source, "probe", *words, timeout_s=timeout_s)
    answered = [float(ms) for ms in trips if ms is not None]
    return statistics.median(answered) if len(answered) > _PROBES // 2 else None


async def _ask(
    shell: NodeShell, pod: PodOnNode, *words: str, timeout_s: float = RUN_TIMEOUT_S
) -> Any:  # noqa: ANN401 - each verb answers with JSON of its own
    ended = await shell.run(pod, [*shell.agent, *words], timeout_s=timeout_s)
    if ended.code != 0:
        raise FaultFailed(
            f"agent {words[0]} for pod {pod.name}: exit code {ended.code}: "
            f"{(ended.stderr or ended.stdout).strip()[-300:]}"
        )
    return json.loads(ended.stdout) if ended.stdout.strip() else None

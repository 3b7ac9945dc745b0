"""The remains of faults at pods, as their nodes' agents see them (`zonequake_agent.leftovers`).

They are found in the kernel and in the pods themselves, and not in a record: rules, delayers,
failing syncs, stepped clocks, fill files, and agents that a dead harness left running.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from zonequake_chaos.errors import FaultFailed
from zonequake_chaos.node_access.shell import NodeShell, PodOnNode


async def left_behind(shell: NodeShell, pods: Sequence[PodOnNode]) -> list[str]:
    """Returns the remains at these pods as sentences; empty if there are none. Raises HarnessError
    if they can't be checked.
    """
    found = []
    for pod in pods:
        words = json.loads(await _asked(shell, pod, "leftovers"))
        found += [f"pod {pod.name}: {one}" for one in words]
    return found


async def heal(shell: NodeShell, pod: PodOnNode) -> None:
    """Removes these remains. Raises HarnessError."""
    await _asked(shell, pod, "heal")


async def _asked(shell: NodeShell, pod: PodOnNode, verb: str) -> str:
    ended = await shell.run(pod, [*shell.agent, verb, pod.uid])
    if ended.code != 0:
        raise FaultFailed(
            f"agent {verb} for pod {pod.name}: exit code {ended.code}: "
            f"{(ended.stderr or ended.stdout).strip()[-300:]}"
        )
    return ended.stdout

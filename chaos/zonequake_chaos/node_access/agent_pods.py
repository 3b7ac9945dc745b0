"""The fault agent's pods as a shell on the nodes: used by exec through the API server only.

The release names their namespace (`faultAgent.enabled`, docs/agent.md); there is one on each node.
They listen on no port and have no rights at the API server.
"""

from __future__ import annotations

from collections.abc import Sequence

from zonequake_chaos.errors import FaultFailed
from zonequake_chaos.load.installation import Installation, installation
from zonequake_chaos.node_access.own_machine import OwnMachine
from zonequake_chaos.node_access.shell import RUN_TIMEOUT_S, NodeShell, PodOnNode, to_its_end
from zonequake_kube.client import Kube
from zonequake_kube.errors import UsageError
from zonequake_kube.execution import ExecResult
from zonequake_kube.objects import is_ready

CONTAINER = "agent"


class AgentShell:
    """Runs commands in the fault agent's pods (see `NodeShell`)."""

    agent: Sequence[str] = ("python3", "-m", "zonequake_agent")

    def __init__(self, kube: Kube, *, release: str) -> None:
        """Takes `kube`: a connection for the agents' namespace."""
        self._kube = kube
        self._labels = (
            f"app.kubernetes.io/component=fault-agent,app.kubernetes.io/instance={release}"
        )

    async def run(
        self, pod: PodOnNode, argv: Sequence[str], *, timeout_s: float = RUN_TIMEOUT_S
    ) -> ExecResult:
        """Runs a command. Raises FaultFailed if the pod's node has no Ready agent, ClusterError."""
        agents = await self._kube.find("Pod", self._labels)
        here = [a for a in agents if a["spec"].get("nodeName") == pod.node and is_ready(a)]
        if not here:
            nodes = sorted(a["spec"].get("nodeName", "") for a in agents if is_ready(a))
            raise FaultFailed(
                f"node {pod.node or '(unknown)'} of pod {pod.name} has no fault agent that is "
                f"Ready in namespace {self._kube.namespace}; there is one on "
                f"{', '.join(nodes) or 'no node'}"
            )
        name = here[0]["metadata"]["name"]
        return await to_its_end(
            self._kube.execute(name, CONTAINER, list(argv), timeout_s=timeout_s)
        )


def shell_for(kube: Kube, installed: Installation, node: OwnMachine | None) -> NodeShell | None:
    """Returns the agent's shell if the release has one, else the machine's if it runs the
    cluster."""
    if installed.agent_namespace:
        return AgentShell(kube.in_namespace(installed.agent_namespace), release=installed.release)
    return node


async def remaining_shell(kube: Kube, release: str, node: OwnMachine | None) -> NodeShell | None:
    """Returns the shell for a cleanup, for which the release may be gone."""
    try:
        return shell_for(kube, await installation(kube, release), node)
    except UsageError:
        return node

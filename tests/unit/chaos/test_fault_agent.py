"""Which shell a run gets, and that the agent's are those of the pod's own node."""

from __future__ import annotations

from typing import Any, cast

import pytest

from zonequake_chaos.errors import FaultFailed
from zonequake_chaos.faults.kinds.network import check_shell
from zonequake_chaos.load.installation import Installation
from zonequake_chaos.node_access.agent_pods import AgentShell, shell_for
from zonequake_chaos.node_access.own_machine import OwnMachine
from zonequake_chaos.node_access.shell import PodOnNode
from zonequake_chaos.scenario.faults import (
    FaultTarget,
    LoadPauseSpec,
    NetworkPartitionSpec,
    TargetRole,
)
from zonequake_kube.client import Kube
from zonequake_kube.errors import UsageError
from zonequake_kube.execution import ExecResult

POD = PodOnNode(name="zq-default-0", uid="u", node="n2")


class Agents:
    """A namespace with agents on some nodes; it notes who was told to run what."""

    def __init__(self, ready: dict[str, bool], namespace: str = "zonequake") -> None:
        self._ready = ready
        self.namespace = namespace
        self.executed: list[tuple[str, str, str, list[str]]] = []

    def in_namespace(self, namespace: str) -> Agents:
        self.namespace = namespace
        return self

    async def find(self, kind: str, labels: str) -> list[dict[str, Any]]:
        assert kind == "Pod"
        assert "component=fault-agent" in labels
        return [
            {
                "metadata": {"name": f"agent-{node}"},
                "spec": {"nodeName": node},
                "status": {"conditions": [{"type": "Ready", "status": str(ready)}]},
            }
            for node, ready in self._ready.items()
        ]

    async def execute(
        self, pod: str, container: str, command: list[str], *, timeout_s: float
    ) -> ExecResult:
        self.executed.append((self.namespace, pod, container, command))
        return ExecResult(code=0, stdout="", stderr="")


def installed(agent_namespace: str) -> Installation:
    return Installation.of(
        {
            "metadata": {"namespace": "zonequake"},
            "data": {
                "release": "zq",
                "loadImage": "i",
                "loadPullPolicy": "Never",
                "storeService": "s",
                "faultAgentNamespace": agent_namespace,
            },
        }
    )


async def test_the_agent_on_the_pods_own_node_is_told_by_exec_in_its_own_namespace() -> None:
    agents = Agents({"n1": True, "n2": True})
    shell = shell_for(cast("Kube", agents), installed("zonequake-faults"), None)
    assert shell is not None
    await shell.run(POD, [*shell.agent, "left", "u"])
    words = ["python3", "-m", "zonequake_agent", "left", "u"]
    assert agents.executed == [("zonequake-faults", "agent-n2", "agent", words)]


@pytest.mark.parametrize("ready", [{"n1": True}, {"n1": True, "n2": False}])
async def test_a_node_without_an_agent_that_is_ready_is_named(ready: dict[str, bool]) -> None:
    agents = Agents(ready)
    with pytest.raises(FaultFailed, match=r"node n2 of pod zq-default-0 has no .* on n1"):
        await AgentShell(cast("Kube", agents), release="zq").run(POD, ["true"])
    assert agents.executed == []


def test_without_an_agent_the_machine_itself_is_the_shell_if_it_carries_the_cluster() -> None:
    own = cast("OwnMachine", object())
    assert shell_for(cast("Kube", Agents({})), installed(""), own) is own
    assert shell_for(cast("Kube", Agents({})), installed(""), None) is None


def test_a_fault_of_links_without_any_shell_is_refused_before_the_run() -> None:
    cut = NetworkPartitionSpec(name="cut", target=FaultTarget(role=TargetRole.ANY))
    with pytest.raises(UsageError, match=r"cut: .*faultAgent.enabled=true"):
        check_shell([LoadPauseSpec(name="quiet"), cut], None)
    check_shell([LoadPauseSpec(name="quiet")], None)

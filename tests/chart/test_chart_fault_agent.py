"""The fault agent: not there unless asked for, and then alone in a namespace of its own."""

from __future__ import annotations

import pytest

from tests.chart.conftest import Document, One, Render

pytestmark = pytest.mark.chart

ON = "faultAgent.enabled=true"
AGENTS = "zonequake-faults"


def kinds_in(documents: list[Document], namespace: str) -> set[str]:
    return {d["kind"] for d in documents if d["metadata"].get("namespace") == namespace}


def test_no_release_gets_an_agent_unasked(render: Render) -> None:
    documents = render()
    assert not {"Namespace", "DaemonSet"} & {d["kind"] for d in documents}
    (harness,) = [d for d in documents if d["metadata"]["name"] == "zq-harness"]
    assert harness["data"]["faultAgentNamespace"] == ""


def test_what_is_privileged_is_alone_in_a_namespace_of_its_own(render: Render, one: One) -> None:
    documents = render(sets=[ON])
    namespace = one(documents, "Namespace", AGENTS)
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"
    assert kinds_in(documents, AGENTS) == {"ServiceAccount", "DaemonSet", "NetworkPolicy", "Role"}
    assert one(documents, "ConfigMap", "zq-harness")["data"]["faultAgentNamespace"] == AGENTS
    added = [d for d in documents if d["metadata"].get("namespace") == AGENTS]
    before = {(d["kind"], d["metadata"]["name"]) for d in render()}
    assert {(d["kind"], d["metadata"]["name"]) for d in documents} - before == {
        ("Namespace", AGENTS),
        *((d["kind"], d["metadata"]["name"]) for d in added),
    }


def test_the_agent_opens_no_port_and_may_ask_the_api_server_nothing(
    render: Render, one: One
) -> None:
    documents = render(sets=[ON])
    pod = one(documents, "DaemonSet", "zq-fault-agent")["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert not pod.get("hostNetwork")
    (container,) = pod["containers"]
    assert "ports" not in container
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    account = one(documents, "ServiceAccount", "zq-fault-agent")
    assert account["automountServiceAccountToken"] is False
    bound = [s["name"] for d in documents for s in d.get("subjects") or []]
    assert "zq-fault-agent" not in bound
    policy = one(documents, "NetworkPolicy", "zq-fault-agent")["spec"]
    assert policy == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


def test_the_harness_account_may_exec_at_the_agent_and_nothing_else(
    render: Render, one: One
) -> None:
    documents = render(
        sets=[ON, "faultAgent.drivers[0].kind=User", "faultAgent.drivers[0].name=ann"]
    )
    rules = one(documents, "Role", "zq-fault-driver")["rules"]
    assert [(rule["resources"], rule["verbs"]) for rule in rules] == [
        (["pods"], ["list"]),
        (["pods/exec"], ["create", "get"]),
    ]
    binding = one(documents, "RoleBinding", "zq-fault-driver")
    assert binding["metadata"]["namespace"] == AGENTS
    assert binding["subjects"] == [{"kind": "User", "name": "ann"}]

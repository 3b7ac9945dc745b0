from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.chart.conftest import Document, One, Render

pytestmark = pytest.mark.chart

# What the operator may do, and nothing beyond it (docs/operator.md).
OPERATOR_MAY_WRITE = {
    "distributionzones",
    "distributionzones/status",
    "distributionzones/finalizers",
    "partitions",
    "partitions/status",
    "logicaltopologies",
    "logicaltopologies/status",
    "pods/status",
    "events",
    "tables/status",
    "leases",
}
READING = {"get", "list", "watch"}


def pods(documents: list[Document]) -> Iterator[tuple[str, Document]]:
    for document in documents:
        if document["kind"] in {"Deployment", "StatefulSet", "DaemonSet", "Job"}:
            name = f"{document['kind']}/{document['metadata']['name']}"
            yield name, document["spec"]["template"]["spec"]
        elif document["kind"] == "Pod":  # that of helm test, which ends by itself
            yield f"Pod/{document['metadata']['name']}", document["spec"]


def containers(documents: list[Document]) -> Iterator[tuple[str, Document]]:
    for name, pod in pods(documents):
        for container in pod.get("initContainers", []) + pod["containers"]:
            yield f"{name}/{container['name']}", container


def test_pods_run_in_a_namespace_that_enforces_restricted(documents: list[Document]) -> None:
    assert list(pods(documents))
    for name, pod in pods(documents):
        security = pod["securityContext"]
        assert security["runAsNonRoot"] is True, name
        assert security["runAsUser"] > 0, name
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}, name
        for forbidden in ("hostNetwork", "hostPID", "hostIPC"):
            assert not pod.get(forbidden), name
        for volume in pod.get("volumes", []):
            allowed = {"configMap", "emptyDir", "projected"}
            assert set(volume) - {"name"} <= allowed, f"{name}: {volume}"
    for name, container in containers(documents):
        security = container["securityContext"]
        assert security["allowPrivilegeEscalation"] is False, name
        assert security["readOnlyRootFilesystem"] is True, name
        assert security["capabilities"] == {"drop": ["ALL"]}, name


def test_every_container_has_requests_limits_and_probes(documents: list[Document]) -> None:
    for name, container in containers(documents):
        for kind in ("requests", "limits"):
            assert {"cpu", "memory"} <= set(container["resources"][kind]), f"{name}: {kind}"
        if name.startswith("Pod/"):
            continue
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            port = container[probe]["httpGet"]["port"]
            assert port in {p["name"] for p in container["ports"]}, f"{name}: {probe}"


def test_only_the_operator_gets_a_token_unasked(documents: list[Document]) -> None:
    for name, pod in pods(documents):
        needs_token = name == "Deployment/zq-operator"
        assert pod.get("automountServiceAccountToken", True) is needs_token, name


def test_a_data_node_gets_a_token_that_may_renew_leases_and_nothing_else(
    render: Render, one: One
) -> None:
    documents = render()
    pod = one(documents, "StatefulSet", "zq-default")["spec"]["template"]["spec"]
    (api,) = [volume["projected"] for volume in pod["volumes"] if volume["name"] == "api"]
    assert [set(source) for source in api["sources"]] == [{"serviceAccountToken"}, {"configMap"}]
    (rule,) = one(documents, "Role", "zq-store")["rules"]
    assert (rule["resources"], rule["verbs"]) == (["leases"], ["get", "create", "update"])


def test_every_service_account_that_a_pod_names_exists(documents: list[Document]) -> None:
    existing = {d["metadata"]["name"] for d in documents if d["kind"] == "ServiceAccount"}
    for name, pod in pods(documents):
        assert pod["serviceAccountName"] in existing, name


def test_selectors_match_the_pods_they_mean(documents: list[Document]) -> None:
    templates = {
        d["metadata"]["name"]: d["spec"]["template"]["metadata"]["labels"]
        for d in documents
        if d["kind"] in {"Deployment", "StatefulSet"}
    }
    for document in documents:
        name, kind = document["metadata"]["name"], document["kind"]
        if kind in {"Deployment", "StatefulSet"}:
            wanted = document["spec"]["selector"]["matchLabels"].items()
            assert wanted <= templates[name].items(), f"{kind}/{name}"
            others = [t for t, labels in templates.items() if wanted <= labels.items()]
            assert others == [name], f"{kind}/{name} also selects {others}"
        if kind == "Service":
            wanted = document["spec"]["selector"].items()
            selected = [labels for labels in templates.values() if wanted <= labels.items()]
            # The load's pods are made by the harness when a run begins.
            assert selected or name == "zq-load", f"Service/{name} selects no pod"


def test_no_role_has_a_wildcard_or_reads_secrets_but_the_one_certificate_of_clients(
    documents: list[Document],
) -> None:
    for document in documents:
        if document["kind"] not in {"Role", "ClusterRole"}:
            continue
        for rule in document["rules"]:
            granted = rule["apiGroups"] + rule["resources"] + rule["verbs"]
            assert "*" not in granted, document["metadata"]["name"]
            if "secrets" in rule["resources"]:
                assert document["metadata"]["name"] == "zq-kv"
                assert (rule["resourceNames"], rule["verbs"]) == (["zq-tls-harness"], ["get"])


def test_the_chaos_account_reads_the_secrets_that_are_named_for_targets_and_no_others(
    render: Render, one: One
) -> None:
    def of_secrets(*sets: str) -> list[Document]:
        rules = one(render(sets=("harness.account=true", *sets)), "Role", "zq-chaos")["rules"]
        return [rule for rule in rules if "secrets" in rule["resources"]]

    assert of_secrets() == []
    (rule,) = of_secrets("harness.targetSecrets={etcd-members,etcd-client}")
    assert (rule["resourceNames"], rule["verbs"]) == (["etcd-members", "etcd-client"], ["get"])


def test_the_operator_writes_only_what_it_owns(render: Render, one: One) -> None:
    rules = one(render(), "Role", "zq-operator")["rules"]
    written = {
        resource for rule in rules if set(rule["verbs"]) - READING for resource in rule["resources"]
    }
    assert written == OPERATOR_MAY_WRITE


def test_nothing_is_cluster_wide_unless_asked_for(render: Render) -> None:
    kinds = {d["kind"] for d in render()}
    assert not kinds & {"ClusterRole", "ClusterRoleBinding"}
    asked = {d["kind"] for d in render(sets=["operator.readNodes=true"])}
    assert {"ClusterRole", "ClusterRoleBinding"} <= asked

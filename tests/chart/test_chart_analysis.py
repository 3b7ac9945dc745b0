"""The analysis in the cluster: its own namespace, least rights, restricted pods, encryption."""

from __future__ import annotations

import pytest

from tests.chart.conftest import ANALYSIS, Document, One, Render, analysis_pods

pytestmark = pytest.mark.chart

ON = "analysis.enabled=true"


def settings(documents: list[Document], one: One) -> dict[str, str]:
    """The options of Spark."""
    text = one(documents, "ConfigMap", "zq-analysis")["data"]["spark.conf"]
    lines = [line.split(maxsplit=1) for line in text.splitlines() if not line.startswith("#")]
    return dict(lines)


def test_nothing_of_it_is_there_unasked(render: Render, one: One) -> None:
    documents = render()
    assert not [d for d in documents if "analysis" in d["metadata"]["name"]]
    assert one(documents, "ConfigMap", "zq-harness")["data"]["analysisNamespace"] == ""


def test_all_of_it_is_in_a_namespace_of_its_own_that_enforces_restricted(
    render: Render, one: One
) -> None:
    documents = render(sets=[ON])
    namespace = one(documents, "Namespace", ANALYSIS)
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert one(documents, "ConfigMap", "zq-harness")["data"]["analysisNamespace"] == ANALYSIS
    before = {(d["kind"], d["metadata"]["name"]) for d in render()}
    added = [d for d in documents if (d["kind"], d["metadata"]["name"]) not in before]
    assert {d["kind"] for d in added if d["metadata"].get("namespace") == ANALYSIS} == {
        *("ConfigMap", "Role", "RoleBinding", "ServiceAccount"),
    }
    assert [d["kind"] for d in added if d["metadata"].get("namespace") != ANALYSIS] == ["Namespace"]


def test_driver_and_executors_are_restricted_and_only_the_driver_has_a_token(
    render: Render,
) -> None:
    driver, executor = analysis_pods(render(sets=[ON]))
    assert driver["spec"]["automountServiceAccountToken"] is True
    assert executor["spec"]["automountServiceAccountToken"] is False
    assert driver["spec"]["serviceAccountName"] != executor["spec"]["serviceAccountName"]
    for pod in (driver, executor):
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
        assert pod["spec"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        (container,) = pod["spec"]["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
        assert {"/tmp", "/work", "/scratch"} <= mounted, "Spark writes there"
        assert container["resources"]["limits"]["memory"] == "2048Mi"


def test_the_executors_account_is_bound_to_nothing(render: Render) -> None:
    documents = render(sets=[ON, "harness.account=true"])
    bound = {s["name"] for d in documents for s in d.get("subjects") or []}
    assert "zq-analysis" in bound
    assert "zq-analysis-executor" not in bound


def test_spark_authenticates_and_encrypts_and_has_the_ports_that_policies_know(
    render: Render, one: One
) -> None:
    found = settings(render(sets=[ON, "networkPolicy.enabled=true"]), one)
    for name in ("authenticate", "network.crypto.enabled", "io.encryption.enabled"):
        assert found[f"spark.{name}"] == "true"
    assert found["spark.network.crypto.cipher"] == "AES/GCM/NoPadding"
    ports = ("spark.driver.port", "spark.driver.blockManager.port", "spark.blockManager.port")
    assert [found[name] for name in ports] == ["7078", "7079", "7079"]


def test_values_reach_spark_and_the_pods(render: Render, one: One) -> None:
    documents = render(
        sets=[
            *(ON, "analysis.executors.count=5", "analysis.executors.memoryMebibytes=3000"),
            *("analysis.storeSecret=a-store", "images.analysis=registry.example/analysis:7"),
            *("images.pullSecrets={one,two}", "analysis.nodeSelector.disk=fast"),
            *("analysis.runners[0].kind=User", "analysis.runners[0].name=ann"),
        ]
    )
    found = settings(documents, one)
    assert found["spark.executor.instances"] == "5"
    assert found["spark.executor.memory"] == "3000m"
    assert found["spark.kubernetes.container.image"] == "registry.example/analysis:7"
    assert found["spark.kubernetes.container.image.pullSecrets"] == "one,two"
    for pod in analysis_pods(documents):
        (container,) = pod["spec"]["containers"]
        assert container["envFrom"] == [{"secretRef": {"name": "a-store"}}]
        assert container["image"] == "registry.example/analysis:7"
        assert pod["spec"]["nodeSelector"] == {"disk": "fast"}
        assert pod["spec"]["imagePullSecrets"] == [{"name": "one"}, {"name": "two"}]
    assert one(documents, "RoleBinding", "zq-analysis-runner")["subjects"] == [
        {"kind": "User", "name": "ann"}
    ]
    for pod in analysis_pods(render(sets=[ON])):
        assert "envFrom" not in pod["spec"]["containers"][0]

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from tests.chart.conftest import Document, Helm, One, Render

pytestmark = pytest.mark.chart

CHART = Path(__file__).resolve().parents[2] / "charts" / "zonequake"
# Kinds of others, of which the API's own schemas know nothing.
FOREIGN_GROUPS = {"cert-manager.io", "monitoring.coreos.com", "zonequake.io"}
KUBERNETES_MINOR = "1.34"


@pytest.mark.parametrize("values", ["defaults", "minimal", "pools", "monitoring", "everything"])
def test_the_chart_passes_strict_lint(helm: Helm, values: str) -> None:
    files = [] if values == "defaults" else [f"--values={CHART}/ci/{values}-values.yaml"]
    done = helm("lint", "--strict", str(CHART), *files)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_document_is_valid_for_the_api(documents: list[Document]) -> None:
    checked = 0
    for document in documents:
        if document["apiVersion"].partition("/")[0] in FOREIGN_GROUPS:
            continue
        # Strict refuses misspelled fields; it takes a definition's own schema for such fields.
        strict = document["kind"] != "CustomResourceDefinition"
        kubernetes_validate.validate(document, KUBERNETES_MINOR, strict=strict)
        checked += 1
    assert checked >= 7


def test_no_two_documents_have_the_same_kind_and_name(documents: list[Document]) -> None:
    names = [(d["kind"], d["metadata"]["name"]) for d in documents]
    assert len(names) == len(set(names))


def test_every_namespaced_document_belongs_to_the_release(documents: list[Document]) -> None:
    for document in documents:
        if document["kind"] == "CustomResourceDefinition":
            continue
        labels = document["metadata"]["labels"]
        assert labels["app.kubernetes.io/name"] == "zonequake"
        assert labels["app.kubernetes.io/instance"] == "zq"


def test_the_prometheus_configuration_is_accepted_by_prometheus(
    render: Render, one: One, tmp_path: Path
) -> None:
    promtool = shutil.which("promtool")
    assert promtool, "promtool is missing: run scripts/setup.sh"
    text = one(render(), "ConfigMap", "zq-prometheus")["data"]["prometheus.yml"]
    (tmp_path / "prometheus.yml").write_text(text)
    done = subprocess.run(
        [promtool, "check", "config", "--syntax-only", str(tmp_path / "prometheus.yml")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_scraped_name_is_a_headless_service_with_that_port(render: Render, one: One) -> None:
    documents = render()
    text = one(documents, "ConfigMap", "zq-prometheus")["data"]["prometheus.yml"]
    jobs = yaml.safe_load(text)["scrape_configs"]
    assert [job["job_name"] for job in jobs] == ["store", "operator", "load", "target"]
    *of_chart, of_run = jobs
    # A run makes the service of a target's members (test_members_of_a_target).
    [made] = of_run["dns_sd_configs"][0]["names"]
    assert made == "_http._tcp.zq-target.zonequake.svc.cluster.local."
    for job in of_chart:
        [name] = job["dns_sd_configs"][0]["names"]
        port, protocol, service, namespace, suffix = name.split(".", maxsplit=4)
        assert (protocol, namespace, suffix) == ("_tcp", "zonequake", "svc.cluster.local.")
        spec = one(documents, "Service", service)["spec"]
        assert spec["clusterIP"] == "None"
        assert port in {f"_{p['name']}" for p in spec["ports"]}
        assert spec["selector"]["app.kubernetes.io/component"] == job["job_name"]


def test_a_scraped_data_node_is_labelled_with_its_name_and_pool(render: Render, one: One) -> None:
    text = one(render(), "ConfigMap", "zq-prometheus")["data"]["prometheus.yml"]
    rules = yaml.safe_load(text)["scrape_configs"][0]["relabel_configs"]
    address = "zq-fast-disks-12.zq-store.zonequake.svc.cluster.local:8080"
    labels = relabelled({"__address__": address}, rules)
    assert labels == {
        "__address__": address,
        "component": "store",
        "namespace": "zonequake",
        "pod": "zq-fast-disks-12",
        "pool": "fast-disks",
    }


def relabelled(labels: dict[str, str], rules: list[Document]) -> dict[str, str]:
    """Prometheus's relabelling, as far as the chart uses it."""
    labels = dict(labels)
    for rule in rules:
        value = ";".join(labels.get(name, "") for name in rule.get("source_labels", []))
        match = re.fullmatch(rule.get("regex", "(.*)"), value)
        if match:
            replacement = rule.get("replacement", "$1").replace("$1", r"\g<1>")
            labels[rule["target_label"]] = match.expand(replacement)
    return labels

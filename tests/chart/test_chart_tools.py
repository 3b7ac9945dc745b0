"""The chart beside other people's judges: helm-unittest, and kubeconform with the API's schemas."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import cast

import kubernetes_validate
import pytest
import yaml

from tests.chart.chart_tools import chart_tool
from tests.chart.conftest import Document, Render

pytestmark = [pytest.mark.chart, pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "zonequake"
API_SCHEMAS = (
    Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema" / "v1.34.0-local-strict"
)
# Of the Prometheus Operator and of cert-manager; promtool judges what is in the rules.
FOREIGN_KINDS = "ServiceMonitor,PodMonitor,PrometheusRule,Certificate"


@pytest.fixture(scope="session")
def api_schemas(tmp_path_factory: pytest.TempPathFactory, render: Render) -> Path:
    """Those of the Python package for what the chart renders, each with the definitions that it
    refers to: by a path that only the package resolves, and all of them take seconds to load."""
    folder = tmp_path_factory.mktemp("api")

    def local(name: str) -> Document:
        text = (API_SCHEMAS / name).read_text()
        return cast("Document", json.loads(re.sub(r'"[^"#]*#/\$defs/', '"#/definitions/', text)))

    definitions = local("_definitions.json")["$defs"]
    for document in render(sets=["networkPolicy.enabled=true", "operator.readNodes=true"]):
        group, _, version = document["apiVersion"].rpartition("/")
        words = [document["kind"].lower(), *([group.partition(".")[0]] if group else []), version]
        name = f"{'-'.join(words)}.json"
        if (API_SCHEMAS / name).exists():
            schema = local(name)
            schema["definitions"] = reached(schema, definitions)
            (folder / name).write_text(json.dumps(schema))
    return folder


def reached(schema: Document, definitions: Document) -> Document:
    """The definitions that a schema refers to, by itself or through others of them."""
    found: Document = {}
    waiting: list[object] = [schema]
    while waiting:
        for name in re.findall(r'"#/definitions/([^"]+)"', json.dumps(waiting.pop())):
            if name not in found:
                found[name] = definitions[name]
                waiting.append(found[name])
    return found


def conforms(own: Path, api: Path, text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            str(chart_tool("kubeconform")),
            "-strict",
            "-summary",
            "-kubernetes-version=1.34.0",
            f"-skip={FOREIGN_KINDS}",
            f"-schema-location={api}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json",
            f"-schema-location={own}/{{{{.ResourceKind}}}}.json",
        ],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )


def own_schemas(folder: Path, documents: list[Document]) -> None:
    """The chart's resource definitions as JSON schemas that refuse what they don't name."""
    # Of a definition kubeconform's strict schemas would want defaults that the server sets.
    (folder / "customresourcedefinition.json").write_text("{}")
    for document in documents:
        if document["kind"] != "CustomResourceDefinition":
            continue
        schema = document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        kind = document["spec"]["names"]["kind"].lower()
        envelope: Document = {"apiVersion": {}, "kind": {}, "metadata": {}}
        schema["properties"] = envelope | schema.get("properties", {})
        (folder / f"{kind}.json").write_text(json.dumps(closed(schema)))


def closed(schema: object) -> object:
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: closed(value) for key, value in schema.items()}
    if "properties" in found and "additionalProperties" not in found and "type" in found:
        found["additionalProperties"] = False
    if found.pop("x-kubernetes-int-or-string", False):
        found["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    return found


def test_the_charts_own_suites_pass() -> None:
    done = subprocess.run(
        [str(chart_tool("helm-unittest")), "--strict", str(CHART)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Test Suites: " in done.stdout


def test_everything_that_is_rendered_conforms_to_the_apis_schemas(
    documents: list[Document], tmp_path: Path, api_schemas: Path
) -> None:
    own_schemas(tmp_path, documents)
    done = conforms(tmp_path, api_schemas, yaml.safe_dump_all(documents))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Invalid: 0, Errors: 0" in done.stdout


def test_the_zones_of_the_documentation_conform_to_the_charts_definitions(
    render: Render, tmp_path: Path, api_schemas: Path
) -> None:
    own_schemas(tmp_path, render())
    zone = {
        "apiVersion": "zonequake.io/v1alpha1",
        "kind": "DistributionZone",
        "metadata": {"name": "z"},
        "spec": {
            "partitions": 8,
            "replicas": 3,
            "dataNodesAutoAdjustScaleUp": 5,
            "dataNodesAutoAdjustScaleDown": "Infinite",
            "dataNodesFilter": '"SSD"',
            "consistencyMode": "HighAvailability",
            "storage": "Volatile",
            "paused": True,
        },
    }
    assert conforms(tmp_path, api_schemas, yaml.safe_dump(zone)).returncode == 0
    misspelt = {**zone, "spec": {"replica": 3}}
    refused = conforms(tmp_path, api_schemas, yaml.safe_dump(misspelt))
    assert refused.returncode != 0
    assert "replica" in refused.stdout


def test_a_field_that_the_api_does_not_know_is_found(
    render: Render, tmp_path: Path, api_schemas: Path
) -> None:
    documents = [d for d in render() if d["kind"] == "StatefulSet"]
    documents[0]["spec"]["template"]["spec"]["readinesGates"] = []
    own_schemas(tmp_path, render())
    refused = conforms(tmp_path, api_schemas, yaml.safe_dump_all(documents))
    assert refused.returncode != 0
    assert "readinesGates" in refused.stdout

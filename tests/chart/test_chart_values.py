from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.chart.conftest import Document, Helm

pytestmark = pytest.mark.chart

CHART = Path(__file__).resolve().parents[2] / "charts" / "zonequake"


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("nodePols=1", "additional properties 'nodePols' not allowed"),
        ("store.storage.sise=1Gi", "additional properties 'sise' not allowed"),
        ("nodePools=null", "missing property 'nodePools'"),
        ("nodePools[0].name=a,nodePools[0].replicas=-1", "minimum: got -1, want 0"),
        ("nodePools[0].name=Big,nodePools[0].replicas=1", "'Big' does not match pattern"),
        (
            "nodePools[0].name=a,nodePools[0].replicas=1,nodePools[0].attributes.cores=8",
            "got number, want string",
        ),
        ("nodePools[0].name=store,nodePools[0].replicas=1", "belongs to another part"),
        ("store.plantedFault=eat-data", "value must be one of '', 'ack-before-commit'"),
        ("store.logMapBytes=4096", "/store/logMapBytes"),
        ("store.terminationGracePeriodSeconds=5", "minimum: got 5, want 15"),
        ("images.store=zonequake/store", "/images/store"),
        ("images.repository=zonequake/", "/images/repository"),
        ("clusterDomain=-", "'-' does not match pattern"),
        ("images.pullPolicy=Sometimes", "value must be one of 'Always'"),
        ("operator.resyncSeconds=0", "/operator/resyncSeconds"),
        ("analysis.executors.memoryMebibytes=64", "minimum: got 64, want 512"),
        ("store.resources.limits=null", "missing property 'limits'"),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(helm: Helm, setting: str, message: str) -> None:
    done = helm("template", "zq", str(CHART), "--kube-version=1.34.4", f"--set={setting}")
    assert done.returncode != 0
    assert message in done.stderr


def test_two_names_that_are_too_long_together_are_refused(helm: Helm) -> None:
    done = helm(
        "template",
        "a-release-with-a-name-of-just-about-50-characters-x",
        str(CHART),
        "--kube-version=1.34.4",
    )
    assert done.returncode != 0
    assert "shorten one" in done.stderr


def test_the_schema_is_strict_at_every_level() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    loose = list(loose_objects(schema, "values"))
    assert loose == [
        "values.global",
        "values.faultAgent.tolerations",
        "values.analysis.tolerations",
        "values.nodePools.tolerations",
    ]


def loose_objects(schema: Document, path: str) -> list[str]:
    """Paths of object schemas that accept a key they don't know."""
    found = []
    if schema.get("type") == "object" and "additionalProperties" not in schema:
        found.append(path)
    if isinstance(schema.get("items"), dict):
        found += loose_objects(schema["items"], path)
    for name, part in schema.get("properties", {}).items():
        found += loose_objects(part, f"{path}.{name}")
    for name, part in schema.get("definitions", {}).items():
        found += loose_objects(part, f"definitions.{name}")
    return found


def test_every_value_is_described_in_the_readme() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    readme = (CHART / "README.md").read_text()
    missing = [
        f"{section}.{key}"
        for section, part in schema["properties"].items()
        for key in part.get("properties", {})
        if f"`{section}.{key}`" not in readme
    ] + [section for section in schema["required"] if f"`{section}" not in readme]
    assert missing == []

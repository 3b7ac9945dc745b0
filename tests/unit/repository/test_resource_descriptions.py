"""Every field of a custom resource says what it is: `kubectl explain` and the reference show it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

CRDS = Path(__file__).parents[3] / "charts" / "zonequake" / "templates" / "crds"

Schema = dict[str, Any]


def schema_of(path: Path) -> Schema:
    """The resource's schema, without the template's lines around it."""
    text = "".join(line for line in path.read_text().splitlines(True) if "{{" not in line)
    (version,) = yaml.safe_load(text)["spec"]["versions"]
    found: Schema = version["schema"]["openAPIV3Schema"]
    return found


def fields(schema: Schema, above: str = "") -> Iterator[tuple[str, Schema]]:
    """All fields below it, by their paths."""
    for name, field in schema.get("properties", {}).items():
        yield f"{above}{name}", field
        yield from fields(field, f"{above}{name}.")
        yield from fields(field.get("items", {}), f"{above}{name}[].")


@pytest.mark.parametrize("path", sorted(CRDS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_field_of_a_resource_has_a_description(path: Path) -> None:
    schema = schema_of(path)
    assert schema.get("description")
    found = dict(fields(schema))
    assert "status" in found
    assert [name for name, field in found.items() if not field.get("description")] == []


@pytest.mark.parametrize("path", sorted(CRDS.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_description_is_a_sentence(path: Path) -> None:
    said = {name: field.get("description", "") for name, field in fields(schema_of(path))}
    assert [
        name for name, text in said.items() if not (text[:1].isupper() and text[-1:] == ".")
    ] == []


def test_what_a_replica_keeps_from_its_creation_cannot_be_changed() -> None:
    """An order to start changes none of it in a replica that exists; the zone would say that its
    spec is applied."""
    spec = schema_of(CRDS / "distributionzones.yaml")["properties"]["spec"]
    fixed = {
        rule["fieldPath"].removeprefix(".")
        for rule in spec["x-kubernetes-validations"]
        if rule["rule"] == f"self{rule.get('fieldPath')} == oldSelf{rule.get('fieldPath')}"
    }
    assert fixed == {"partitions", "consistencyMode", "storage", "fsync"}
    said = {name for name, field in fields(spec) if "Immutable" in field["description"]}
    assert said == fixed

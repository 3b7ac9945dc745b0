"""Writes references of formats as Markdown tables, from the schemas that the program uses."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import yaml

from zonequake_chaos.scenario.fields import file_name
from zonequake_chaos.scenario.run import ChaosRun
from zonequake_load.pod.history import HistoryEvent

ROOT = Path(__file__).resolve().parents[2]
CRDS = ROOT / "charts" / "zonequake" / "templates" / "crds"
INTERFACES = ROOT / "docs" / "interfaces.md"

Schema = dict[str, Any]


def resources() -> str:
    """Returns each custom resource of the chart with its fields and the rules among them."""
    return "\n\n".join(_resource(path) for path in sorted(CRDS.glob("*.yaml")))


def scenario() -> str:
    """Returns each part of the manifest `kind: ChaosRun` with its fields."""
    (top,), parts = msgspec.json.schema_components([ChaosRun], ref_template="#/{name}")
    first = top["$ref"].removeprefix("#/")
    names = [first, *sorted(set(parts) - {first})]
    return "\n\n".join(_part(name, parts[name]) for name in names)


def history() -> str:
    """Returns the fields of a history line: types from the writer, meanings from interfaces.md."""
    (_,), parts = msgspec.json.schema_components([HistoryEvent], ref_template="#/{name}")
    section = INTERFACES.read_text().partition("\n## History")[2].partition("\n## ")[0]
    meanings = {
        name: meaning
        for names, meaning in re.findall(r"^\| (`.+?) \| (.+) \|$", section, flags=re.MULTILINE)
        for name in re.findall(r"`(\w+)`", names)
    }
    rows = [
        (f"`{name}`", _kind(field, parts), meanings[name])
        for name, field in parts["HistoryEvent"]["properties"].items()
    ]
    return _table(("field", "type", "meaning"), rows)


def _resource(path: Path) -> str:
    lines = path.read_text().splitlines()
    about = " ".join(line.removeprefix("# ") for line in lines[1:4] if line.startswith("# "))
    crd = yaml.safe_load("\n".join(line for line in lines if not line.startswith("{{")))["spec"]
    names = crd["names"]
    words = ", ".join(f"`{word}`" for word in [names["plural"], *names.get("shortNames", [])])
    text = [f"## {names['kind']}", about, f"`kubectl get` knows it as {words}."]
    for version in crd["versions"]:
        schema = version["schema"]["openAPIV3Schema"]
        for part in ("spec", "status"):
            rows = list(_fields(schema["properties"].get(part, {}), ""))
            if rows:
                text.append(f"### {names['kind']} {part}")
                text.append(_table(("field", "type", "default", "what"), rows))
        rules = list(dict.fromkeys(_rules(schema)))
        if rules:
            text += [f"### {names['kind']} refusals", "\n".join(f"- {rule}" for rule in rules)]
    return "\n\n".join(text)


def _fields(schema: Schema, above: str) -> Iterator[tuple[str, ...]]:
    for name, field in schema.get("properties", {}).items():
        path = f"{above}{name}"
        about = field.get("description", "").replace("|", "&#124;")
        yield f"`{path}`", _kind(field, {}), _default(field), about
        yield from _fields(field, f"{path}.")
        yield from _fields(field.get("items", {}), f"{path}[].")


def _rules(schema: Schema) -> Iterator[str]:
    for rule in schema.get("x-kubernetes-validations", []):
        yield rule["message"]
    for below in schema.get("properties", {}).values():
        yield from _rules(below)
    if "items" in schema:
        yield from _rules(schema["items"])


def _part(name: str, schema: Schema) -> str:
    text = [f"## {name}", _as_in_files(inspect.cleandoc(schema.get("description", "")))]
    if "enum" in schema:
        text.append(_kind(schema, {}))
    rows = [
        (
            f"`{field}`" + ("" if field in schema.get("required", []) else " (optional)"),
            _kind(each, {}),
            _default(each),
        )
        for field, each in schema.get("properties", {}).items()
    ]
    if rows:
        text.append(_table(("field", "type", "default"), rows))
    return "\n\n".join(text)


def _as_in_files(text: str) -> str:
    """Replaces Python's names of fields by those of the file: `hold_s` is `holdSeconds`."""
    return re.sub(r"`([a-z]+(?:_[a-z]+)+)`", lambda name: f"`{file_name(name[1])}`", text)


def _kind(schema: Schema, parts: dict[str, Schema]) -> str:
    """Returns what a value may be, in a few words."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/")
        return _kind(parts[name], parts) if name in parts else f"[{name}](#{name.lower()})"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_kind(each, parts) for each in schema["anyOf"]))
    kind = schema.get("type", "anything")
    if kind == "array":
        return f"list of {_kind(schema['items'], parts)}" if schema.get("items") else "list"
    low, high = schema.get("minimum", schema.get("exclusiveMinimum")), schema.get("maximum")
    if low is not None and high is not None:
        return f"{kind}, {low:,} to {high:,}"
    if low is not None:
        return f"{kind}, above {low:,}" if "minimum" not in schema else f"{kind}, {low:,} or more"
    return f"{kind}, at most {high:,}" if high is not None else str(kind)


def _default(schema: Schema) -> str:
    if schema.get("default", {}) in ({}, [], None):
        return ""
    return f"`{msgspec.json.encode(schema['default']).decode()}`"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |".replace("\n", " ") for cells in lines)

"""docs/timers.md, the CRD's descriptions and values.yaml recommend the same."""

from __future__ import annotations

import re
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
import yaml

from zonequake_operator.resources.model import ZoneSpec

ROOT = Path(__file__).parents[3]
CHART = ROOT / "charts" / "zonequake"
TIMERS = ZoneSpec().timers
DEFAULTS = {
    "dataNodesAutoAdjustScaleUp": TIMERS.scale_up_s,
    "dataNodesAutoAdjustScaleDown": TIMERS.scale_down_s,
    "dataNodesAutoAdjust": None,
    "partitionDistributionResetTimeout": ZoneSpec().reset_timeout_s,
}
ROWS = {
    cells[0].strip("`"): cells[1:]
    for line in (ROOT / "docs" / "timers.md").read_text().splitlines()
    if line.startswith("| `")
    for cells in [[cell.strip() for cell in line.split("|")[1:-1]]]
}


def properties() -> dict[str, Any]:
    """The zone's spec in the CRD, without the template's lines around it."""
    text = (CHART / "templates" / "crds" / "distributionzones.yaml").read_text()
    crd = yaml.safe_load("".join(line for line in text.splitlines(True) if "{{" not in line))
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema["properties"]["spec"]["properties"]  # type: ignore[no-any-return]


def test_every_time_out_of_a_zone_has_a_row() -> None:
    seconds = {name for name, each in properties().items() if "Seconds " in each["description"]}
    assert seconds == DEFAULTS.keys()
    assert DEFAULTS.keys() < ROWS.keys()


@pytest.mark.parametrize("name", DEFAULTS)
def test_a_zones_time_out_is_recommended_alike_in_the_page_and_the_crd(name: str) -> None:
    default, recommended, because = ROWS[name]
    said = properties()[name]["description"]
    assert re.findall(r"Recommended: (\d+), ", said) == [recommended]
    assert because
    if name != "dataNodesAutoAdjust":
        assert default == str("Infinite" if DEFAULTS[name] is None else DEFAULTS[name])
        assert f"Without it {default}." in said


@pytest.mark.parametrize("name", sorted(ROWS.keys() - DEFAULTS.keys()))
def test_a_releases_time_out_is_the_recommended_one_and_says_so(name: str) -> None:
    default, recommended, because = ROWS[name]
    text = (CHART / "values.yaml").read_text()
    value = reduce(lambda found, key: found[key], name.split("."), yaml.safe_load(text))
    assert default == recommended == str(value)
    assert because
    key = name.rpartition(".")[2]
    comment = text.partition(f"\n  {key}: ")[0].rpartition(":\n")[2].splitlines()
    last = [line for line in comment if line.startswith("  #")][-3:]
    assert f"Recommended: {recommended}" in " ".join(last)

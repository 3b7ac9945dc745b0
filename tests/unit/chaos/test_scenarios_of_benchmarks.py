"""The scenarios that benchmarks run beside etcd are such that both can be run."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from benchmarks.peers.pod_kills import BLOWS, SYSTEMS, overrides, scenario
from zonequake_chaos.commands.run import RunOptions, planned


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("blow", sorted(BLOWS))
def test_each_blow_is_planned_against_each_system(tmp_path: Path, blow: str, system: str) -> None:
    file = tmp_path / "blow.yaml"
    file.write_text(yaml.safe_dump(scenario(blow, 2)))
    options = RunOptions(
        scenario=str(file),
        overrides=overrides(system),
        seed=1,
        out=None,
        analyze=False,
        target=system,
    )
    assert planned(options).spec.target.name == system

"""The harness is killed at some of its steps; all of them are `killed_harness/sweep.py`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from zonequake_chaos.cluster import tools

# Neither tests nor drivers are packages.
sys.path.insert(0, str(Path(__file__).parents[1] / "killed_harness"))

from inspection import Inspector
from sweep import AS_BEFORE_S, HERE, Sweep

if TYPE_CHECKING:
    from conftest import Release

pytestmark = [pytest.mark.cluster, pytest.mark.kill_harness, pytest.mark.timeout(600)]

CUT = "command python.* -m zonequake_agent apply .*"


@pytest.fixture(scope="module")
def kills(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    release.plant("")
    place = release.place
    assert place.kubeconfig is not None
    inspector = Inspector(
        kubectl=tools.kubectl_path(), kubeconfig=place.kubeconfig, namespace=place.namespace
    )
    folder = tmp_path_factory.mktemp("killed")
    return Sweep(kubeconfig=place.kubeconfig, inspector=inspector, folder=folder)


@pytest.mark.parametrize(
    ("scenario", "pattern", "way"),
    [
        ("mortal-size", "POST configmaps", "after"),
        ("mortal-size", "PATCH statefulsets/zq-default/scale", "after"),
        ("mortal-hold", "exec pods/zq-default-./exec 19", "after"),
        ("mortal-hold", CUT, "after"),
        ("mortal-hold", "signal SIGSTOP", "after"),
        ("mortal-loss", "PATCH pods/zq-default-.", "after"),
        ("mortal-loss", "DELETE pods/zq-default-.", "after"),
        ("mortal-node", "journal fsync", "before"),
    ],
)
def test_after_a_kill_clean_leaves_and_proves_nothing_left(
    scenario: str, pattern: str, way: str, kills: Sweep
) -> None:
    killed = kills.kill_at(scenario, (pattern, "1", way))
    assert killed.hit, "the run never came to the step"
    assert killed.clean_exit == 0, killed.said
    assert killed.left == []


def test_a_debt_that_nobody_recorded_is_found_by_inspection_and_by_looking(kills: Sweep) -> None:
    entry = (str(HERE / "planted.py"), "forgetful")
    _, run, _ = kills.run(HERE / "scenarios" / "mortal-hold.yaml", (CUT, "1", "after"), entry=entry)
    blind = kills.command([str(HERE / "planted.py"), "blind", "clean", str(run)])
    assert blind.returncode == 0, "it paid what the journal says"
    left = kills.inspector.until_as(kills.before, kills.kinds, within_s=15)
    assert any("ZQ-" in found for found in left), left
    assert kills.clean(run).returncode == 0
    left = kills.inspector.until_as(kills.before, kills.kinds, within_s=AS_BEFORE_S)
    assert left == []


def test_a_payment_that_fails_is_not_proven(kills: Sweep) -> None:
    _, run, _ = kills.run(HERE / "scenarios" / "mortal-hold.yaml", (CUT, "1", "after"))
    unpaying = kills.command([str(HERE / "planted.py"), "unpaying", "clean", str(run)])
    assert unpaying.returncode == 4, unpaying.stdout + unpaying.stderr
    assert "can't be entered" in unpaying.stdout
    assert kills.clean(run).returncode == 0
    left = kills.inspector.until_as(kills.before, kills.kinds, within_s=AS_BEFORE_S)
    assert left == []

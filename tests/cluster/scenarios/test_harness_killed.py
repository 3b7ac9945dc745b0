"""The harness is killed at some of its steps; all of them are `killed_harness/sweep.py`.

A few are part of the group, the others wait for `--long`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.killed_harness.inspection import Inspector
from tests.cluster.killed_harness.sweep import AS_BEFORE_S, PLANTED, Sweep, faults_of, scenario_file
from zonequake_cluster.supply import tools

if TYPE_CHECKING:
    from tests.cluster.scenarios.conftest import Release

pytestmark = pytest.mark.cluster

CUT = "command python.* -m zonequake_agent apply.*"
CLOCK = "command python.* -m zonequake_agent step-clock.*"


@pytest.fixture(scope="module")
def kills(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    release.plant("")
    place, account = release.place, release.as_chaos_account()
    assert place.kubeconfig is not None
    assert account.kubeconfig is not None
    inspector = Inspector(
        kubectl=tools.kubectl_path(), kubeconfig=place.kubeconfig, namespace=place.namespace
    )
    folder = tmp_path_factory.mktemp("killed")
    # Runs and cleaners have no more rights than the chart's account for them.
    return Sweep(kubeconfig=account.kubeconfig, inspector=inspector, folder=folder)


ALWAYS = [("mortal-hold", "cut", CUT, "during")]
"""The quickest; each of the rest takes ten seconds to half a minute more."""

MORE = [
    ("mortal-mind", "clock", CLOCK, "lost"),
    ("mortal-size", "grow", "POST configmaps", "after"),
    ("mortal-hold", "kubelet", "signal SIGSTOP", "after"),
    ("mortal-size", "grow", "PATCH statefulsets/zq-default/scale", "after"),
    ("mortal-hold", "pause", "exec pods/zq-default-./exec 19", "after"),
    ("mortal-loss", "outage", "PATCH pods/zq-default-.", "after"),
    ("mortal-loss", "gone", "DELETE pods/zq-default-.", "after"),
    ("mortal-node", "forgotten", "faults.*: journal fsync", "before"),
    ("mortal-node", "hang", "signal SIGSTOP", "after"),
    ("mortal-links", "slow", CUT, "lost"),
    ("mortal-mind", "undecided", "exec pods/zq-operator-.*/exec 19", "after"),
]


@pytest.mark.parametrize(
    ("scenario", "fault", "pattern", "way"),
    [*ALWAYS, *(pytest.param(*case, marks=pytest.mark.long) for case in MORE)],
)
def test_after_a_kill_clean_leaves_and_proves_nothing_left(
    scenario: str, fault: str, pattern: str, way: str, kills: Sweep
) -> None:
    killed = kills.kill_at(scenario, (pattern, "1", way), only=faults_of(scenario, fault))
    assert killed.hit, "the run never came to the step"
    assert killed.clean_exit == 0, killed.said
    assert killed.left == []


@pytest.mark.parametrize(
    ("scenario", "fault", "deed", "trace"),
    [
        ("mortal-hold", "cut", CUT, "ZQ-"),
        pytest.param(*("mortal-mind", "clock", CLOCK, "vDSO of process"), marks=pytest.mark.long),
    ],
)
def test_an_unrecorded_debt_is_found_by_inspection_and_by_looking(
    scenario: str, fault: str, deed: str, trace: str, kills: Sweep
) -> None:
    entry = (*PLANTED, "forgetful")
    only = faults_of(scenario, fault)
    file = scenario_file(scenario)
    _, run, _ = kills.run(file, (deed, "1", "after"), entry=entry, only=only)
    blind = kills.command([*PLANTED, "blind", "clean", str(run)])
    assert blind.returncode == 0, "it paid what the journal says"
    left = kills.inspector.until_as(kills.before, kills.kinds, within_s=0)
    assert any(trace in found for found in left), left
    assert kills.clean(run).returncode == 0
    left = kills.inspector.until_as(kills.before, kills.kinds, within_s=AS_BEFORE_S)
    assert left == []


@pytest.mark.long
def test_a_payment_that_fails_is_not_proven(kills: Sweep) -> None:
    only = faults_of("mortal-hold", "cut")
    _, run, _ = kills.run(scenario_file("mortal-hold"), (CUT, "1", "after"), only=only)
    unpaying = kills.command([*PLANTED, "unpaying", "clean", str(run)])
    assert unpaying.returncode == 4, unpaying.stdout + unpaying.stderr
    assert "can't be entered" in unpaying.stdout
    assert kills.clean(run).returncode == 0
    left = kills.inspector.until_as(kills.before, kills.kinds, within_s=AS_BEFORE_S)
    assert left == []

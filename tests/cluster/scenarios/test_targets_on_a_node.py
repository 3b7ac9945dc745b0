"""Targets on a real node: the conformance suite, and a verdict on a store that loses writes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.cluster.scenarios.conftest import Release

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

SHORT = "times={beforeSeconds: 4, afterSeconds: 3}"
ONE = ("zones.0.replicas=1", "pools.0.replicas=1")


def checked(
    release: Release, name: str, out: Path, *overrides: str, more: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """What `zonequake target check` says of a target, of a release with `more` of its values."""
    release.plant("", more=more)
    place = release.as_chaos_account()
    assert place.context is not None
    program = str(Path(sys.executable).parent / "zonequake")
    where = ("--kubeconfig", str(place.kubeconfig), "--context", place.context)
    changed = [word for override in overrides for word in ("--set", override)]
    return subprocess.run(
        [program, "target", "check", name, "--out", str(out), *changed, *where],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
        check=False,
    )


def kept(done: subprocess.CompletedProcess[str]) -> None:
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "a planted lie about" in said
    assert "was noticed" in said
    print(said)


@pytest.mark.long
def test_etcd_keeps_what_the_checks_rely_on(release: Release, tmp_path: Path) -> None:
    done = checked(release, "etcd", tmp_path / "run")
    kept(done)
    assert "altered, dumps" in done.stdout


@pytest.mark.parametrize("name", ["pysyncobj", pytest.param("zonequake", marks=pytest.mark.long)])
def test_other_targets_keep_it_too(release: Release, tmp_path: Path, name: str) -> None:
    kept(checked(release, name, tmp_path / "run"))


@pytest.mark.long
def test_of_the_toy_only_the_comparison_of_dumps_is_not_decided(
    release: Release, tmp_path: Path
) -> None:
    done = checked(release, "toy", tmp_path / "run", "target.args=[--sync]")
    said = done.stdout + done.stderr
    assert done.returncode == 2, said
    problems = [line for line in done.stdout.splitlines() if line.startswith("dumps: ")]
    assert len(problems) == 1, said
    assert "compared the dump of 1 member" in problems[0]
    assert "was noticed" in said


@pytest.mark.long
def test_a_suite_finds_that_a_kill_loses_what_the_toy_acknowledged(
    release: Release, tmp_path: Path
) -> None:
    done = checked(release, "toy", tmp_path / "run")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "was acknowledged, and nothing of it is there" in done.stdout


@pytest.mark.long
def test_a_store_that_puts_writes_on_disk_too_late_is_found(run_scenario: Any) -> None:
    judged = run_scenario("kill-all", SHORT, *ONE, target="toy")
    assert judged.exit_code == 1, judged.output
    assert "lost-writes" in judged.failed_checks()


@pytest.mark.long
def test_the_same_store_passes_if_it_syncs_first(run_scenario: Any) -> None:
    judged = run_scenario("kill-all", SHORT, *ONE, "target.args=[--sync]", target="toy")
    assert judged.exit_code == 0, judged.output


@pytest.mark.long
def test_a_members_own_state_of_pysyncobj_is_found_stale(run_scenario: Any) -> None:
    judged = run_scenario("local-reads", SHORT, target="pysyncobj")
    assert judged.exit_code == 1, judged.output
    assert "stale-reads" in judged.failed_checks()

"""The pytest plugin, in sessions of pytest of its own, with a cluster that is made up.

A session runs in this process: in one of its own it would import for 2 s.
"""

from __future__ import annotations

import fnmatch
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from junitparser import JUnitXml

from zonequake_chaos.scenario import manifest
from zonequake_chaos.scenario.faults import PodKillSpec, TargetRole
from zonequake_chaos.scenario.triggers import OnLeader
from zonequake_chaos.testing import scenario

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[3]
PLUGIN = ("-p", "no:zonequake", "-p", "zonequake_chaos.testing.pytest_plugin")
"""As the entry point loads it, whether this environment has the entry point or not."""
UNCOLLECTED = ("-p", "no:unraisableexception")
"""At the end it would collect garbage five times over all that this process has: 2 s of the CPU."""

FAKES = """
import json
import pytest
from zonequake_analysis.judgement.verdict_json import CheckEntry
from zonequake_analysis.verdict import Kind, Verdict
from pathlib import Path
from zonequake_chaos.testing import scenario
from zonequake_chaos.commands.clean import CleanupProof
from zonequake_chaos.record.cleanup_journal import CleanupJournal, DeleteZone
from zonequake_analysis.verdict import Verdict
from zonequake_ctl.context import ReleasePlace
from zonequake_chaos.commands.run import RunEnd
from zonequake_analysis.harness_report import INTERRUPTED, HarnessReport
from zonequake_chaos.record.run_folder import RunFolder
from zonequake_chaos.scenario import manifest

PLACE = ReleasePlace(kubeconfig=None, context="x", namespace="n", release="zq", embedded=False)
verdict, interrupted, owes = {verdict!r}, {interrupted!r}, {owes!r}
not_stored = {not_stored!r}
paid = []

async def run_once(ask, place, console):
    run = manifest.load(ask.scenario, ask.overrides)
    print("target", ask.target, ask.image)
    print("into", ask.out, "and", ask.store)
    folder = RunFolder.create(ask.out)
    (folder.path / "run.yaml").write_text(
        f"scenario: {{run.metadata.name}}\\nseed: {{ask.seed}}\\n"
    )
    if owes:
        CleanupJournal(folder.path).owe(DeleteZone(zone="orders"))
    if owes == "dies":
        raise RuntimeError("the cluster is gone")
    problems = [INTERRUPTED] if interrupted else []
    return folder, HarnessReport(verdict=Verdict.PASSED, problems=problems)

def judge_run(ask, folder, report, console):
    judged = Verdict(verdict)
    folder.conclude(judged, report, why="3 of 9 acknowledged writes are lost")
    return RunEnd(folder=folder.path, verdict=judged, not_stored=not_stored)

async def clean(folder):
    print("cleaned", [debt for _, debt in CleanupJournal(folder).debts])
    return CleanupProof(problems=["zone orders is still there"] if owes == "forever" else [])

scenario.find_run, scenario.clean_run = lambda word, place: Path(word), clean
scenario.run_once, scenario.judge_run = run_once, judge_run
scenario.find_place = lambda **_: PLACE
"""

FAKED = ("find_run", "clean_run", "run_once", "judge_run", "find_place")

TEST = """
import pytest

@pytest.mark.zonequake(zones={"orders": {"partitions": 4}}, seed=7)
def test_orders_outlive_their_leaders(zonequake):
    zonequake.load(register_rate=50, listRate=20)
    zonequake.times(before_s=1, after_s=1)
    zonequake.inject("pod_kill", role="leader", when="leader", times=2, pause_s=2)
    zonequake.expect(max_window_ms=5000)
    assert zonequake.run().passed
"""


@pytest.fixture
def session(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # others take a while to load
    for name in FAKED:
        monkeypatch.setattr(scenario, name, getattr(scenario, name))  # puts it back afterwards

    def run(
        test: str = TEST,
        *words: str,
        verdict: str = "passed",
        interrupted: bool = False,
        owes: str = "",
        not_stored: str = "",
    ) -> pytest.RunResult:
        fakes = FAKES.format(
            verdict=verdict, interrupted=interrupted, owes=owes, not_stored=not_stored
        )
        pytester.makeconftest(fakes)
        pytester.makepyfile(test)
        return pytester.runpytest_inprocess(
            *PLUGIN,
            *UNCOLLECTED,
            "--strict-markers",
            "--junitxml=junit.xml",
            *words,
            no_reraise_ctrlc=True,
        )

    return run


def run_folders(pytester: pytest.Pytester, under: str = "runs") -> list[Path]:
    return sorted((pytester.path / under).iterdir())


def test_a_team_writes_a_scenario_in_a_few_lines_and_it_is_an_ordinary_manifest(
    session: object, pytester: pytest.Pytester
) -> None:
    session().assert_outcomes(passed=1)  # type: ignore[operator]
    (folder,) = run_folders(pytester)
    run = manifest.load(str(folder / "scenario.yaml"))
    assert run.metadata.name == "test-orders-outlive-their-leaders"
    (zone,) = run.spec.zones
    assert (zone.name, zone.partitions) == ("orders", 4)
    assert (run.spec.load.register_rate, run.spec.load.list_rate) == (50, 20)
    assert run.spec.times.before_s == 1
    (fault,) = run.spec.faults
    assert isinstance(fault, PodKillSpec)
    assert isinstance(fault.trigger, OnLeader)
    assert (fault.target.role, fault.times, fault.pause_s) == (TargetRole.LEADER, 2, 2)
    assert run.spec.expectations.max_window_ms == 5000
    assert [pool.replicas for pool in run.spec.pools] == [3]


def test_a_failure_shows_the_verdict_the_report_and_the_command_that_replays_it(
    session: object, pytester: pytest.Pytester
) -> None:
    result = session(verdict="violated")  # type: ignore[operator]
    assert result.ret == 1
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*- zonequake, seed 7 -*",
            "violated (exit code 1): 3 of 9 acknowledged writes are lost",
            "violated: analysis: 3 of 9 acknowledged writes are lost",
            "report: *runs/test-orders-outlive-their-leaders-*",
            "again: pytest 'test_a_failure*.py::test_orders_outlive_their_leaders' "
            "--zonequake-seed 7",
        ]
    )


def test_what_a_run_came_to_stands_in_pytests_own_junit_file(
    session: object, pytester: pytest.Pytester
) -> None:
    session()  # type: ignore[operator]
    text = (pytester.path / "junit.xml").read_text()
    assert '<property name="zonequake.verdict" value="passed"' in text
    assert '<property name="zonequake.seed" value="7"' in text
    assert JUnitXml.fromfile(str(pytester.path / "junit.xml"))


def test_the_sessions_seed_and_folder_stand_above_the_markers(
    session: object, pytester: pytest.Pytester
) -> None:
    session(TEST, "--zonequake-seed", "40", "--zonequake-out", "elsewhere")  # type: ignore[operator]
    (folder,) = run_folders(pytester, "elsewhere")
    assert "seed: 40" in (folder / "run.yaml").read_text()


TWICE = TEST.replace(
    "    assert zonequake", "    assert zonequake.run().passed\n    assert zonequake"
)


def test_a_uri_is_where_each_run_goes_by_way_of_a_folder(
    session: object, pytester: pytest.Pytester
) -> None:
    result = session(TWICE.replace(".passed", ".seed < 9"), "-s", "--zonequake-out", "s3://b/own")  # type: ignore[operator]
    result.assert_outcomes(passed=1)
    first, second = run_folders(pytester)
    assert second.name == f"{first.name}-2"
    for run in (first, second):
        result.stdout.fnmatch_lines([f"into runs/{run.name} and s3://b/own/{run.name}"])
    assert not (pytester.path / "s3:").exists()


def test_a_run_that_is_not_in_its_store_fails_the_test_whatever_its_verdict(
    session: object,
) -> None:
    why = "not uploaded: no bucket; bring it there with: zonequake upload runs/x"
    result = session(TEST, "--zonequake-out", "s3://b/own", not_stored=why)  # type: ignore[operator]
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"*HarnessError: {why}", "passed (exit code 0)*"])


def test_an_interrupted_run_says_how_it_gets_into_its_store(session: object) -> None:
    result = session(TEST, "--zonequake-out", "s3://b/own", interrupted=True)  # type: ignore[operator]
    result.stdout.fnmatch_lines(["*to be uploaded with: zonequake upload runs/test-orders-*"])


def test_a_uri_with_one_slash_is_refused_before_anything_is_made(
    session: object, pytester: pytest.Pytester
) -> None:
    result = session(TEST, "--zonequake-out", "s3:/b/own")  # type: ignore[operator]
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*--zonequake-out: found 's3:/b/own', expected a URI such as*"])
    assert not (pytester.path / "s3:").exists()


def test_a_shipped_scenario_can_be_begun_with_and_changed(
    session: object, pytester: pytest.Pytester
) -> None:
    session(  # type: ignore[operator]
        """
import pytest

@pytest.mark.zonequake(scenario="leader-kill", set=["zones.0.partitions=2"], seed=1)
def test_ours(zonequake):
    zonequake.times(before_s=1)
    first, second = zonequake.run(), zonequake.run()
    assert (first.seed, second.seed) == (1, 2)
    assert first.folder != second.folder
"""
    ).assert_outcomes(passed=1)
    for folder in run_folders(pytester):
        run = manifest.load(str(folder / "scenario.yaml"))
        assert run.metadata.name == "leader-kill"
        assert run.spec.times.before_s == 1
        assert run.spec.faults[0].name == "kill-leader"


def test_a_marker_can_name_another_target(session: object) -> None:
    test = TEST.replace("seed=7", "target='etcd', image='etcd:9'").replace(".passed", ".seed < 0")
    result = session(test)  # type: ignore[operator]
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["target etcd etcd:9"])


def test_an_interrupted_run_ends_the_session(session: object) -> None:
    result = session(interrupted=True)  # type: ignore[operator]
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*interrupted and cleaned up*"])


def test_what_a_broken_run_still_owes_is_paid_when_the_test_has_ended(session: object) -> None:
    result = session(owes="dies")  # type: ignore[operator]
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*cleaned*DeleteZone(zone='orders')*"])


def test_what_cannot_be_undone_is_an_error_also_of_a_test_that_passed(session: object) -> None:
    result = session(owes="forever")  # type: ignore[operator]
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*not proven to be undone: zone orders is still there*"])


WRONG = {
    "seeds": (
        "@pytest.mark.zonequake(zones={'a': {}}, seeds=1)",
        "*unknown seeds; allowed by name are zones, scenario*",
    ),
    "empty": ("@pytest.mark.zonequake()", "*expected either zones=... or scenario=...*"),
    "both": (
        "@pytest.mark.zonequake(zones={'a': {}}, scenario='leader-kill')",
        "*expected either zones=... or scenario=...*",
    ),
    "nobody": (
        "@pytest.mark.zonequake(scenario='no-such')",
        "*found neither a scenario nor a file named 'no-such'*",
    ),
    "unmarked": ("", "*test_unmarked*without its marker: add @pytest.mark.zonequake*"),
}
"""Tests by their names: their marker, and what pytest must print of them."""


def test_a_wrong_marker_or_none_is_an_error_with_a_sentence(session: object) -> None:
    tests = [f"{mark}\ndef test_{name}(zonequake): pass" for name, (mark, _) in WRONG.items()]
    result = session("\n".join(["import pytest", *tests]))  # type: ignore[operator]
    result.assert_outcomes(errors=len(WRONG))
    text = result.stdout.str()
    for name, (_, sentence) in WRONG.items():
        _, of_one = text.split(f"_ ERROR at setup of test_{name} _", 1)
        told = of_one.split("_ ERROR at setup of ", 1)[0].split("short test summary", 1)[0]
        assert fnmatch.filter(told.splitlines(), sentence), (name, told)


def test_a_field_that_the_manifest_does_not_know_fails_before_anything_is_run(
    session: object,
) -> None:
    result = session(TEST.replace("pause_s", "pauses_s"))  # type: ignore[operator]
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(['*unknown key "pausesSeconds" (did you mean pauseSeconds?)*'])
    result.stdout.no_fnmatch_line("*cleaned*")


def test_loading_the_plugin_loads_nothing_else() -> None:
    words = (
        "import sys, zonequake_chaos.testing.pytest_plugin; print(*sorted(sys.modules), sep='\\n')"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", words], capture_output=True, text=True, check=True
    ).stdout.split()
    ours = [name for name in loaded if name.startswith("zonequake")]
    assert ours == [
        "zonequake_chaos",
        "zonequake_chaos.testing",
        "zonequake_chaos.testing.pytest_plugin",
    ]
    heavy = {"aiohttp", "kubernetes", "pyspark", "yaml", "rich", "uvloop", "msgspec"}
    assert not heavy & set(loaded)


def test_the_entry_point_names_the_plugin() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {
        "zonequake": "zonequake_chaos.testing.pytest_plugin"
    }

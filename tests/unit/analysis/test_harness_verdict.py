"""What the harness says of itself is one of the checks that a run is judged by."""

from pathlib import Path

import pytest

from zonequake_analysis.errors import RunFolderError
from zonequake_analysis.harness_report import HarnessReport
from zonequake_analysis.inputs.run_folder import read_description
from zonequake_analysis.judgement.harness_checks import harness_check
from zonequake_analysis.judgement.verdict_json import read_facts
from zonequake_analysis.verdict import Verdict, worst


def described(run: Path, text: str) -> HarnessReport | None:
    (run / "run.yaml").write_text(text)
    return read_description(run).harness


def test_the_harnesss_verdict_is_read_from_run_yaml(tmp_path: Path) -> None:
    text = "harness: {verdict: cleanup-not-proven, problems: [a pod is still paused]}"
    assert described(tmp_path, text) == HarnessReport(
        verdict=Verdict.CLEANUP_NOT_PROVEN, problems=["a pod is still paused"]
    )


def test_a_folder_that_no_harness_made_has_no_such_check(tmp_path: Path) -> None:
    assert described(tmp_path, "seed: 1") is None
    assert read_description(tmp_path / "elsewhere").harness is None


def test_a_harness_verdict_that_is_not_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="harness"):
        described(tmp_path, "harness: {verdict: fine}")


@pytest.mark.parametrize("text", ["[" * 900, "seed: 2001-99-99", "{"])
def test_a_description_that_is_no_yaml_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(RunFolderError, match=r"run\.yaml"):
        described(tmp_path, text)
    with pytest.raises(RunFolderError, match=r"run\.yaml"):
        read_facts(tmp_path)


def test_its_problems_are_the_checks_summary() -> None:
    check = harness_check(
        HarnessReport(verdict=Verdict.UNKNOWN, problems=["no recovery", "no audit"])
    )
    assert (check.verdict, check.summary) == (Verdict.UNKNOWN, "no recovery; no audit")


def test_a_run_that_broke_off_is_unknown_and_says_so() -> None:
    check = harness_check(HarnessReport())
    assert check.verdict is Verdict.UNKNOWN
    assert "broke off" in check.summary


def test_the_precedence_is_that_of_the_contract_and_a_violation_is_never_masked() -> None:
    order = ["violated", "cleanup-not-proven", "harness-failed", "unknown", "slo-breached"]
    for place, verdict in enumerate(order):
        assert worst([Verdict.PASSED, *map(Verdict, reversed(order[place:]))]) == verdict


def test_the_reports_title_names_what_was_under_test_with_its_version(tmp_path: Path) -> None:
    run = tmp_path / "run.yaml"
    run.write_text("name: leader-kill\ntarget: {name: etcd, version: 3.6.4, image: some/etcd:1}")
    assert read_description(tmp_path).title == "leader-kill against etcd 3.6.4"
    run.write_text("name: leader-kill\ntarget: {name: etcd, version: '', image: some/etcd:1}")
    assert read_description(tmp_path).title == "leader-kill against etcd"
    run.write_text("name: leader-kill")
    assert read_description(tmp_path).title == "leader-kill"

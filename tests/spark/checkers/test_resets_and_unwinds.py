"""A whole run with a reset and an unwind: legal as it is, and each spoilt version named."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.histories.synthesize import ZONE, SyntheticOperation, write_operations
from tests.unit.analysis.one_list import SECOND, append, read
from zonequake_analysis.inputs.run_folder import read_description
from zonequake_analysis.inputs.shapes import RoleCode
from zonequake_analysis.judgement.judge import Judgement, judge_run
from zonequake_analysis.judgement.judge import judge as judge_evidence
from zonequake_analysis.report import write_report
from zonequake_analysis.verdict import Check, Verdict

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]

EXPECTED = {
    "resets": 2,
    "sacrificed_at_most": 2,
    "sacrificed_at_least": 1,
    "restored_at_least": 5,
    "max_window_ms": 500,
    "max_reset_window_ms": 7000,
}


def history() -> list[SyntheticOperation]:
    """Ten appends by [A, B, C]; C, with five of them, is reset; then all is unwound to A."""
    return [
        *(append(n, 100 + n, (0, 1, n)) for n in range(1, 11)),
        read(list(range(1, 11)), 111, (0, 1, 10)),
        append(17, 121, (7, 2, 7)),
        append(18, 122, (7, 2, 8)),
        read([1, 2, 3, 4, 5, 17, 18], 123, (7, 2, 8)),
        append(19, 141, (9, 3, 12)),
        read([*range(1, 11), 19], 150, (9, 3, 12), role=RoleCode.FINAL),
    ]


def events() -> list[dict[str, object]]:
    def event(kind: str, at_s: float, data: dict[str, object], **more: object) -> dict[str, object]:
        return {"kind": kind, "time": int(at_s * SECOND), "data": data} | more

    def keys(at_s: float, stable: list[str], **data: object) -> dict[str, object]:
        place = {"zone": ZONE, "partition": 0}
        return event("partition.changed", at_s, {"stable": stable} | data, **place)

    def reset(
        lineage: int, at_s: float, node: str, last: tuple[int, int, int]
    ) -> dict[str, object]:
        names = ("last_lineage", "last_term", "last_index")
        data: dict[str, object] = {"lineage": lineage, **dict(zip(names, last, strict=True))}
        return event("group.reset", at_s, data, zone=ZONE, partition=0, node=node)

    gone = {
        "gone_ns": {"A": 115 * SECOND, "B": 115 * SECOND},
        "victims": [{"node": node, "process_incarnation": f"{node}-1"} for node in "AB"],
    }
    chain = [
        {"nodes": ["A", "B", "C"], "term": 1, "index": 0},
        {"nodes": ["C"], "term": 7 * 10**9 + 2, "index": 6},
    ]
    return [
        keys(100, ["A", "B", "C"]),
        event("fault.effective", 115, {"fault": "kill", "proof": gone}),
        keys(119, ["A", "B", "C"], pending=["C"], forced=["pending"], token=7),
        reset(7, 120, "C", (0, 1, 5)),
        keys(121, ["C"], chain=chain),
        reset(9, 140, "A", (0, 1, 10)),
        keys(142, ["A", "B", "C"], chain=chain[:1]),
        event("node.started", 139, {"process_incarnation": "A-2"}, node="A"),
        event("node.started", 139, {"process_incarnation": "B-2"}, node="B"),
    ]


Judged = dict[str, Check]
Judge = Callable[..., Judged]


@dataclass(frozen=True, slots=True)
class Legal:
    """The run as the rules have it, judged once."""

    run: Path
    judgement: Judgement


def describe(run: Path, **expected: object) -> None:
    described = {"expectations": EXPECTED | {"faults": []} | expected}
    (run / "run.yaml").write_text(json.dumps(described))


def judged(
    spark: SparkSession,
    run: Path,
    operations: Iterable[SyntheticOperation] | None = None,
    told: Iterable[dict[str, object]] | None = None,
    **expected: object,
) -> Judgement:
    write_operations(run / "history" / "load-0.jsonl", list(operations or history()))
    lines = [json.dumps(line) for line in (events() if told is None else told)]
    (run / "events.jsonl").write_text("\n".join(lines))
    describe(run, **expected)
    judgement = judge_run(spark, run)
    write_report(run, judgement)
    return judgement


def by_name(checks: Iterable[Check]) -> Judged:
    return {check.name: check for check in checks}


@pytest.fixture
def judge(spark: SparkSession, tmp_path: Path) -> Judge:
    def checks_of(*given: Any, **expected: Any) -> Judged:
        return by_name(judged(spark, tmp_path, *given, **expected).checks)

    return checks_of


@pytest.fixture(scope="module")
def legal(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Legal:
    run = tmp_path_factory.mktemp("legal")
    return Legal(run, judged(spark, run))


def expecting(legal: Legal, **expected: object) -> Judged:
    """Judges the evidence of the legal run again, as if its scenario had expected this."""
    describe(legal.run, **expected)
    described = replace(legal.judgement.evidence, description=read_description(legal.run))
    return by_name(judge_evidence(described))


def violated(checks: Judged) -> set[str]:
    return {name for name, check in checks.items() if check.verdict is Verdict.VIOLATED}


def test_a_reset_and_an_unwind_by_the_rules_are_legal(legal: Legal) -> None:
    checks = by_name(legal.judgement.checks)
    assert violated(checks) == set()
    assert checks["resets"].summary == "2 resets, 1 of them unwinds"
    assert checks["sacrificed-writes"].violations == 2
    assert "2 in z1/0 by lineage 9" in checks["sacrificed-writes"].summary
    assert checks["restored-writes"].summary.startswith("5 writes that a reset had taken came back")
    assert "z1/0 to [A, B, C] by A" in checks["restored-writes"].summary
    assert checks["forbidden-availability"].verdict is Verdict.PASSED
    assert checks["lost-writes"].verdict is Verdict.PASSED
    assert checks["linearizability"].verdict is Verdict.PASSED
    row = "z1/0, lineage 7 | C | – | 4.00 s | 5.00 s | 6.00 s | –"
    assert row in (legal.run / "summary.md").read_text()
    page = (legal.run / "report.html").read_text()
    assert all(f"<td>{cell}</td>" in page for cell in row.split(" | "))
    assert "<td>A, B, C</td>" in page, "the link that it was unwound to"


def behind_the_dead(*, asked: bool) -> list[dict[str, object]]:
    """The same, but C has died with lineage 7, and A is to go on without it."""
    gone = {
        "gone_ns": {"C": 130 * SECOND},
        "victims": [{"node": "C", "process_incarnation": "C-1"}],
    }
    by_hand = {
        "zone": ZONE,
        "partitions": [{"partition": 0, "token": 9, "survivor": "A", "given_up": []}],
    }
    died = {"kind": "fault.effective", "time": 130 * SECOND, "data": {"proof": gone}}
    named = {"fault": "hand", "type": "reset_by_hand"}
    request = [
        {"kind": "fault.start", "time": 139 * SECOND, "data": named},
        {"kind": "fault.effective", "time": 143 * SECOND, "data": named | {"proof": by_hand}},
    ]
    return [*events(), died, *(request if asked else [])]


def test_behind_a_survivor_that_died_uncopied_only_a_person_goes_on(
    judge: Judge, tmp_path: Path
) -> None:
    checks = judge(told=behind_the_dead(asked=True))
    assert violated(checks) == set()
    assert checks["resets"].summary == "2 resets, 0 of them unwinds and 1 by hand"
    assert "2 in z1/0 by lineage 9" in checks["sacrificed-writes"].summary
    assert "z1/0 by hand to what A had" in checks["restored-writes"].summary
    assert "z1/0, lineage 9 | A | by hand | " in (tmp_path / "summary.md").read_text()
    checks = judge(told=behind_the_dead(asked=False))
    assert violated(checks) == {"resets"}
    assert "no majority of the newer link [C] was alive" in checks["resets"].summary


def test_what_an_unwinds_source_had_and_what_an_abandoned_lineage_lost_itself_are_lost(
    judge: Judge,
) -> None:
    made = history()
    made[13] = read([1, 2, 3, 4, 5, 18], 123, (7, 2, 8))  # without 17, of its own lineage
    made[-1] = read([*range(1, 10), 19], 150, (9, 3, 12), role=RoleCode.FINAL)  # without 10
    checks = judge(made)
    assert {"lost-writes", "linearizability"} <= violated(checks)
    assert checks["lost-writes"].violations == 2
    assert checks["linearizability"].violations == 2, "each lineage by itself"


def test_an_answer_while_no_majority_lived_is_forbidden(judge: Judge) -> None:
    checks = judge([*history(), append(50, 116, (0, 1, 11))], sacrificed_at_most=None)
    assert violated(checks) == {"forbidden-availability"}
    assert "1 answers while no majority lived" in checks["forbidden-availability"].summary


def test_an_answer_of_the_old_majority_beside_the_survivor_is_forbidden(judge: Judge) -> None:
    told = [event for event in events() if event["kind"] != "fault.effective"]
    checks = judge([*history(), append(50, 125, (0, 1, 11))], told, sacrificed_at_most=None)
    assert violated(checks) == {"forbidden-availability"}
    assert "after a newer one led" in checks["forbidden-availability"].summary


def test_an_unexpected_reset_is_a_violation(legal: Legal) -> None:
    assert violated(expecting(legal, resets=1)) == {"resets"}
    assert expecting(legal, resets=3)["resets"].verdict is Verdict.SLO_BREACHED


def test_more_sacrificed_than_expected_and_less_restored_are_violations(legal: Legal) -> None:
    checks = expecting(legal, sacrificed_at_most=1, restored_at_least=6)
    assert violated(checks) == {"sacrificed-writes", "restored-writes"}
    unknown = expecting(legal, sacrificed_at_least=3)["sacrificed-writes"]
    assert unknown.verdict is Verdict.UNKNOWN


def test_an_unwind_to_no_link_of_the_chain_is_a_violation(judge: Judge) -> None:
    told = events()
    told[4]["data"]["chain"] = told[4]["data"]["chain"][1:]  # type: ignore[index]
    assert violated(judge(told=told)) == {"resets"}


def test_a_lineage_whose_begin_was_not_recorded_makes_the_run_unknown(judge: Judge) -> None:
    told = [event for event in events() if event["kind"] != "group.reset"]
    checks = judge(told=told, resets=None, restored_at_least=0)
    assert checks["resets"].verdict is Verdict.UNKNOWN
    assert "no record shows how lineage 7 of z1/0 began" in checks["resets"].summary

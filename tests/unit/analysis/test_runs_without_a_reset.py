"""That no partition was reset is a finding where data nodes' journals say so, and else none."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from junitparser import JUnitXml, Skipped

from zonequake_analysis.inputs.run_folder import Expectations, RecordedEvent
from zonequake_analysis.judgement.junit import render_junit
from zonequake_analysis.judgement.pull_request import render_summary
from zonequake_analysis.judgement.reset_checks import reset_checks
from zonequake_analysis.judgement.verdict_json import ReportedRun, entry, without_analysis
from zonequake_analysis.measures.resets import journalled
from zonequake_analysis.verdict import Check, Verdict


def event(kind: str, source: str, partition: int | None = 0) -> RecordedEvent:
    return RecordedEvent(kind=kind, time=1, source=source, zone="z", partition=partition)


def judged(journalled: int, **expected: Any) -> dict[str, Check]:
    return judged_of(journalled, (), (), Expectations(**expected))


def judged_of(
    journalled: int,
    resets: Sequence[object],
    cuts: Sequence[object],
    expectations: Expectations,
) -> dict[str, Check]:
    evidence: Any = SimpleNamespace(
        description=SimpleNamespace(expectations=expectations),
        journalled=journalled,
        known_groups=1,
        resets=resets,
        cuts=cuts,
        unfounded=(),
        acknowledged=500,
        counts={},
        one_clock=True,
    )
    return {check.name: check for check in reset_checks(evidence)}


NONE = {"resets": 0, "sacrificed_at_most": 0}


def test_partitions_count_of_which_a_data_node_itself_tells() -> None:
    told = [
        event("leader.change", "store", 0),
        event("leader.change", "store", 0),
        event("replica.started", "store", 1),
        event("node.started", "store", None),
        event("leader.change", "runner", 2),
        event("partition.changed", "runner", 3),
    ]
    assert journalled(told) == 2
    assert journalled([event("leader.change", "runner", 2)]) == 0, "seen from outside"


def test_no_reset_where_none_was_expected_has_passed_and_is_told_as_such() -> None:
    checks = judged(4, **NONE)
    for name, count in (("resets", 4), ("sacrificed-writes", 500)):
        assert checks[name].verdict is Verdict.PASSED
        assert (checks[name].judged, checks[name].checked) == (True, count)
    assert checks["resets"].summary == "none of 4 partitions was reset"
    told = ReportedRun(document=without_analysis([entry(checks["resets"])]))
    (case,) = next(iter(JUnitXml.fromstring(render_junit([told]))))
    assert case.result == []
    assert "| ✓ | resets | passed | none of 4 partitions was reset | 4 | 0 |" in render_summary(
        [told]
    )


def test_without_a_data_nodes_journal_nothing_is_said_to_have_passed() -> None:
    checks = judged(0, **NONE)
    for name in ("resets", "sacrificed-writes"):
        assert not checks[name].judged
        words = "not judged: no journal of a data node is there to tell of resets"
        assert checks[name].summary == words
        told = ReportedRun(document=without_analysis([entry(checks[name])]))
        (case,) = next(iter(JUnitXml.fromstring(render_junit([told]))))
        assert [type(result) for result in case.result] == [Skipped]


@pytest.mark.parametrize("journals", [0, 4])
def test_a_reset_that_was_expected_and_did_not_come_is_missed_with_and_without_journals(
    journals: int,
) -> None:
    check = judged(journals, resets=1)["resets"]
    assert check.verdict is Verdict.SLO_BREACHED
    assert check.summary.endswith(", where 1 were expected")


def test_an_unwind_is_judged_only_where_there_was_one_or_had_to_be() -> None:
    assert not judged(4, **NONE)["restored-writes"].judged
    assert judged(4, **NONE)["restored-writes"].summary == "not judged: no reset was unwound"
    wanted = judged(4, restored_at_least=3)["restored-writes"]
    assert wanted.verdict is Verdict.VIOLATED
    assert wanted.summary.endswith("; at least 3 had to come back")


def test_of_many_resets_the_first_are_named_and_the_rest_is_counted() -> None:
    resets = tuple(
        SimpleNamespace(
            zone="z",
            partition=number,
            survivor="n1",
            lineage=2,
            by_hand=False,
            unwound_to=["n1"],
            unnamed="",
        )
        for number in range(6)
    )
    cuts = (
        SimpleNamespace(
            zone="z",
            partition=0,
            sacrificed=dict.fromkeys(range(6), 1),
            restored=3,
            unrecorded=[],
            beside=0,
        ),
    )
    found = judged_of(3, resets, cuts, Expectations(resets=2))
    assert found["resets"].summary.endswith(
        "z/2 by n1 (lineage 2), z/3 by n1 (lineage 2), and 2 more"
    )
    assert found["sacrificed-writes"].summary.endswith("1 in z/0 by lineage 3, and 2 more")
    assert found["restored-writes"].summary.endswith("z/3 to [n1] by n1, and 2 more")

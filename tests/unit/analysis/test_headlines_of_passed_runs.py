"""The headline of a run that passed says no more than what was found."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.analysis.made_up_evidence import evidence, found
from zonequake_analysis.checks import loss
from zonequake_analysis.inputs.run_folder import Expectations, RecordedEvent
from zonequake_analysis.judgement.evidence import Evidence
from zonequake_analysis.judgement.judge import judge
from zonequake_analysis.measures.lost_groups import LostGroup
from zonequake_analysis.measures.rebalances import fault_landings
from zonequake_analysis.report.summary import headline
from zonequake_analysis.verdict import Verdict, worst


def told(e: Evidence) -> str:
    checks = judge(e)
    assert worst(check.verdict for check in checks) is Verdict.PASSED
    judgement: Any = SimpleNamespace(evidence=e, checks=checks, verdict=Verdict.PASSED)
    return headline(judgement)


def allowing(e: Evidence, **expected: Any) -> Evidence:
    return replace(e, description=replace(e.description, expectations=Expectations(**expected)))


@pytest.mark.parametrize(
    ("counts", "of_lost_groups", "words"),
    [
        ({(loss.CHECK, "lost"): 3}, 0, "3 acknowledged writes were lost and 0 reads were stale"),
        ({(loss.CHECK, "stale"): 2}, 0, "0 acknowledged writes were lost and 2 reads were stale"),
        ({}, 40, "40 acknowledged writes were lost and 0 reads were stale"),
    ],
)
def test_what_a_run_was_allowed_to_lose_is_told(
    counts: dict[tuple[str, str], int], of_lost_groups: int, words: str
) -> None:
    group = LostGroup(zone="z1", partition=0, at_ns=1, said={}, acknowledged=of_lost_groups)
    e = evidence(found=found(counts), lost_groups=[group] if of_lost_groups else ())
    e = allowing(e, lost=50, stale=50)
    assert told(e) == f"{words}, which the run allows; every key is linearizable."
    none = allowing(evidence(), lost=50, stale=50)
    assert told(none).startswith("No acknowledged write of 100 was lost, no read was stale")


@pytest.mark.parametrize(
    ("proven", "words"),
    [
        ({}, "every key is linearizable."),
        ({"cut": 1}, "every key is linearizable through cut."),
        ({"kill": 2}, "every key is linearizable through 2 faults: kill (2 times)."),
        ({"cut": 1, "kill": 3}, "linearizable through 4 faults: cut, kill (3 times)."),
    ],
)
def test_a_run_is_through_the_faults_that_took_effect(proven: dict[str, int], words: str) -> None:
    begun = {"cut": 1, "kill": 3}
    events = [
        RecordedEvent(kind=kind, time=number, data={"fault": name, "type": name})
        for name in begun
        for kind, times in (("fault.start", begun[name]), ("fault.effective", proven.get(name, 0)))
        for number in range(times)
    ]
    assert told(allowing(evidence(faults=fault_landings(events)), faults=[])).endswith(words)

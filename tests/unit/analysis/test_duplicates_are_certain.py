"""A duplicate is named only where something was certainly applied twice."""

from __future__ import annotations

from tests.unit.analysis.made_up_evidence import evidence, found
from zonequake_analysis.checks import diverged, sets
from zonequake_analysis.judgement.judge import judge
from zonequake_analysis.judgement.writes_at_two_places import counted, meaning
from zonequake_analysis.measures.replica_audit import Audit, Disagreement
from zonequake_analysis.verdict import Check, Verdict

NO_DUMPS = Audit(partitions=0, replicas=0, writes_compared=0, disagreements=())
ALIKE = Audit(partitions=2, replicas=6, writes_compared=9, disagreements=())
ONE_DUMP_EACH = Audit(partitions=2, replicas=2, writes_compared=9, disagreements=())
APART = Audit(
    partitions=2,
    replicas=6,
    writes_compared=9,
    disagreements=(Disagreement(zone="z", partition=0, kind="digest", what="at 9: …"),),
)
UNSETTLED = Audit(
    partitions=2,
    replicas=6,
    writes_compared=9,
    disagreements=(Disagreement(zone="z", partition=0, kind="applied", what="9; 8"),),
)


def checks(counts: dict[tuple[str, str], int], audit: Audit) -> dict[str, Check]:
    judged = judge(evidence(audit=audit, found=found(dict(counted(counts, audit)))))
    return {check.name: check for check in judged}


def test_a_write_at_two_places_was_applied_twice_where_all_members_have_one_log() -> None:
    assert meaning({sets.TWO_PLACES: 2}, ALIKE) == (sets.CHECK, "applied-twice")
    both = checks({sets.TWO_PLACES: 2, (sets.CHECK, "applied-twice"): 1}, ALIKE)
    assert both["duplicates"].violations == 3
    assert both["diverged"].violations == 0


def test_where_members_have_diverged_it_is_no_duplicate_but_diverged() -> None:
    for counts, audit in (
        ({sets.TWO_PLACES: 2}, APART),
        ({sets.TWO_PLACES: 2, (diverged.CHECK, diverged.KIND): 4}, ALIKE),
        ({sets.TWO_PLACES: 2, (diverged.CHECK, diverged.KIND): 4}, NO_DUMPS),
    ):
        named = checks(counts, audit)
        assert named["duplicates"].verdict is Verdict.PASSED
        assert named["diverged"].verdict is Verdict.VIOLATED
        assert named["diverged"].violations >= 3


def test_where_it_is_not_known_it_is_named_neither() -> None:
    for audit in (NO_DUMPS, ONE_DUMP_EACH, UNSETTLED):
        named = checks({sets.TWO_PLACES: 2}, audit)
        assert named["duplicates"].verdict is Verdict.PASSED
        assert "2 more stand at two places by two members" in named["duplicates"].summary
        assert named["diverged"].verdict is Verdict.PASSED


def test_an_element_twice_in_one_list_is_a_duplicate_though_members_diverged() -> None:
    named = checks({(sets.CHECK, "duplicate"): 1}, APART)
    assert named["duplicates"].verdict is Verdict.VIOLATED

"""Whatever lists checks lists the most severe first: in one order, that of `verdict.py`."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree as xml

import msgspec

from tests.unit.analysis.made_up_evidence import evidence, finding, found
from tests.unit.analysis.told_runs import check, every_kind, told
from zonequake_analysis.checks.search.witness import Witness
from zonequake_analysis.inputs.run_folder import Expectations
from zonequake_analysis.judgement.judge import judge
from zonequake_analysis.judgement.junit import render_junit
from zonequake_analysis.judgement.pull_request import render_summary
from zonequake_analysis.judgement.verdict_json import without_analysis
from zonequake_analysis.post_mortem.witnessed_findings import WitnessedFinding
from zonequake_analysis.report.page import distinct_findings
from zonequake_analysis.verdict import Verdict, most_severe_first

WORST_FIRST = [
    "lost-writes",
    "cleanup",
    "harness",
    "coverage",
    "latency",
    "stale-reads",
    "joint-after-caught-up",
]
"""The checks of `every_kind`: a violation first, what was not judged last."""


def names_in(text: str) -> list[str]:
    """Names of checks in the order in which a table of summary.md lists them."""
    cells = [line.split("|") for line in text.splitlines() if line.startswith("| ")]
    named = [row[2].strip() for row in cells if len(row) > 3]
    return [name for name in named if name in WORST_FIRST]


def test_every_verdict_has_its_place_and_those_of_one_verdict_stay_in_their_order() -> None:
    given = [check(f"{v}-{n}", v) for n in (1, 2) for v in reversed(Verdict)]
    ordered = most_severe_first([*given, check("idle", checked=0)])
    assert [one.name for one in ordered] == [f"{v}-{n}" for v in Verdict for n in (1, 2)] + ["idle"]


def test_the_checks_of_a_judged_run_are_in_this_order() -> None:
    checks = judge(evidence(uncovered=3, found=found({("loss", "session"): 1})))
    assert [c.verdict for c in checks if c.judged] == sorted(
        (c.verdict for c in checks if c.judged), key=list(Verdict).index
    )
    assert checks[0].name == "sessions"
    assert checks[1].name == "coverage"
    assert not checks[-1].judged


def test_a_document_without_an_analysis_lists_them_so_and_tells_the_worst() -> None:
    document = without_analysis(every_kind().document.checks)
    assert [one.name for one in document.checks] == WORST_FIRST
    assert document.headline == "lost-writes is violated"


def test_a_headline_tells_three_checks_and_counts_the_others() -> None:
    checks = [check(f"check-{number}", Verdict.UNKNOWN) for number in range(5)]
    told_of = "check-0 is unknown; check-1 is unknown; check-2 is unknown"
    assert without_analysis(checks).headline == f"{told_of}; and 2 more"
    assert without_analysis(checks[:3]).headline == told_of


def test_junit_and_summary_list_them_so_whatever_order_their_document_has() -> None:
    for turned in (False, True):
        run = every_kind()
        checks = run.document.checks[::-1] if turned else run.document.checks
        run = replace(run, document=msgspec.structs.replace(run.document, checks=checks))
        cases = xml.fromstring(render_junit([run])).iter("testcase")
        assert [case.get("name") for case in cases] == WORST_FIRST
        assert names_in(render_summary([run])) == WORST_FIRST


def test_of_several_runs_the_worst_is_told_first_in_full() -> None:
    slow = told(check("latency", Verdict.SLO_BREACHED), seed=1)
    text = render_summary([slow, every_kind(2), told(check("faults", Verdict.UNKNOWN), seed=3)])
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert headings == [
        "## ✗ leader-kill: violated",
        "## ? leader-kill: unknown",
        "## ! leader-kill: slo-breached",
    ]


def test_of_many_runs_the_worst_stand_in_the_table_before_the_others() -> None:
    slow = [told(check("latency", Verdict.SLO_BREACHED), seed=seed) for seed in range(200)]
    text = render_summary([*slow, told(check("lost-writes", Verdict.VIOLATED), seed=500)])
    assert "| ✗ | 201 | 500 | violated |" in text


def test_the_report_shows_the_findings_in_the_order_of_their_checks() -> None:
    kinds = ("not-prefix", "session", "phantom", "lost", "stale")
    allowed = Expectations(lost=9)
    description = replace(evidence().description, expectations=allowed)
    counts = found({("loss", "lost"): 1, ("loss", "stale"): 1, ("sets", "phantom"): 1})
    checks = judge(evidence(description=description, found=counts))
    shown = [
        WitnessedFinding(finding=finding(kind), witness=Witness(operations=(), proven=False))
        for kind in kinds
    ]
    listed = [one.finding.kind for one in distinct_findings(shown, checks)]
    assert listed == ["stale", "phantom", "lost", "not-prefix", "session"]

"""Writes verdict.json, report.html, summary.md and junit.xml into a run folder."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as xml

import msgspec

from zonequake_analysis.judgement import Judgement
from zonequake_analysis.report.page import render_page
from zonequake_analysis.report.summary import numbers, render_summary
from zonequake_analysis.verdict import EXIT_CODES, Verdict


def write_report(run: Path, judgement: Judgement) -> None:
    """Writes the four files; each replaces the one before."""
    (run / "verdict.json").write_bytes(
        msgspec.json.format(msgspec.json.encode(verdict_document(judgement)), indent=2) + b"\n"
    )
    (run / "junit.xml").write_bytes(junit(judgement))
    (run / "summary.md").write_text(render_summary(judgement))
    (run / "report.html").write_text(render_page(run, judgement))


def verdict_document(judgement: Judgement) -> dict[str, object]:
    """`verdict.json` as docs/interfaces.md says."""
    return {
        "schema": 1,
        "verdict": judgement.verdict,
        "exit_code": EXIT_CODES[judgement.verdict],
        "checks": [
            {
                "name": check.name,
                "verdict": check.verdict,
                "summary": check.summary,
                "violations": check.violations,
                "checked": check.checked,
                "excluded": check.excluded,
            }
            for check in judgement.checks
        ],
        "numbers": numbers(judgement),
    }


def junit(judgement: Judgement) -> bytes:
    """One test case per property: violations and missed objectives fail, what is unknown errs."""
    checks = judgement.checks
    failed = (Verdict.VIOLATED, Verdict.SLO_BREACHED)
    wrong = [check for check in checks if check.verdict is not Verdict.PASSED]
    suite = xml.Element(
        "testsuite",
        name=judgement.description.name,
        tests=str(len(checks)),
        failures=str(sum(check.verdict in failed for check in wrong)),
        errors=str(sum(check.verdict not in failed for check in wrong)),
    )
    for check in checks:
        case = xml.SubElement(suite, "testcase", classname="zonequake", name=check.name)
        if check.verdict is not Verdict.PASSED:
            tag = "failure" if check.verdict in failed else "error"
            note = xml.SubElement(case, tag, type=str(check.verdict), message=check.summary)
            note.text = f"{check.violations} violations, {check.checked} checked"
    root = xml.Element("testsuites")
    root.append(suite)
    return bytes(xml.tostring(root, encoding="utf-8", xml_declaration=True))

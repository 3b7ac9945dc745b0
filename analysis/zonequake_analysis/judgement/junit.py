"""`junit.xml`: a suite for each run, a case for each property.

Violations and missed objectives are failures, with a witness in their text. An unknown result, a
failed harness and an unproven cleanup are errors. Checks without anything to judge are skipped.

Jenkins' xunit plugin, GitLab and the report actions of GitHub read this form: it has no attribute
or element that one of them doesn't know.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree as xml

from zonequake_analysis.judgement.verdict_json import CheckEntry, ReportedRun, started
from zonequake_analysis.text.untrusted_text import visible
from zonequake_analysis.verdict import Kind, Verdict, most_severe_first

MOST_WITNESSES = 3
"""Most witnesses of one check; the report has them all."""

_FAILURES = (Verdict.VIOLATED, Verdict.SLO_BREACHED)
_NOT_COUNTED = (Kind.HARNESS, Kind.CLEANUP)
"""What happened to the run itself: it has no numbers beside its sentence."""
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render_junit(runs: Sequence[ReportedRun]) -> bytes:
    """Returns one file for all runs."""
    root = xml.Element("testsuites", name="zonequake")
    suites = [_suite(told, number) for number, told in enumerate(runs, 1)]
    root.extend(suites)
    for total in ("tests", "failures", "errors"):
        root.set(total, str(sum(int(suite.get(total, "0")) for suite in suites)))
    root.set("time", f"{sum(told.document.duration_s for told in runs):.3f}")
    xml.indent(root)
    return bytes(xml.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def _suite(told: ReportedRun, number: int) -> xml.Element:
    document, facts = told.document, told.document.run
    wrong = [check for check in document.checks if check.verdict is not Verdict.PASSED]
    failures = sum(check.verdict in _FAILURES for check in wrong)
    suite = xml.Element(
        "testsuite",
        name=_clean(f"{told.title} (seed {told.seed})" if told.seed else told.title),
        id=str(number),
        tests=str(len(document.checks)),
        failures=str(failures),
        errors=str(len(wrong) - failures),
        skipped=str(sum(not check.judged for check in document.checks)),
        time=f"{document.duration_s:.3f}",
    )
    if begin := started(facts):
        suite.set("timestamp", begin)
    properties = xml.SubElement(suite, "properties")
    for name, value in _properties(told).items():
        if value:
            xml.SubElement(properties, "property", name=_clean(name), value=_clean(value))
    for check in most_severe_first(document.checks):
        suite.append(_case(check, told))
    return suite


def _properties(told: ReportedRun) -> dict[str, str]:
    facts = told.document.run
    known = {"verdict": str(told.document.verdict), "exit_code": str(told.document.exit_code)}
    if facts is not None:
        known |= {
            "scenario": facts.scenario,
            "seed": facts.seed,
            "target": facts.target,
            "run": facts.run,
            "replay": facts.replay,
            "kubernetes": facts.cluster,
            **{f"version.{name}": version for name, version in facts.versions.items()},
        }
    return {**known, "folder": told.folder}


def _case(check: CheckEntry, told: ReportedRun) -> xml.Element:
    case = xml.Element(
        "testcase",
        classname=_clean(f"zonequake.{told.name}.{check.kind}"),
        name=_clean(check.name),
        time="0.000",
    )
    if not check.judged:
        xml.SubElement(case, "skipped", message=_clean(check.summary))
    elif check.verdict is not Verdict.PASSED:
        tag = "failure" if check.verdict in _FAILURES else "error"
        note = xml.SubElement(case, tag, type=str(check.verdict), message=_clean(check.summary))
        note.text = _clean(_text(check, told))
    return case


def _text(check: CheckEntry, told: ReportedRun) -> str:
    lines = [check.summary]
    if check.kind not in _NOT_COUNTED:
        lines.append(
            f"{check.violations:,} violations; {check.checked:,} judged, "
            f"{check.excluded:,} left out"
        )
    for witness in check.witnesses[:MOST_WITNESSES]:
        lines += ["", witness]
    left_out = len(check.witnesses) - MOST_WITNESSES
    if left_out > 0:
        lines += ["", f"and {left_out} more in the report"]
    facts = told.document.run
    lines += [""] if facts is not None or told.folder else []
    if facts is not None and facts.replay:
        lines.append(f"again: {facts.replay}")
    if told.folder:
        lines.append(f"run folder: {told.folder}")
    return "\n".join(lines)


def _clean(text: str) -> str:
    """Returns text without the characters that XML 1.0 can't hold, such as a terminal's escapes, or
    that no reader sees.
    """
    return _NOT_XML.sub("�", visible(text))

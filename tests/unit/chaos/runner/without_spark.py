"""Stands in for the analysis, as a module that a program loads before it does anything else.

It passes whatever it is given: what is tested with it is what stands around an analysis.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

from zonequake_analysis.judgement import verdict_json
from zonequake_analysis.judgement.write_reports import write_alone
from zonequake_analysis.verdict import Verdict


def judge_folder(run: Path, **_: object) -> Verdict:
    check = verdict_json.CheckEntry(
        name="lost-writes", verdict=Verdict.PASSED, summary="0 of 1,000 are lost", checked=1000
    )
    told = verdict_json.without_analysis([check], verdict_json.read_facts(run))
    write_alone(verdict_json.ReportedRun(document=told, folder=str(run)), run)
    return Verdict.PASSED


stand_in = ModuleType("zonequake_analysis.cli")
stand_in.judge_folder = judge_folder  # type: ignore[attr-defined]
sys.modules["zonequake_analysis.cli"] = stand_in

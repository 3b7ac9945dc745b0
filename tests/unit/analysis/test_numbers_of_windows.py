"""A run that was never probed has no number of windows, rather than none of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.spark.report.made_up_pages import made_up_judgement
from tests.unit.analysis.made_up_probes import vantage
from zonequake_analysis.judgement.pull_request import render_summary
from zonequake_analysis.judgement.verdict_json import ReportedRun
from zonequake_analysis.report.page import render_page
from zonequake_analysis.report.write import verdict_document

OF_PROBES = (
    "windows",
    "windows_unexplained",
    "longest_window_certain_ms",
    "longest_window_possible_ms",
    "longest_window_hidden_ms",
    "probe_resolution_ms",
)


@pytest.mark.parametrize(("vantages", "number", "shown"), [((), None, "–"), ((vantage(),), 0, "0")])
def test_without_probes_nothing_is_known_of_windows(
    tmp_path: Path, vantages: tuple[object, ...], number: int | None, shown: str
) -> None:
    made = made_up_judgement(partitions=1)
    seen = replace(made.evidence.availability, windows=(), vantages=vantages)  # type: ignore[arg-type]
    made = replace(made, evidence=replace(made.evidence, availability=seen))
    document = verdict_document(tmp_path, made)
    assert [document.numbers[name] for name in OF_PROBES] == [number] * len(OF_PROBES)
    table = render_summary([ReportedRun(document=document)] * 2)
    assert ("| 0 ms |" in table) is (number == 0)
    page = render_page(tmp_path, made, told=lambda _: None)
    assert f"<b>{shown}</b><span>unavailability windows</span>" in page

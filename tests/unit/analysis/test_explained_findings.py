"""The report explains each kind of finding over operations in a sentence."""

from __future__ import annotations

from zonequake_analysis.report.page import _EXPLAINED
from zonequake_analysis.tables.kinds import NAMED


def test_every_kind_of_finding_has_its_sentence_in_the_report() -> None:
    assert {kind for _, kind in NAMED} - set(_EXPLAINED) == set()

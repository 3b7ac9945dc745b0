"""Words that people filter and alert by are written down."""

from __future__ import annotations

from pathlib import Path

import pytest

from zonequake_operator.planning.kubernetes_events import EventReason
from zonequake_operator.resources.condition_types import ConditionType, Reason

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "operator.md").read_text()


@pytest.mark.parametrize("word", [*ConditionType, *Reason, *EventReason])
def test_every_condition_and_reason_is_explained(word: str) -> None:
    assert f"`{word}`" in PAGE

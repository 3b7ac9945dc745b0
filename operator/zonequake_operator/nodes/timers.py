"""The timers of a zone and the wall clock by which they wait: it may be set back. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from zonequake_operator.resources.model import ResetTimer, Timer

Armed = TypeVar("Armed", Timer, ResetTimer)


def armed_by(timer: Armed | None, now_ms: int) -> Armed | None:
    """Returns a timer that seems to be armed in the future as armed now, any other as it is."""
    return replace(timer, armed_ms=min(timer.armed_ms, now_ms)) if timer else None

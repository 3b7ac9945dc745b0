"""The effect of one Porcupine line on single keys, or that it can't be judged. Pure data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from zonequake_analysis.importing.operations import Function


class KeyStep(NamedTuple):
    """One operation on one key; `value` is the value written or read."""

    f: Function
    key: str
    value: object = None
    expected: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LineSteps:
    """All steps of a line, which share one outcome. `index`: the store's place of the answer."""

    steps: Sequence[KeyStep] = ()
    outcome: str
    error: str | None = None
    index: int | None = None


class Unjudged(Exception):
    """An operation after which `keys` can't be judged."""

    def __init__(self, field: str, what: str, keys: Sequence[str]) -> None:
        super().__init__(what)
        self.field, self.what, self.keys = field, what, tuple(keys)

"""Short names for the values of a witness."""

from __future__ import annotations

from collections.abc import Sequence

from zonequake_analysis.checks.search.witness import WitnessOperation
from zonequake_analysis.report.shortened import ends_of


def aliases(operations: Sequence[WitnessOperation], about: int | None = None) -> dict[int, str]:
    """Returns a name for each value: a, b, c, … in the order in which values appear.

    Of a long list only what is shown has one; `about`: a value that is.
    """
    values: dict[int, None] = {}
    for o in operations:
        for shown in (o.step.expected, o.step.found, o.step.value):
            for value in ends_of(shown, about) if isinstance(shown, tuple) else (shown,):
                if value is not None:
                    values.setdefault(value)
    return {
        value: chr(97 + i % 26) + (str(i // 26) if i >= 26 else "")
        for i, value in enumerate(values)
    }

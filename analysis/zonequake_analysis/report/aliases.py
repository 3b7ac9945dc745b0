"""Short names for the values of a witness."""

from __future__ import annotations

from collections.abc import Sequence

from zonequake_analysis.checks.search.witness import WitnessOperation


def aliases(operations: Sequence[WitnessOperation]) -> dict[int, str]:
    """Returns a name for each value: a, b, c, … in the order in which values appear."""
    values: dict[int, None] = {}
    for o in operations:
        for shown in (o.step.expected, o.step.found, o.step.value):
            for value in shown if isinstance(shown, tuple) else (shown,):
                if value is not None:
                    values.setdefault(value)
    return {
        value: chr(97 + i % 26) + (str(i // 26) if i >= 26 else "")
        for i, value in enumerate(values)
    }

"""Quantities that runs are compared by, each with its unit and which way is better. Pure.

window.longest      longest unavailability window of any partition, certain
faults.read.p99     <span>.<class>.<quantile> of the load's latency
faults.rate         <span>.rate, answered operations of the load in a second
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from zonequake_analysis.measures.tally import TRANSACTION


class Better(StrEnum):
    """The direction in which a quantity improves."""

    LOWER = "lower"
    HIGHER = "higher"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """One measured quantity of a run; `family` is the name of the bound that holds for it."""

    name: str
    words: str
    unit: str
    better: Better
    family: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A measured value with its interval. Nothing is below 0; an upper end that nothing bounds is
    infinite.
    """

    value: float
    low: float
    high: float

    @classmethod
    def exact(cls, value: float) -> Estimate:
        """Returns a value without any doubt, such as a count."""
        return cls(value=value, low=value, high=value)

    @classmethod
    def unsure(cls, value: float) -> Estimate:
        """Returns a value that chance may have moved by any amount."""
        return cls(value=value, low=0.0, high=math.inf)


SPANS = {
    "before": "before the faults",
    "faults": "during the faults",
    "whole": "in the whole run",
}
"""Parts of a run: from the steady load to the control or the faults; from the first fault to the
end of recovery; all of it if the events show no phases, or the judgement couldn't use them."""

ALL = "all"
CLASSES = {
    ALL: "operations",
    "read": "reads",
    "write": "writes",
    "cas": "cas",
    "append": "appends",
    TRANSACTION: "transactions",
}
"""The functions of a history, each with the word for several; a transaction is one operation."""

QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def latency(span: str, kind: str, quantile: str) -> str:
    """Returns the name of a quantile of the load's latency."""
    return f"{span}.{kind}.{quantile}"


def rate(span: str) -> str:
    """Returns the name of the load's rate in a span."""
    return f"{span}.rate"


WINDOW, WINDOWS, UNEXPLAINED = "window.longest", "windows", "windows.unexplained"
PARTITIONS_OUT, RESETS, SACRIFICED = "windows.partitions", "resets", "sacrificed"
LOST, STALE, P99_RATIO = "lost", "stale", "p99.ratio"


def _all() -> list[Quantity]:
    def count(name: str, words: str, family: str = "") -> Quantity:
        return Quantity(name=name, words=words, unit="", better=Better.LOWER, family=family or name)

    found = [
        Quantity(
            name=WINDOW,
            words="longest window, certain",
            unit="ms",
            better=Better.LOWER,
            family="window",
        ),
        count(WINDOWS, "unavailability windows"),
        count(PARTITIONS_OUT, "partitions with a window", "partitions"),
        count(UNEXPLAINED, "windows without a cause", "unexplained"),
        count(RESETS, "forced resets"),
        count(SACRIFICED, "writes sacrificed by resets"),
        count(LOST, "acknowledged writes lost"),
        count(STALE, "stale reads"),
        Quantity(
            name=P99_RATIO,
            words="p99 during the faults over the quiet time's",
            unit="times",
            better=Better.LOWER,
            family="p99_ratio",
        ),
    ]
    for span, when in SPANS.items():
        found.append(
            Quantity(
                name=rate(span),
                words=f"answered operations {when}",
                unit="/s",
                better=Better.HIGHER,
                family="rate",
            )
        )
        found += [
            Quantity(
                name=latency(span, kind, quantile),
                words=f"{quantile} of {what} {when}",
                unit="ms",
                better=Better.LOWER,
                family=quantile,
            )
            for kind, what in CLASSES.items()
            for quantile in QUANTILES
        ]
    return found


QUANTITIES = {quantity.name: quantity for quantity in _all()}
"""Quantities by name, in the order in which they are shown."""


def number(value: float) -> str:
    """Returns a number with as many digits as are useful."""
    if math.isinf(value):
        return "∞"
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"

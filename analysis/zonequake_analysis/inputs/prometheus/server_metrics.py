"""The metrics of its own load that a system under test tells: its package declares them, the
harness writes them into `run.yaml`, and the report shows them beside what clients saw. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Literal

import msgspec

from zonequake_analysis.inputs.prometheus.metric_names import is_counter

Measure = Literal["level", "rate", "p50", "p99"]

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LEVEL, _RATE, _QUANTILES = "level", "rate", ("p50", "p99")
_OF_HARNESS = ("load", "operator")
"""Components that the release's Prometheus scrapes, too, and that are not the system under test."""


class ServerMetric(msgspec.Struct, frozen=True, kw_only=True):
    """A metric of a member's own load: its latency, CPU, fsync, queue, or the lag of its loop.

    `metric`: its name, of a histogram without `_bucket`. `measure`: the level of a gauge, the rate
    of a counter, or a quantile of a histogram. `words`: what it is, for the report. The unit is in
    the name, as OpenMetrics has it.
    """

    metric: str
    measure: Measure
    words: str

    @property
    def sampled(self) -> str:
        """The name of its samples."""
        return f"{self.metric}_bucket" if self.measure in _QUANTILES else self.metric

    @property
    def problem(self) -> str:
        """Why it can't be shown, in words; empty if it can."""
        if not _NAME.fullmatch(self.metric):
            return f"found the name {self.metric!r}, expected letters, digits and _"
        if self.measure not in (_LEVEL, _RATE, *_QUANTILES):
            expected = "level, rate, p50 or p99"
            return f"{self.metric}: found the measure {self.measure!r}, expected {expected}"
        counts = is_counter(self.metric)
        if counts != (self.measure == _RATE) or self.metric.endswith("_bucket"):
            return (
                f"{self.metric}: found the measure {self.measure}, expected rate of a name that "
                "ends in _total, _count or _sum, and of no other; a histogram is named without "
                "_bucket"
            )
        return ""


def declare(*rows: tuple[str, Measure, str]) -> tuple[ServerMetric, ...]:
    """Returns metrics of rows: name, measure, words."""
    return tuple(ServerMetric(metric=name, measure=how, words=words) for name, how, words in rows)


OF_STORE = declare(
    ("zonequake_store_request_seconds", "p50", "p50 of requests in the node"),
    ("zonequake_store_request_seconds", "p99", "p99 of requests in the node"),
    ("zonequake_store_requests_waiting", "level", "requests waiting"),
    ("zonequake_store_commit_seconds", "p99", "p99 of commits (fsync)"),
    ("zonequake_store_commit_under_way_seconds", "level", "longest commit under way"),
    ("zonequake_store_loop_lag_seconds", "level", "lag of the loop"),
    ("zonequake_store_cpu_seconds_total", "rate", "CPU"),
    (
        "zonequake_store_appends_dropped_total",
        "rate",
        "messages dropped for want of a connection",
    ),
    ("zonequake_store_client_requests_total", "rate", "requests"),
)
"""Those of our own data nodes, which also stand for those of a run that is older than
declarations."""


def of_system(labels: Mapping[str, str]) -> bool:
    """Returns whether a series may be of the system under test, and is not of the harness."""
    return labels.get("component") not in _OF_HARNESS


def not_scraped(declared: Collection[ServerMetric], sampled: Collection[str]) -> list[str]:
    """Returns the declared metrics without a sample; `sampled`: names of the system's series."""
    lacking = (one.metric for one in declared if one.sampled not in sampled)
    return list(dict.fromkeys(lacking))

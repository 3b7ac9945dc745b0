"""Facts from a metric's name: kind, unit, family, and whether it is of no use. Pure.

remote_read carries no metadata, so the suffixes of names decide, as in OpenMetrics.
"""

from __future__ import annotations

import re

QUIET_PREFIXES = (
    "go_",
    "promhttp_",
    "prometheus_",
    "scrape_",
    "python_",
    "process_start_time",
    "process_virtual_memory",
    "ALERTS",
)
"""Prefixes of metrics that say nothing about the system under test."""

QUIET_SUFFIXES = ("_created", "_info", "_timestamp_seconds", "_sum")
"""Suffixes of metrics that add nothing to others: the sum of a histogram says less than its
quantiles."""

COUNTERS = ("_total", "_count", "_bucket", "_sum")
_SUFFIX = re.compile(r"_(total|count|bucket|sum|created|info)$")
_UNIT = re.compile(r"_(seconds|bytes|ratio|fraction|celsius|joules|volts|amperes|grams|meters)$")
_FAMILY_WORDS = 4


def is_counter(metric: str) -> bool:
    """Returns whether it only grows, until its process ends."""
    return metric.endswith(COUNTERS)


def is_quiet(metric: str) -> bool:
    """Returns whether its changes say nothing about the system under test."""
    return metric.startswith(QUIET_PREFIXES) or metric.endswith(QUIET_SUFFIXES)


def family(metric: str) -> str:
    """Returns the family of metrics on one subject: the first four words, without unit and suffix.

    `zonequake_store_catch_up_sent_bytes` and `…_catch_up_bytes_total`: `zonequake_store_catch_up`.
    """
    stem = _UNIT.sub("", _SUFFIX.sub("", metric))
    return "_".join(stem.split("_")[:_FAMILY_WORDS])


def unit(metric: str, measure: str) -> str:
    """Returns the unit of a series' `measure`: level, rate or a quantile such as p99."""
    counts = metric.endswith(("_count", "_bucket"))
    found = None if counts else _UNIT.search(_SUFFIX.sub("", metric))
    name = "" if found is None else found[1]
    if measure != "rate":
        return name
    # Seconds per second are a share: of one core if they are CPU seconds.
    return "seconds per second" if name == "seconds" else f"{name or 'times'} per second"

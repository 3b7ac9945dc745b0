"""The alert rules that a run's Prometheus had loaded, and when their expressions held.

Samples show which alerts fired, and not which should have. When a run ends, the harness asks its
Prometheus for the rules, and for each rule where its expression held during the run, and writes
both to `metrics/alert_rules.json`. Prometheus itself evaluates, so that no PromQL is ours:

    expression holds   ├──────── for ────────┼─── limit ───┤
    alert                                  fires at the latest here

Sources: Prometheus' HTTP API, "Rules" and "Range queries".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from zonequake_analysis.errors import NO_JSON, PrometheusError, SamplesError
from zonequake_analysis.metrics.counters import Alert
from zonequake_analysis.storage.location import Location

FILE = "alert_rules.json"

RULES_PATH = "/api/v1/rules?type=alert"
QUERY_PATH = "/api/v1/query_range"

STEP_MS = 5_000
"""Most time between two evaluations of an expression; half a rule's own interval if that is less:
a dip that Prometheus saw, after which an alert waits again, is then seen here too."""

MOST_STEPS = 10_000
"""Prometheus refuses a query of more than 11,000."""

Fetch = Callable[[str, Mapping[str, str] | None], bytes]
"""`fetch(path, form)` → the answer's body: GET without a form, POST of one. Raises PrometheusError
if the server refuses the request."""


class Holding(msgspec.Struct, frozen=True, kw_only=True):
    """An expression held for these labels from one evaluation to another one, unix ms."""

    labels: dict[str, str]
    start_ms: int
    end_ms: int


class AlertRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule as Prometheus had it. `for_ms`: how long it must hold before the alert fires;
    `interval_ms`: time between two of its evaluations; `problem`: why it couldn't be evaluated,
    else empty.
    """

    name: str
    expression: str
    for_ms: int
    interval_ms: int
    problem: str = ""
    held: tuple[Holding, ...] = ()


_Shape = TypeVar("_Shape")


class _Rule(msgspec.Struct, rename={"last_error": "lastError"}):
    name: str
    query: str
    duration: float = 0.0
    health: str = ""
    last_error: str = ""


class _Group(msgspec.Struct):
    interval: float
    rules: list[_Rule]


class _Groups(msgspec.Struct):
    groups: list[_Group]


class _Rules(msgspec.Struct):
    data: _Groups


class _Series(msgspec.Struct):
    metric: dict[str, str]
    values: list[tuple[float, Any]]


class _Matrix(msgspec.Struct):
    result: list[_Series]


class _Answer(msgspec.Struct):
    data: _Matrix


def pull_rules(fetch: Fetch, start_ms: int, end_ms: int) -> list[AlertRule]:
    """Returns the loaded rules, and where each held in start_ms ≤ t ≤ end_ms.

    Raises PrometheusError for an answer that can't be read, and what `fetch` raises.
    """
    return [
        _rule(rule, group, fetch, start_ms, end_ms)
        for group in _answer(fetch(RULES_PATH, None), _Rules).data.groups
        for rule in group.rules
    ]


def _rule(rule: _Rule, group: _Group, fetch: Fetch, start_ms: int, end_ms: int) -> AlertRule:
    found = AlertRule(
        name=rule.name,
        expression=rule.query,
        for_ms=round(rule.duration * 1000),
        interval_ms=round(group.interval * 1000),
        problem=(rule.last_error or "it failed") if rule.health == "err" else "",
    )
    if found.problem:
        return found
    own_ms = min(STEP_MS, found.interval_ms // 2)
    step_ms = max(own_ms, math.ceil((end_ms - start_ms) / MOST_STEPS))
    try:
        held = tuple(_held(fetch, rule.query, start_ms, end_ms, step_ms))
    except PrometheusError as error:  # it failed earlier in the run
        return msgspec.structs.replace(found, problem=str(error))
    return msgspec.structs.replace(found, held=held)


def _held(
    fetch: Fetch, expression: str, start_ms: int, end_ms: int, step_ms: int
) -> Iterator[Holding]:
    form = {
        "query": expression,
        "start": f"{start_ms / 1000:.3f}",
        "end": f"{end_ms / 1000:.3f}",
        "step": f"{step_ms / 1000:.3f}",
    }
    for series in _answer(fetch(QUERY_PATH, form), _Answer).data.result:
        labels = {name: text for name, text in series.metric.items() if name != "__name__"}
        times = [round(at_s * 1000) for at_s, _ in series.values]
        breaks = [at for at in range(1, len(times)) if times[at] - times[at - 1] > 1.5 * step_ms]
        for first, end in zip([0, *breaks], [*breaks, len(times)], strict=True):
            if first < end:
                yield Holding(labels=labels, start_ms=times[first], end_ms=times[end - 1])


def _answer(body: bytes, shape: type[_Shape]) -> _Shape:
    try:
        return msgspec.json.decode(body, type=shape)
    except NO_JSON as error:
        raise PrometheusError(
            f"the answer about alert rules can't be read: {error}; found {body[:80]!r}"
        ) from error


def encoded(rules: Sequence[AlertRule]) -> bytes:
    """Returns the content of the file."""
    return msgspec.json.format(msgspec.json.encode(rules), indent=1)


def read_rules(run: Path | Location) -> list[AlertRule] | None:
    """Returns the rules in a run folder, None if it has none.

    Raises SamplesError, LocationError.
    """
    file = Location.of(run) / "metrics" / FILE
    if not file.exists():
        return None
    try:
        return msgspec.json.decode(file.read_bytes(), type=list[AlertRule])
    except (*NO_JSON, OSError) as error:
        raise SamplesError(f"metrics/{FILE} can't be read: {error}") from error


def due(rules: Sequence[AlertRule], limit_ms: int) -> list[tuple[AlertRule, Holding]]:
    """Returns where an alert had to fire: the rule held for its time, and for the limit beyond it,
    or for three evaluations if those take longer.
    """
    return [
        (rule, holding)
        for rule in rules
        for holding in rule.held
        if not rule.problem and holding.end_ms - holding.start_ms >= _latest_ms(rule, limit_ms)
    ]


def fired(rule: AlertRule, holding: Holding, firing: Sequence[Alert], limit_ms: int) -> bool:
    """Returns whether one of these alerts is this one's, and came in time."""
    return any(
        alert.name == rule.name
        and holding.labels.items() <= alert.labels.items()
        and alert.start_ms <= holding.start_ms + _latest_ms(rule, limit_ms)
        and alert.end_ms >= holding.start_ms
        for alert in firing
    )


def _latest_ms(rule: AlertRule, limit_ms: int) -> int:
    return rule.for_ms + max(limit_ms, 3 * rule.interval_ms)

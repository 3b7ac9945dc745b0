"""Alert rules asked of a real Prometheus; needs no Spark, but stands beside its other tests."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.spark.metrics.real_prometheus import (
    Target,
    labels,
    prometheus,
    value,
    wait_until,
)
from zonequake_analysis.metrics.alert_rules import (
    FILE,
    Fetch,
    due,
    encoded,
    fired,
    pull_rules,
    read_rules,
)
from zonequake_analysis.metrics.counters import Alert

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

LIMIT_MS = 1_500
ALWAYS = "last_over_time(made_total[1h]) >= 0"  # also beside a scrape that took too long
RULES: list[dict[str, object]] = [
    {"alert": "Held", "expr": ALWAYS, "for": "1s", "labels": {"severity": "page"}},
    {"alert": "NeverHeld", "expr": "made_total < 0"},
    {"alert": "HeldTooShort", "expr": ALWAYS, "for": "1h"},
    {"alert": "DippedEachFiveSeconds", "expr": "vector(time() % 5) < 4", "for": "3s"},
    {"alert": "Broken", "expr": "up + on() up > 0"},
]


def test_rules_are_told_with_where_they_held_and_the_alert_that_came_of_it(tmp_path: Path) -> None:
    one, other = Target(1), Target(1)
    start_ms = int(time.time()) // 5 * 5_000 + 1_000  # where DippedEachFiveSeconds holds
    with prometheus(tmp_path, [one.port, other.port], RULES) as url:
        firing = 'ALERTS{alertname="Held", alertstate="firing"}'
        wait_until(lambda: value(url, firing) == [1.0, 1.0], "both alerts fire")
        wait_until(lambda: 'health":"err' in _text(url), "the broken rule was evaluated")
        wait_until(lambda: time.time() * 1000 > start_ms + 15_000, "three dips")
        rules = pull_rules(_fetch(url), start_ms, int(time.time() * 1000))
        alerts = [
            Alert(name="Held", state="firing", labels=own, start_ms=start_ms, end_ms=2**60)
            for own in labels(url, firing)
        ]
    for target in (one, other):
        target.close()
    by_name = {rule.name: rule for rule in rules}
    assert [*by_name] == [str(rule["alert"]) for rule in RULES]
    held = by_name["Held"]
    assert (held.expression, held.for_ms, held.interval_ms) == (ALWAYS, 1_000, 500)
    assert {h.labels["instance"] for h in held.held} == {
        f"127.0.0.1:{port}" for port in (one.port, other.port)
    }
    assert by_name["NeverHeld"].held == ()
    assert len(by_name["DippedEachFiveSeconds"].held) >= 3
    assert "many-to-many" in by_name["Broken"].problem
    wanted = due(rules, LIMIT_MS)
    assert [rule.name for rule, _ in wanted] == ["Held", "Held"]
    assert all(fired(*one, alerts, LIMIT_MS) for one in wanted)
    assert not any(fired(*one, alerts[:0], LIMIT_MS) for one in wanted)
    assert sum(fired(*one, alerts[:1], LIMIT_MS) for one in wanted) == 1, "one of them is silent"
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics" / FILE).write_bytes(encoded(rules))
    assert read_rules(tmp_path) == rules


def _fetch(url: str) -> Fetch:
    def fetch(path: str, form: Mapping[str, str] | None) -> bytes:
        body = None if form is None else urlencode(form).encode()
        with urllib.request.urlopen(url + path, body, timeout=60) as answer:
            return bytes(answer.read())

    return fetch


def _text(url: str) -> str:
    with urllib.request.urlopen(f"{url}/api/v1/rules", timeout=60) as answer:
        return str(answer.read().decode())

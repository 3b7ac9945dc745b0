from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
import yaml

from tests.chart.conftest import Document, One, Render

pytestmark = pytest.mark.chart

ROOT = Path(__file__).resolve().parents[2]
FILES = ROOT / "charts" / "zonequake" / "files"
ALERTS = FILES / "alerts.yml"
ALERT_TESTS = Path(__file__).with_name("alerts_test.yml")
OF_A_DAY = Path(__file__).with_name("alerts_of_a_day_test.yml")
PARTS = {
    "operator": ROOT / "operator" / "zonequake_operator" / "controller" / "metrics.py",
    "store": ROOT / "workloads" / "zonequake_store" / "serving" / "metrics.py",
}


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("promtool")
    assert program, "promtool is missing: run scripts/setup.sh"
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False)


def rules() -> list[Document]:
    return [
        rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]
    ]


def panels() -> list[Document]:
    return cast("list[Document]", json.loads((FILES / "dashboard.json").read_text())["panels"])


def test_the_alerts_fire_when_they_must_and_not_before() -> None:
    done = promtool("test", "rules", str(ALERT_TESTS), str(OF_A_DAY))
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_alert_that_fires_wrongly_is_noticed(tmp_path: Path) -> None:
    spoilt = ALERTS.read_text().replace("for: 15s", "for: 0s", 1)
    (tmp_path / "alerts.yml").write_text(spoilt)
    tests = ALERT_TESTS.read_text().replace("../../charts/zonequake/files/alerts.yml", "alerts.yml")
    (tmp_path / "alerts_test.yml").write_text(tests)
    assert promtool("test", "rules", str(tmp_path / "alerts_test.yml")).returncode != 0


def test_every_alert_is_shown_firing_and_at_rest() -> None:
    cases = [
        case
        for path in (ALERT_TESTS, OF_A_DAY)
        for test in yaml.safe_load(path.read_text())["tests"]
        for case in test["alert_rule_test"]
    ]
    names = {rule["alert"] for rule in rules()}
    assert {case["alertname"] for case in cases if case["exp_alerts"]} == names
    assert {case["alertname"] for case in cases if not case["exp_alerts"]} == names


def test_every_alert_says_how_bad_it_is_and_what_to_do() -> None:
    for rule in rules():
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}, rule["alert"]
        assert set(rule["annotations"]) == {"summary", "description"}, rule["alert"]
        assert re.fullmatch(r"Zonequake[A-Z]\w+", rule["alert"])


def expressions() -> Iterator[str]:
    for rule in rules():
        yield rule["expr"]
    for panel in panels():
        for target in panel["targets"]:
            yield target["expr"]


def test_alerts_and_panels_name_only_metrics_that_exist() -> None:
    words = {part: set(re.findall(r'"(\w+)"', path.read_text())) for part, path in PARTS.items()}
    named = {
        (part, name)
        for expression in expressions()
        for part, name in re.findall(r"zonequake_(operator|store)_(\w+)", expression)
    }
    assert len(named) > 20
    for part, name in sorted(named):
        stem = re.sub(r"_(total|bucket)$", "", name)
        known = {stem, f"zonequake_{part}_{stem}"}
        assert known & words[part], f"zonequake_{part}_{name}"


def test_every_panel_asks_what_prometheus_understands(tmp_path: Path) -> None:
    records = [
        {
            "record": f"panel:{number}",
            "expr": expression.replace("$zone", "z").replace("$namespace", "n"),
        }
        for number, expression in enumerate(expressions())
    ]
    (tmp_path / "panels.yml").write_text(
        yaml.safe_dump({"groups": [{"name": "panels", "rules": records}]})
    )
    done = promtool("check", "rules", str(tmp_path / "panels.yml"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_panels_do_not_lie_over_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells


def test_the_releases_own_prometheus_and_the_prometheus_operator_get_the_same_alerts(
    render: Render, one: One, tmp_path: Path
) -> None:
    documents = render(sets=["monitoring.enabled=true"], apis=["monitoring.coreos.com/v1"])
    own = one(documents, "ConfigMap", "zq-prometheus")["data"]
    theirs = one(documents, "PrometheusRule", "zq")["spec"]
    assert yaml.safe_load(own["alerts.yml"]) == theirs
    assert yaml.safe_load(own["prometheus.yml"])["rule_files"] == ["/etc/prometheus/alerts.yml"]
    without = render(
        sets=["monitoring.enabled=true", "monitoring.alerts=false"],
        apis=["monitoring.coreos.com/v1"],
    )
    assert "PrometheusRule" not in {d["kind"] for d in without}


def test_the_dashboard_is_a_config_map_that_grafana_finds(render: Render, one: One) -> None:
    documents = render(sets=["monitoring.dashboard.enabled=true"])
    found = one(documents, "ConfigMap", "zq-dashboard")
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(found["data"]["zonequake.json"])["title"] == "zonequake"
    assert len(found["data"]["zonequake.json"]) < 900_000
    assert "zq-dashboard" not in {d["metadata"]["name"] for d in render()}

"""A run's metrics and alert rules, asked through the API server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs

import pytest

from zonequake_analysis.metrics.alert_rules import FILE, AlertRule, Holding, read_rules
from zonequake_chaos.runner.prometheus import pull_metrics
from zonequake_kube.client import Kube
from zonequake_kube.errors import ClusterError

RULES = [
    {"name": "Held", "query": "lost > 0", "duration": 15, "labels": {}, "health": "ok"},
    {"name": "Clashed", "query": "lost + on() lost", "duration": 0, "labels": {}, "health": "ok"},
]


class Proxy:
    """Answers as the API server does for a Prometheus without samples, but with rules."""

    def __init__(self, refuses: int = 0, cuts: int = 0) -> None:
        self.refuses = refuses
        self.cuts = cuts

    async def service_proxy(
        self, service: str, port: int, path: str, *, method: str, body: bytes | None, **_: Any
    ) -> bytes:
        assert (service, port) == ("zq-prometheus", 9090)
        if self.cuts:
            self.cuts -= 1
            raise ClusterError(f"{method} {path}: the answer ended in the middle")
        if path.startswith("/api/v1/rules"):
            assert (method, body) == ("GET", None)
            if self.refuses:
                raise ClusterError(f"GET {path}: {self.refuses}", status=self.refuses)
            return _data({"groups": [{"name": "g", "interval": 15, "rules": RULES}]})
        assert method == "POST"
        assert body is not None
        if path == "/api/v1/query_range":
            return self._range(parse_qs(body.decode()))
        assert path == "/api/v1/series"
        return _data([])

    def _range(self, form: Mapping[str, list[str]]) -> bytes:
        assert (form["start"], form["end"], form["step"]) == (["10.000"], ["200.000"], ["5.000"])
        if form["query"] == ["lost + on() lost"]:
            raise ClusterError("POST: 422", status=422, words="many-to-many matching")
        values = [[at_s, "1"] for at_s in (10, 15, 20, 120, 125)]
        return _data({"result": [{"metric": {"__name__": "lost", "zone": "z"}, "values": values}]})


def _data(data: object) -> bytes:
    return json.dumps({"status": "success", "data": data}).encode()


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zonequake_chaos.runner.prometheus._PAUSE_S", 0.0)


async def pulled(proxy: Proxy, folder: Path) -> list[str]:
    (folder / "metrics").mkdir()
    return await pull_metrics(
        cast("Kube", proxy), "zq-prometheus", folder / "metrics", start_ms=10_000, end_ms=200_000
    )


async def test_rules_stand_in_the_run_folder_with_where_they_held(tmp_path: Path) -> None:
    assert await pulled(Proxy(), tmp_path) == []
    zone = {"zone": "z"}
    held = (
        Holding(labels=zone, start_ms=10_000, end_ms=20_000),
        Holding(labels=zone, start_ms=120_000, end_ms=125_000),
    )
    assert read_rules(tmp_path) == [
        AlertRule(name="Held", expression="lost > 0", for_ms=15_000, interval_ms=15_000, held=held),
        AlertRule(
            name="Clashed",
            expression="lost + on() lost",
            for_ms=0,
            interval_ms=15_000,
            problem="many-to-many matching",
        ),
    ]


@pytest.mark.parametrize("status", [403, 503])
async def test_a_release_without_the_right_to_ask_for_rules_is_a_problem_in_words(
    status: int, tmp_path: Path
) -> None:
    (problem,) = await pulled(Proxy(refuses=status), tmp_path)
    assert problem == f"metrics: GET /api/v1/rules?type=alert: {status}"
    assert read_rules(tmp_path) is None
    assert not (tmp_path / "metrics" / FILE).exists()
    assert (tmp_path / "metrics" / "prometheus.parquet").exists(), "the samples are there"


async def test_an_answer_that_is_cut_short_is_asked_for_again(tmp_path: Path) -> None:
    assert await pulled(Proxy(cuts=2), tmp_path) == []
    assert read_rules(tmp_path) is not None

"""What the chart gives to people: roles, a reachability test, printer columns."""

from __future__ import annotations

import http.server
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest

from tests.chart.conftest import Document, One, Render

pytestmark = pytest.mark.chart

ROOT = Path(__file__).resolve().parents[2]
READING = {"get", "list", "watch"}


def rules_of(documents: list[Document], name: str, one: One) -> list[Document]:
    return cast("list[Document]", one(documents, "Role", name)["rules"])


def test_a_viewer_changes_nothing_and_reaches_into_no_pod(render: Render, one: One) -> None:
    rules = rules_of(render(), "zq-viewer", one)
    assert {verb for rule in rules for verb in rule["verbs"]} <= READING
    resources = {resource for rule in rules for resource in rule["resources"]}
    assert not resources & {"pods/proxy", "pods/exec", "secrets"}
    assert {"distributionzones", "partitions", "logicaltopologies", "tables"} <= resources


def test_an_editor_writes_zones_and_tables_and_never_what_the_operator_decides(
    render: Render, one: One
) -> None:
    rules = rules_of(render(), "zq-editor", one)
    resources = {resource for rule in rules for resource in rule["resources"]}
    assert resources == {"distributionzones", "tables"}


def test_roles_are_not_bound_and_can_be_left_out(render: Render) -> None:
    bound = {d["roleRef"]["name"] for d in render() if d["kind"] == "RoleBinding"}
    assert not bound & {"zq-viewer", "zq-editor", "zq-node-reports", "zq-kv"}
    left = {d["metadata"]["name"] for d in render(sets=["roles.create=false"])}
    assert not left & {"zq-viewer", "zq-editor", "zq-node-reports", "zq-kv"}


def test_data_nodes_are_spread_over_zones_and_machines_as_told(render: Render, one: One) -> None:
    def spread(*sets: str) -> list[tuple[str, str]]:
        pod = one(render(sets=sets), "StatefulSet", "zq-default")["spec"]["template"]["spec"]
        return [
            (c["topologyKey"], c["whenUnsatisfiable"])
            for c in pod.get("topologySpreadConstraints", [])
        ]

    assert spread() == [
        ("topology.kubernetes.io/zone", "ScheduleAnyway"),
        ("kubernetes.io/hostname", "ScheduleAnyway"),
    ]
    strict = "store.spread[0].topologyKey=rack,store.spread[0].whenUnsatisfiable=DoNotSchedule"
    assert spread(strict) == [("rack", "DoNotSchedule")]
    assert spread("store.spread=null") == []


def test_every_resource_has_columns_a_short_name_and_a_category(render: Render) -> None:
    definitions = [d["spec"] for d in render() if d["kind"] == "CustomResourceDefinition"]
    assert len(definitions) == 4
    for spec in definitions:
        assert spec["names"]["shortNames"]
        assert spec["names"]["categories"] == ["zonequake"]
        (version,) = spec["versions"]
        columns = [c["name"] for c in version["additionalPrinterColumns"]]
        assert columns[-1] == "Age"
        shown = [c for c in version["additionalPrinterColumns"] if not c.get("priority")]
        assert len(shown) <= 10, "more than a terminal holds"


class Answers(http.server.BaseHTTPRequestHandler):
    """/good works, anything else doesn't."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/good" else 503)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing on the test's output."""


@contextmanager
def served() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(("path", "code"), [("/good", 0), ("/bad", 1)])
def test_the_reachability_test_fails_where_a_part_does_not_work(
    tmp_path: Path, path: str, code: int
) -> None:
    program = (ROOT / "charts" / "zonequake" / "files" / "reachable.py").read_text()
    if code:  # what works may take its time
        program = program.replace("LIMIT_S = 60.0", "LIMIT_S = 0.1")
    with served() as url:
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={
                **os.environ,
                "ZQ_TEST_STORE": "nowhere",
                "ZQ_TEST_NODES": "",
                "ZQ_TEST_URLS": f"{url}{path}",
            },
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == code, done.stdout + done.stderr


def test_the_reachability_test_asks_every_part_by_its_name(render: Render, one: One) -> None:
    pod = one(render(values=[ROOT / "charts/zonequake/ci/pools-values.yaml"]), "Pod", "zq-test")
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    environment = {e["name"]: e["value"] for e in pod["spec"]["containers"][0]["env"]}
    assert environment["ZQ_TEST_NODES"] == "zq-fast-0 zq-fast-1 zq-fast-2 zq-slow-0"
    assert "http://zq-operator.zonequake.svc:8080/healthz" in environment["ZQ_TEST_URLS"]
    program = pod["spec"]["containers"][0]["args"][-1]
    compile(program, "reachable.py", "exec")

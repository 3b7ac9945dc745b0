"""Porcupine's published example histories of an etcd under Jepsen, judged as Porcupine judges them.

Their values are 0 to 4, so that each of them is written again and again.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.foreign.porcupine_judge import Judge
from zonequake_analysis.checks.repeated_values import step_of
from zonequake_analysis.checks.search.order_search import Answer, search
from zonequake_analysis.checks.search.register_step import Step
from zonequake_analysis.importing.command import Source, import_history
from zonequake_analysis.importing.operations import Choices
from zonequake_analysis.inputs.shapes import NEVER_NS, Function
from zonequake_cluster.supply.toolchain import find_go

pytestmark = pytest.mark.timeout(600)

_MODULE = "github.com/anishathalye/porcupine"
_SOURCES = Path(__file__).parent / "porcupine"


@pytest.fixture
def examples(porcupine: Judge) -> Path:
    """The folder of Porcupine's sources; a judge that was built before has left none here."""
    brought = subprocess.run(
        [find_go(print), "mod", "download", "-json", _MODULE],
        cwd=_SOURCES,
        capture_output=True,
        text=True,
        check=True,
    )
    return Path(json.loads(brought.stdout)["Dir"])


def imported_steps(log: Path, run: Path) -> list[Step]:
    """The operations of a log that may have taken effect, after the import."""
    import_history(Source.JEPSEN, [log], run, Choices())
    lines = [json.loads(line) for line in (run / "history/imported.jsonl").read_text().splitlines()]
    ends = {line["op"]: line for line in lines if line["type"] != "invoke"}
    found = []
    for asked in (line for line in lines if line["type"] == "invoke"):
        end = ends.get(asked["op"], asked)
        f, ok = Function[asked["f"].upper()], end["type"] == "ok"
        if end["type"] == "fail" or (f is Function.READ and not ok):
            continue
        finish = end["time"] if ok else NEVER_NS
        value, expected = end["value"], asked["expected"]
        found.append(step_of(f, ok, asked["inv"], finish, value, expected, None, ok))
    return found


def test_the_search_says_of_each_example_what_porcupine_says(
    examples: Path, tmp_path: Path
) -> None:
    tests = (examples / "porcupine_test.go").read_text()
    expected = {
        int(number): legal == "true"
        for number, legal in re.findall(r"checkJepsen\(t, (\d+), (true|false)\)", tests)
    }
    assert len(expected) > 100
    assert 10 < sum(expected.values()) < 90
    for number, legal in expected.items():
        log = examples / f"test_data/jepsen/etcd_{number:03}.log"
        found = search(imported_steps(log, tmp_path / f"run-{number}"))
        assert found.answer is (Answer.ORDER if legal else Answer.NO_ORDER), log.name

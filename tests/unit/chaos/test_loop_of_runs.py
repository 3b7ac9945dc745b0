"""The loop that makes the runs of a list: what it runs, keeps, writes, and leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from benchmarks.evidence_ignite import evidence
from benchmarks.record import record
from benchmarks.record.entries import first_of as first_of_record
from benchmarks.record.loop import Given, Work, asked, run_all
from benchmarks.record.runs import read_lines
from tests.unit.chaos.test_record_of_faults import ENTRY, run
from zonequake_kube.errors import ChaosError


class Row(msgspec.Struct, frozen=True):
    name: str
    runs: int = 2


class Done(msgspec.Struct, frozen=True):
    name: str
    seed: int
    verdict: str = "passed"
    headline: str = "all is well"


@dataclass(kw_only=True)
class List:
    """A list whose runs take a second; those in `broken` can't be judged, `refused` not be run."""

    results: Path
    goes_on: bool = True
    broken: set[tuple[str, int]] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)
    did: list[str] = field(default_factory=list)
    now_s: float = 0.0

    def first(self, rows: Sequence[Row]) -> tuple[Row, int] | None:
        done = read_lines(self.results, Done)
        for row in rows:
            made = {one.seed for one in done if one.name == row.name}
            for seed in range(1, row.runs + 1):
                if seed not in made:
                    return row, seed
        return None

    def run_one(self, row: Row, seed: int) -> Done:
        self.now_s += 1.0
        if (row.name, seed) in self.broken:
            raise ChaosError("no node")
        self.did.append(f"{row.name} {seed}")
        return Done(name=row.name, seed=seed)

    def written(self, row: Row) -> None:
        kept = len(read_lines(self.results, Done))
        self.did.append(f"page of {row.name} with {kept}")

    def play(self, *rows: Row, **words: object) -> bool:
        work = Work(
            results=self.results,
            obstacle=lambda row: self.refused.get(row.name),
            first=self.first,
            begin=lambda: self.did.append("begin"),
            run_one=self.run_one,
            write=self.written,
            label=lambda seed: f"seed {seed}",
            goes_on=self.goes_on,
        )
        given = msgspec.convert({"names": [], "seconds": 1e9, "page": False} | words, Given)
        return run_all(work, rows, given, lambda: self.now_s)


@pytest.fixture
def runs(tmp_path: Path) -> List:
    return List(results=tmp_path / "results.jsonl")


def test_each_run_is_kept_before_its_page_is_written_and_the_cluster_begins_once(
    runs: List, capsys: pytest.CaptureFixture[str]
) -> None:
    assert runs.play(Row("a"), Row("b", 1)) is False
    assert runs.did[:3] == ["begin", "a 1", "page of a with 1"]
    assert runs.did[3:] == ["a 2", "page of a with 2", "b 1", "page of b with 3"]
    assert "a, seed 2: passed: all is well" in capsys.readouterr().out


def test_what_was_kept_is_not_run_again_and_nothing_begins(runs: List) -> None:
    assert runs.play(Row("a")) is False
    runs.did.clear()
    assert runs.play(Row("a")) is False
    assert runs.did == []


def test_no_run_begins_when_time_is_over_and_something_is_left(runs: List) -> None:
    assert runs.play(Row("a", 5), seconds=2.0) is True
    assert [each for each in runs.did if each[:2] == "a "] == ["a 1", "a 2"]


def test_only_the_page_is_wanted_so_that_nothing_is_run(runs: List) -> None:
    assert runs.play(Row("a"), page=True) is True
    assert runs.did == []


def test_only_the_rows_that_are_named_are_run(runs: List) -> None:
    runs.refused = {"a": "no such fault"}
    assert runs.play(Row("a"), Row("b", 1), names=["b"]) is False
    assert runs.did == ["begin", "b 1", "page of b with 1"]


def test_a_row_that_cannot_be_run_is_told_and_left(
    runs: List, capsys: pytest.CaptureFixture[str]
) -> None:
    runs.refused = {"a": "no such fault"}
    assert runs.play(Row("a"), Row("b", 1)) is True
    assert runs.did == ["begin", "b 1", "page of b with 1"]
    assert "a can't be run: no such fault" in capsys.readouterr().out


def test_a_row_whose_run_could_not_be_judged_is_left_and_the_next_is_run(
    runs: List, capsys: pytest.CaptureFixture[str]
) -> None:
    runs.broken = {("a", 2)}
    assert runs.play(Row("a", 3), Row("b", 1)) is True
    assert runs.did[1:] == ["a 1", "page of a with 1", "b 1", "page of b with 2"]
    assert "a is left: no node" in capsys.readouterr().out


def test_where_it_does_not_go_on_such_a_run_ends_it(runs: List) -> None:
    runs.goes_on, runs.broken = False, {("a", 1)}
    with pytest.raises(ChaosError, match="no node"):
        runs.play(Row("a"), Row("b"))


def test_a_name_of_no_row_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert asked(["a", "--seconds", "5"], "About.\n", [Row("a")], Path("list.yaml")) == Given(
        names=["a"], seconds=5.0, page=False
    )
    with pytest.raises(SystemExit):
        asked(["z"], "About.\n", [Row("a")], Path("list.yaml"))
    assert "found ['z'], expected names of list.yaml" in capsys.readouterr().err


def test_the_record_makes_all_runs_of_an_entry_before_the_next() -> None:
    other = msgspec.structs.replace(ENTRY, name="etcd-2")
    first = first_of_record([ENTRY, other], [run(1)])
    assert first is not None
    assert (first[0].name, first[1].seed) == ("etcd-1", 2)
    assert first_of_record([], []) is None


def test_both_lists_only_write_their_pages_if_they_are_asked_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["it", "--page"])
    for module in (record, evidence):
        monkeypatch.setattr(module, "RESULTS", tmp_path / "none.jsonl")
        monkeypatch.setattr(module, "zonequake", lambda *_: pytest.fail("a cluster was started"))
        written: list[object] = []
        monkeypatch.setattr(module, "write_page", lambda *words, to=written: to.append(words))
        assert module.main() == 2
        assert len(written) == 1

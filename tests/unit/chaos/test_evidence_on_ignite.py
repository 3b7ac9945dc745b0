"""The evidence on Ignite: what is left to run, what is kept, and what the page says."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Set
from pathlib import Path
from typing import Any, cast
from xml.etree import ElementTree

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.evidence_ignite import evidence
from benchmarks.evidence_ignite.altering import alter, statement, took_effect
from benchmarks.evidence_ignite.page import NONE_RUN, page
from benchmarks.evidence_ignite.picture import (
    CERTAIN,
    POSSIBLE,
    Latency,
    Seen,
    Window,
    picture,
)
from benchmarks.evidence_ignite.rows import (
    Bad,
    Done,
    Next,
    Row,
    System,
    done_of,
    first_of,
    next_run,
    read_rows,
)
from benchmarks.evidence_ignite.rules_table import NOT_RUN
from benchmarks.evidence_ignite.seen import seen
from benchmarks.record import record
from benchmarks.record.entries import read_done, read_entries
from benchmarks.record.page import witnesses
from benchmarks.record.runs import EVIDENCE, Asked, keep, read_lines
from zonequake_kube.client import Kube

IGNITE, OURS, CONTROL = System
ROW = Row(name="kill", asks="a kill", rule="rebalance", scenario="leader-kill", runs=2)
SVG = "{http://www.w3.org/2000/svg}"
WITNESS = "lost: 0/0 key r1\n  written and gone"


def run(
    seed: int, system: System = IGNITE, verdict: str = "passed", *, certain_ms: float = 1500.0
) -> Done:
    lost = Bad(check="lost-writes", summary="3 acknowledged writes are lost", witness=WITNESS)
    return Done(
        name="kill",
        system=system,
        version="ignite 3.1.0",
        seed=seed,
        verdict=verdict,
        headline="",
        violated=[lost] if verdict == "violated" else [],
        certain_ms=certain_ms,
        p99_ms=20.0,
    )


def test_each_seed_is_run_on_both_systems_before_the_next() -> None:
    assert next_run(ROW, []) == Next(system=IGNITE, seed=1)
    assert next_run(ROW, [run(1)]) == Next(system=OURS, seed=1)
    assert next_run(ROW, [run(1), run(1, OURS)]) == Next(system=IGNITE, seed=2)
    done = [run(1), run(1, OURS), run(2), run(2, OURS)]
    assert next_run(ROW, done) is None
    alone = msgspec.structs.replace(ROW, with_ours=False)
    assert next_run(alone, [run(1), run(2)]) is None


def test_a_control_has_as_many_runs_as_its_row_says_after_those_of_the_systems() -> None:
    row = msgspec.structs.replace(ROW, control=1)
    first = [run(1), run(1, OURS)]
    assert next_run(row, first) == Next(system=CONTROL, seed=1)
    assert next_run(row, [*first, run(1, CONTROL)]) == Next(system=IGNITE, seed=2)
    assert next_run(row, [*first, run(1, CONTROL), run(2), run(2, OURS)]) is None
    assert row.given(CONTROL) == row.given(IGNITE)


def test_the_control_stands_below_the_table_and_only_where_there_is_one() -> None:
    row = msgspec.structs.replace(ROW, control=2)
    done = [run(1), run(1, OURS), run(2), run(2, OURS)]
    assert "The control" not in page([ROW], done)
    assert f"- `kill`: {NOT_RUN}" in page([row], done)
    assert "Not all runs of kill" in page([row], done)
    text = page([row], [*done, run(1, CONTROL), run(2, CONTROL, "violated")])
    assert (
        "- `kill`, seeds 1, 2: 1 passed; 1 violated; by `lost-writes` (1); writes: – of –" in text
    )
    assert "- `kill`, the control, `lost-writes`: 1 of 2 runs, seeds 2." in text
    assert "Not all" not in text


def test_the_control_is_run_as_ignite_with_its_own_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Asked] = []
    document = {"verdict": "passed", "headline": "", "checks": [], "numbers": {}, "run": {}}

    def judged(wanted: Asked, _beside: object) -> tuple[dict[str, Any], float]:
        asked.append(wanted)
        return document, 1.0

    monkeypatch.setattr(evidence, "judged", judged)
    monkeypatch.setattr(evidence, "_control_image", lambda: "changed")
    monkeypatch.setattr(evidence, "RUNS", tmp_path)
    for system in System:
        evidence.run_one(ROW, Next(system=system, seed=1))
    assert [(one.target, one.image) for one in asked] == [
        ("ignite", ""),
        ("zonequake", ""),
        ("ignite", "changed"),
    ]
    assert len({one.out for one in asked}) == 3


def test_each_row_is_run_with_one_seed_before_any_with_the_next() -> None:
    other = msgspec.structs.replace(ROW, name="pause")
    rows = [ROW, other]
    done = [run(1), run(1, OURS)]
    assert first_of(rows, []) == (ROW, Next(system=IGNITE, seed=1))
    assert first_of(rows, done) == (other, Next(system=IGNITE, seed=1))
    done += [msgspec.structs.replace(one, name="pause") for one in done]
    assert first_of(rows, done) == (ROW, Next(system=IGNITE, seed=2))
    assert first_of([], done) is None


def test_a_run_that_was_kept_is_not_made_again(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    keep(run(1), file)
    with file.open("ab") as torn:
        torn.write(b'{"name":"kill","sys')
    assert next_run(ROW, read_lines(file, Done)) == Next(system=OURS, seed=1)
    keep(run(1, OURS), file)
    assert next_run(ROW, read_lines(file, Done)) == Next(system=IGNITE, seed=2)


def test_a_page_without_runs_says_so_plainly() -> None:
    text = page([ROW], [])
    assert NONE_RUN in text
    (line,) = [each for each in text.splitlines() if "a kill" in each]
    assert line.count(NOT_RUN) == 2
    assert "passed" not in text


def test_the_page_counts_runs_and_tells_the_longest_window_of_both() -> None:
    done = [run(1), run(2, verdict="violated", certain_ms=6200.0), run(1, OURS, certain_ms=310.0)]
    text = page([ROW], done)
    assert NONE_RUN not in text
    assert "Not all runs of kill have been made yet." in text
    (line,) = [each for each in text.splitlines() if "a kill" in each]
    assert "1 passed; 1 violated; by `lost-writes` (1) | – of – | 6.20 s | 20 ms" in line
    assert "1 passed; 1 of 2 runs | – of – | 0.31 s" in line
    assert "1 of 2 runs, seeds 2. Seed 2: 3 acknowledged writes are lost" in text
    assert "written and gone" in text
    assert "Not all" not in page([ROW], [*done, run(2, OURS)])


def test_the_page_tells_on_how_many_writes_a_verdict_is_and_findings_below_the_table() -> None:
    row = msgspec.structs.replace(ROW, finding="Ignite's: a write is gone")
    counts = [run(1), run(2)]
    done = [
        msgspec.structs.replace(one, acknowledged=n, judged=9)
        for one, n in zip(counts, (1_200, 90), strict=True)
    ]
    text = page([row], done)
    (line,) = [each for each in text.splitlines() if "a kill" in each]
    assert "2 passed | 9 of 90 to 1,200 |" in line
    assert line.endswith("| [below](#findings) |")
    assert "## Findings" in text
    assert "- `kill`: Ignite's: a write is gone" in text
    assert "## Findings" not in page([ROW], done)


def test_the_page_shows_the_pictures_that_are_there() -> None:
    assert "![kill: Ignite and our store](kill.svg)" in page([ROW], [run(1)], {"kill": "kill.svg"})
    assert "on one axis" not in page([ROW], [run(1)])


def test_a_picture_has_both_systems_on_one_axis_of_time() -> None:
    windows = [
        Window(partition=0, function="write", start_s=-60.0, end_s=-50.0, is_certain=True),
        Window(partition=0, function="write", start_s=0.5, end_s=80.5, is_certain=True),
        Window(partition=1, function="read", start_s=1.0, end_s=2.0, is_certain=False),
    ]
    latencies = [Latency(second=second, p50_ms=2.0, p99_ms=20.0) for second in (0, 1, 2, 7, 9)]
    slow = Seen(faults=[0.0, 40.0], windows=windows, latencies=latencies)
    quick = Seen(faults=[0.0, 5.0], windows=[], latencies=[])
    root = ElementTree.fromstring(picture("kill <all>", {"Ignite": slow, "ours": quick}))
    texts = [each.text for each in root.iter(f"{SVG}text")]
    assert "Ignite: kill <all>" in texts
    assert texts.count("0 write") == texts.count("1 read") == 2
    of_windows = [each.attrib for each in root.iter(f"{SVG}rect") if each.get("height") == "7"]
    assert [each["fill"] for each in of_windows] == [CERTAIN, POSSIBLE]  # none before the picture
    long_px, short_px = (float(each["width"]) for each in of_windows)
    assert long_px == pytest.approx(80 * short_px, rel=0.05)
    begun = [each.get("x1") for each in root.iter(f"{SVG}line") if each.get("stroke-dasharray")]
    assert begun[0] == begun[2]
    parts = [each.attrib["points"].split() for each in root.iter(f"{SVG}polyline")]
    assert [len(part) for part in parts] == [3, 2, 2] * 2  # no line over seconds without answers


def test_a_picture_is_drawn_of_the_tables_of_a_run(tmp_path: Path) -> None:
    second = 10**9
    tables: dict[str, list[dict[str, Any]]] = {
        "events": [
            {"kind": "phase", "at_ns": 4 * second},
            {"kind": "fault.start", "at_ns": 7 * second},
            {"kind": "fault.start", "at_ns": 5 * second},
        ],
        "windows": [
            {
                "partition": 3,
                "function": "read",
                "start_ns": 6 * second,
                "end_ns": 8 * second,
                "certain_ns": 0,
            }
        ],
        "ops": [operation(), *map(operation, ("role", "outcome", "copy", "step"))],
    }
    assert seen(tmp_path) is None
    for name, rows in tables.items():
        (tmp_path / "tables" / name).mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / "tables" / name / "part.parquet")
    assert seen(tmp_path) == Seen(
        faults=[0.0, 2.0],
        windows=[Window(partition=3, function="read", start_s=1.0, end_s=3.0, is_certain=False)],
        latencies=[Latency(second=1, p50_ms=20.0, p99_ms=20.0)],
    )


def operation(other: str = "") -> dict[str, Any]:
    """Returns an answered operation of the load, due in the second after 6 s; or one that is not,
    by one column."""
    sched = 6_500_000_000
    row = {"role": 0, "outcome": 0, "copy": False, "step": 0, "sched": sched}
    fin = sched + (20_000_000 if not other else 90_000_000)
    return row | {"fin": fin} | ({other: type(row[other])(1)} if other else {})


def test_a_run_keeps_what_it_violated_and_how_long_it_was_away() -> None:
    checks = [
        {
            "name": "lost-writes",
            "verdict": "violated",
            "summary": "s",
            "witnesses": ["w", "v"],
            "checked": 5,
        },
        {"name": "load", "verdict": "unknown", "summary": "t", "witnesses": []},
    ]
    document: dict[str, Any] = {
        "verdict": "violated",
        "headline": "h",
        "checks": checks,
        "numbers": {
            "acknowledged_writes": 70,
            "windows": 2,
            "longest_window_certain_ms": 4.5,
            "p99_during_ms": None,
        },
    }
    done = done_of(ROW, Next(system=OURS, seed=7), document, version="x", took_s=1.23)
    assert done.violated == [Bad(check="lost-writes", summary="s", witness="w")]
    assert done.others == {"load": "unknown"}
    assert (done.windows, done.certain_ms, done.p99_ms) == (2, 4.5, None)
    assert (done.acknowledged, done.judged) == (70, 5)


def test_each_row_can_be_run_on_each_of_its_systems() -> None:
    rows = read_rows(evidence.LIST.read_text())
    assert len(rows) >= 15
    assert {row.name: evidence.obstacle(row) for row in rows} == {row.name: None for row in rows}


def test_a_row_that_a_system_refuses_says_why() -> None:
    row = msgspec.structs.replace(ROW, scenario="kill-during-catchup")
    assert "ignite: " in str(evidence.obstacle(row))
    assert "catchUpBytesPerSecond" in str(evidence.obstacle(row))


def test_a_list_that_is_wrong_is_refused() -> None:
    with pytest.raises(ValueError, match="'kill' twice"):
        read_rows(msgspec.json.encode([ROW, ROW]).decode())


def test_a_zone_is_altered_once_the_fault_took_effect() -> None:
    lines = [
        '{"kind":"fault.start","data":{"fault":"grow"}}',
        '{"kind":"fault.effective","data":{"fault":"other"}}',
        '{"kind":"fault.eff',
    ]
    assert not took_effect(lines, "grow")
    assert took_effect([*lines, '{"kind":"fault.effective","data":{"fault":"grow"}}'], "grow")


def test_each_system_is_altered_in_its_own_words() -> None:
    asked: list[tuple[object, ...]] = []

    class Cluster:
        async def patch(self, *words: object) -> None:
            asked.append(words)

        async def pod_proxy(self, *words: object, body: bytes, **_: object) -> None:
            asked.append((*words, body))

    for system in System:
        asyncio.run(alter(cast("Kube", Cluster()), system, "chaos", 4))
    assert statement("chaos", 4) == 'ALTER ZONE "chaos" SET (REPLICAS 4)'
    ignite, ours, control = asked
    assert ours == ("DistributionZone", "chaos", {"spec": {"replicas": 4}})
    assert b"REPLICAS 4" in cast("bytes", ignite[-1])
    assert control == ignite


def test_the_page_in_the_repository_is_what_the_results_say() -> None:
    rows, done = read_rows(evidence.LIST.read_text()), read_lines(evidence.RESULTS, Done)
    written = evidence.PAGE.read_text()
    assert written == page(rows, done, evidence.pictures(rows), evidence.rules_of(rows))
    assert wrong_pictures(written, EVIDENCE, beside={*witnesses_of_the_record()}) == []


def wrong_pictures(written: str, folder: Path, *, beside: Set[str] = frozenset()) -> list[str]:
    """Returns the pictures that a page names and a folder lacks, and those that it has besides."""
    named = set(re.findall(r"!\[[^]]*\]\(([^)]+)\)", written))
    there = {path.name for path in folder.iterdir() if path.suffix in (".svg", ".png")} - beside
    return sorted(named ^ there)


def witnesses_of_the_record() -> dict[str, str]:
    entries = read_entries(record.LIST.read_text())
    return witnesses(entries, read_done(record.RESULTS))


def test_a_picture_that_is_missing_or_that_no_page_names_is_noticed(tmp_path: Path) -> None:
    row = msgspec.structs.replace(ROW, name="drawn")
    drawn = tmp_path / "ignite-3.1-drawn.svg"
    assert evidence.pictures([row], tmp_path) == {}
    drawn.touch()
    written = page([row], [], evidence.pictures([row], tmp_path))
    assert wrong_pictures(written, tmp_path) == []
    (tmp_path / "ignite-3.1-of-no-row.svg").touch()
    assert wrong_pictures(written, tmp_path) == ["ignite-3.1-of-no-row.svg"]
    drawn.unlink()
    assert wrong_pictures(written, tmp_path, beside={"ignite-3.1-of-no-row.svg"}) == [drawn.name]

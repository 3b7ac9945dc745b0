"""Rows of `findings` that need no single operations, and of the small tables beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.analysis.made_up_evidence import evidence, found
from zonequake_analysis.checks import sets
from zonequake_analysis.harness_report import HarnessReport
from zonequake_analysis.inputs.run_folder import Expectations, RecordedEvent
from zonequake_analysis.judgement.evidence import Evidence
from zonequake_analysis.judgement.judge import judge
from zonequake_analysis.measures.availability.probes import Island, Vantage
from zonequake_analysis.measures.availability.windows import (
    Availability,
    Unavailability,
    availability,
)
from zonequake_analysis.measures.lost_groups import LostGroup
from zonequake_analysis.measures.majorities import Unfounded
from zonequake_analysis.measures.rebalances import EarlyJoint, fault_landings, rebalances
from zonequake_analysis.measures.replica_audit import Audit, Disagreement
from zonequake_analysis.measures.resets import Reset
from zonequake_analysis.measures.sacrificed import Cut
from zonequake_analysis.metrics.spans import spans_of
from zonequake_analysis.report.witness_text import check_of
from zonequake_analysis.storage.location import Location
from zonequake_analysis.tables.check_findings import CheckFinding, check_findings, finding_rows
from zonequake_analysis.tables.kinds import NAMED, named
from zonequake_analysis.tables.rows import (
    event_rows,
    fault_rows,
    probe_rows,
    rebalance_rows,
    window_rows,
)
from zonequake_analysis.tables.schemas import FINDINGS, OF_THE_VERDICT, columns_of
from zonequake_analysis.tables.unix_time import UnixTime
from zonequake_analysis.tables.write import OfOperations, write_rows, write_tables_of_verdict
from zonequake_analysis.verdict import Verdict, verdicts_of

UNIX = UnixTime(wall_offset_ns=1_700_000_000_000_000_000)
MS = 1_000_000


def rows_of(e: Evidence) -> list[CheckFinding]:
    named_checks = {named(pair)[0] for pair, count in e.found.counts.items() if count}
    return check_findings(e, judge(e), named_checks)


def described(expectations: Expectations, **changes: object) -> object:
    plain = evidence().description
    return type(plain)(
        **{name: getattr(plain, name) for name in plain.__slots__}
        | {"expectations": expectations}
        | changes
    )


def window(partition: int, certain_ms: int, start_ns: int = 0) -> Unavailability:
    return Unavailability(
        zone="z1",
        partition=partition,
        function="write",
        start_ns=start_ns,
        end_ns=start_ns + (certain_ms + 100) * MS,
        certain_ns=certain_ms * MS,
        proven_ns=certain_ms * MS,
        failed=3,
        vantages=("a", "b"),
        total=True,
        causes=(),
    )


def probed(*windows: Unavailability) -> Availability:
    seen = Vantage(
        zone="z1",
        partition=0,
        function="write",
        vantage="a",
        probes=100,
        failed=3,
        interval_ns=100 * MS,
        first_ns=0,
        last_ns=10**10,
    )
    return Availability(
        windows=windows, vantages=(seen,), silences=(), hidden_ns=0, resolution_ns=100 * MS
    )


def test_each_window_that_is_too_long_is_a_finding_and_no_other() -> None:
    e = evidence(
        description=described(Expectations(max_window_ms=500)),
        availability=probed(window(0, 900), window(1, 400), window(2, 501, start_ns=7)),
    )
    found = [row for row in rows_of(e) if row.check == "availability"]
    assert [(row.partition, row.kind, row.at_ns, row.magnitude_ns) for row in found] == [
        (0, "too-long", 0, 900 * MS),
        (2, "too-long", 7, 501 * MS),
    ]
    (check,) = [check for check in judge(e) if check.name == "availability"]
    assert check.violations == len(found)


def test_replicas_are_findings_of_the_check_that_counts_them() -> None:
    def apart(partition: int, kind: str) -> Disagreement:
        return Disagreement(zone="z1", partition=partition, kind=kind, what=f"{kind} here")

    disagreements = tuple(
        apart(partition, kind)
        for partition, kind in enumerate(("digest", "lacks", "missing", "applied"))
    )
    beside = apart(0, "applied")
    e = evidence(
        audit=Audit(
            partitions=4, replicas=8, writes_compared=9, disagreements=(*disagreements, beside)
        )
    )
    assert [(row.check, row.kind, row.partition, row.text) for row in rows_of(e)] == [
        ("diverged", "digest", 0, "digest here"),
        ("diverged", "lacks", 1, "lacks here"),
        ("replicas", "missing", 2, "missing here"),
        ("replicas", "applied", 3, "applied here"),
    ]


def test_resets_and_what_they_took_are_findings_with_their_counts() -> None:
    reset = Reset(zone="z1", partition=2, lineage=3, survivor="n1", at_ns=50, unnamed="no link")
    cut = Cut(
        zone="z1",
        partition=2,
        lineages=[0, 3, 4],
        sacrificed={3: 17},
        restored=0,
        beside=5,
        unrecorded=[4],
        first_write_ns={},
        examples=["read of k"],
    )
    e = evidence(
        description=described(Expectations(resets=0, sacrificed_at_most=0)),
        resets=(reset,),
        cuts=(cut,),
        unfounded=(Unfounded(zone="z1", partition=1, count=9, examples=["write of k"]),),
    )
    assert [(r.check, r.kind, r.partition, r.node, r.at_ns, r.count) for r in rows_of(e)] == [
        ("resets", "against-the-rules", 2, "n1", 50, 1),
        ("resets", "unexpected", 2, "n1", 50, 1),
        ("resets", "unrecorded", 2, None, None, 1),
        ("sacrificed-writes", "sacrificed", 2, "n1", 50, 17),
        ("forbidden-availability", "without-majority", 1, None, None, 9),
        ("forbidden-availability", "older-lineage", 2, None, None, 5),
    ]


def test_sacrifices_that_are_expected_are_findings_of_a_check_that_passed() -> None:
    cut = Cut(
        zone="z1",
        partition=2,
        lineages=[0, 3],
        sacrificed={3: 17},
        restored=0,
        beside=0,
        unrecorded=[],
        first_write_ns={},
        examples=[],
    )
    e = evidence(cuts=(cut,))
    checks = judge(e)
    (row,) = finding_rows(check_findings(e, checks, set()), verdicts_of(checks), UNIX)
    assert (row["check"], row["verdict"], row["count"]) == ("sacrificed-writes", "passed", 17)


CHANGES = {
    "uncovered": 3,
    "bad_events": ("events.jsonl:3: no JSON",),
    "incomplete": ("dumps/a.jsonl",),
    "early_joints": (EarlyJoint(zone="z1", partition=1, token=7, at_ns=5, why="JOINT"),),
    "unfounded": (Unfounded(zone="z1", partition=1, count=9, examples=["write of k"]),),
    "counts": {},
    "lost_groups": (LostGroup(zone="z1", partition=3, at_ns=5, said={}, acknowledged=2),),
    "found": found({(sets.CHECK, "phantom"): 2, (sets.CHECK, "two-places"): 1}),
    "availability": probed(window(0, 900)),
    "description": described(
        Expectations(max_window_ms=500, resets=2, sacrificed_at_least=4, restored_at_least=1),
        harness=HarnessReport(verdict=Verdict.HARNESS_FAILED, problems=["no node came"]),
    ),
}


@given(st.sets(st.sampled_from(sorted(CHANGES))))
def test_every_check_that_is_not_passed_has_a_finding(names: set[str]) -> None:
    e = evidence(**{name: CHANGES[name] for name in names})
    of_operations = {named(pair)[0] for pair, count in e.found.counts.items() if count}
    checks = judge(e)
    told = of_operations | {row.check for row in check_findings(e, checks, of_operations)}
    missing = [c.name for c in checks if c.verdict is not Verdict.PASSED and c.name not in told]
    assert missing == []


def test_every_named_kind_belongs_to_a_check_of_the_verdict() -> None:
    checks = {check.name for check in judge(evidence())}
    assert {check for check, _ in NAMED.values()} <= checks
    assert named(("black-box", "never-heard-of"))[0] == "linearizability"


def test_table_and_report_name_one_check_for_a_kind() -> None:
    order_alone = ("claimed-order", "black-box")
    for (finder, kind), (check, _) in NAMED.items():
        assert check == ("linearizability" if finder in order_alone else check_of(kind))


def event(at_ns: int, kind: str, **data: object) -> RecordedEvent:
    return RecordedEvent(kind=kind, time=at_ns, zone="z1", partition=2, data=data)


def test_windows_are_numbered_by_start_and_carry_the_span_of_the_metrics() -> None:
    windows = (window(0, 100, start_ns=9 * MS), window(1, 700), window(2, 300, start_ns=4 * MS))
    spans = spans_of(
        faults=(),
        windows=windows,
        events=(),
        start_ns=0,
        end_ns=10**10,
        wall_offset_ns=UNIX.wall_offset_ns,
        scrape_ms=1000,
    )
    rows = window_rows(windows, spans, UNIX)
    assert [(row["number"], row["partition"], row["span"]) for row in rows] == [
        (1, 1, 0),
        (2, 2, 1),
        (3, 0, 2),
    ]
    names = {span.number: span.name for span in spans.spans}
    assert [names[row["span"]] for row in rows] == [f"z1/{p} write" for p in (1, 2, 0)]  # type: ignore[index]
    assert rows[2]["start_ms"] == UNIX.wall_offset_ns // MS + 9
    assert [row["span"] for row in window_rows(windows, None, UNIX)] == [None] * 3


def test_a_fault_carries_the_spans_of_all_times_that_it_began() -> None:
    events = [
        event(at_s * 1000 * MS, kind, fault=name, type="pod_kill")
        for at_s, kind, name in (
            (1, "fault.start", "often"),
            (2, "fault.start", "once"),
            (3, "fault.recovered", "often"),
            (4, "fault.start", "often"),
            (5, "fault.missed", "never"),
        )
    ]
    faults = fault_landings(events)
    spans = spans_of(
        faults=faults,
        windows=(),
        events=events,
        start_ns=0,
        end_ns=10**10,
        wall_offset_ns=UNIX.wall_offset_ns,
        scrape_ms=1000,
    )
    assert [one.name for one in spans.spans] == ["often #1", "once", "often #2"]
    rows = fault_rows(faults, spans, UNIX)
    assert [(row["name"], row["span"], row["spans"]) for row in rows] == [
        ("often", 0, [0, 2]),
        ("once", 1, [1]),
        ("never", None, []),
    ]
    assert [row["spans"] for row in fault_rows(faults, None, UNIX)] == [[], [], []]


def test_a_fault_ends_with_its_recovery_and_a_stop_alone_is_no_end() -> None:
    events = [
        event(5 * MS, "fault.start", fault="a", type="pod_kill", targets=["n1"]),
        event(7 * MS, "fault.stop", fault="a"),
        event(9 * MS, "fault.recovered", fault="a"),
        event(6 * MS, "fault.start", fault="b", type="pause"),
        event(8 * MS, "fault.stop", fault="b"),
        event(8 * MS, "fault.missed", fault="c", reason="no leader"),
    ]
    rows = fault_rows(fault_landings(events), None, UNIX)
    assert [(row["name"], row["end_ns"], row["missed"]) for row in rows] == [
        ("a", 9 * MS, None),
        ("b", None, None),
        ("c", None, "no leader"),
    ]
    assert rows[2]["start_ms"] is None


def test_a_rebalance_without_an_end_has_no_length() -> None:
    events = [
        event(5, "rebalance.stage", stage="CATCHING_UP", token=7, peers=["n1"]),
        event(8, "rebalance.stage", stage="STABLE", token=7),
        event(9, "rebalance.stage", stage="NONE", token=7),
        event(20, "rebalance.stage", stage="CATCHING_UP", token=9),
    ]
    rows = rebalance_rows(rebalances(events), UNIX)
    assert [(r["token"], r["start_ns"], r["end_ns"], r["duration_ns"]) for r in rows] == [
        (7, 5, 9, 4),
        (9, 20, None, None),
    ]


def test_silences_count_for_the_vantage_that_was_silent() -> None:
    place = {"zone": "z1", "partition": 0, "function": "write"}
    numbers = {"probes": 9, "failed": 0, "interval_ns": 1, "first_ns": 0, "last_ns": 99}
    silent = Island(**place, vantage="a", silent=True, failed=0, possible=(3, 40), certain=(3, 3))  # type: ignore[arg-type]
    seen = availability(
        [Vantage(**place, **numbers, vantage=name) for name in ("a", "b")],  # type: ignore[arg-type]
        [silent],
        [],
    )
    rows = {row["vantage"]: row for row in probe_rows(seen, UNIX)}
    assert (rows["a"]["silences"], rows["a"]["longest_silence_ns"]) == (1, 37)
    assert (rows["b"]["silences"], rows["b"]["longest_silence_ns"]) == (0, 0)


def test_unix_time_is_not_known_where_the_clocks_are_no_clocks() -> None:
    assert UNIX.ms(None) is None
    assert UNIX.ms(1_999_999) == UNIX.wall_offset_ns // MS + 1
    assert UnixTime(wall_offset_ns=2**62 + 1).ms(0) is None
    assert UnixTime(wall_offset_ns=0).ms(0) is None, "no history says what time it was"


@pytest.mark.parametrize("table", OF_THE_VERDICT)
def test_a_table_without_rows_is_a_file_with_its_columns(table: str, tmp_path: Path) -> None:
    file = Location.of(f"{tmp_path}/x.parquet")
    write_rows(file, table, [])
    assert pq.read_table(str(file)).column_names == list(columns_of(OF_THE_VERDICT[table]))


def test_rows_have_the_columns_of_their_table_alone_and_can_be_written(tmp_path: Path) -> None:
    e = evidence(availability=probed(window(0, 900)), uncovered=1)
    checks = judge(e)
    events = [
        event(5, "rebalance.stage", stage="CATCHING_UP", token=2**63 - 1),
        event(6, "fault.hit", fault="\x1b[2Jx", partition=2**40),
    ]
    made = {
        "findings": finding_rows(check_findings(e, checks, set()), verdicts_of(checks), UNIX),
        "windows": window_rows(e.availability.windows, None, UNIX),
        "faults": fault_rows(fault_landings(events), None, UNIX),
        "rebalances": rebalance_rows(rebalances(events), UNIX),
        "events": event_rows(events, UNIX),
        "probes": probe_rows(e.availability, UNIX),
    }
    assert set(made) == set(OF_THE_VERDICT)
    for table, rows in made.items():
        assert rows, table
        for row in rows:
            assert set(row) <= set(columns_of(OF_THE_VERDICT[table])), table
        file = Location.of(f"{tmp_path}/{table}.parquet")
        write_rows(file, table, rows)
        assert pq.read_table(str(file)).num_rows == len(rows)


def test_a_run_without_findings_over_operations_has_every_table(tmp_path: Path) -> None:
    nothing: Any = None  # neither Spark nor operations are asked for
    e = evidence(availability=probed(window(0, 900)))
    for _ in range(2):  # an analysis may be repeated
        write_tables_of_verdict(
            nothing,
            tmp_path,
            e,
            judge(e),
            [event(5, "node.started")],
            OfOperations(
                among=None,
                lost=None,
                all_named=True,
                of_two_places=("sets", "two-places"),
                dumps=(),
            ),
            wall_offset_ns=0,
        )
    counts = {
        table: sum(pq.read_table(file).num_rows for file in files)
        for table in OF_THE_VERDICT
        if (files := list((tmp_path / "tables" / table).glob("*.parquet")))
    }
    told = len(check_findings(e, judge(e), set()))
    assert counts == {
        "findings": told,
        "windows": 1,
        "faults": 0,
        "rebalances": 0,
        "events": 1,
        "probes": 1,
    }


def test_half_a_character_in_a_files_name_is_written_by_its_number(tmp_path: Path) -> None:
    file = Location.of(f"{tmp_path}/x.parquet")
    row: dict[str, object] = dict.fromkeys(columns_of(FINDINGS))
    write_rows(file, "findings", [row | {"text": "a\udce9b", "ops": ["\udce9"]}])
    (read,) = pq.read_table(str(file)).to_pylist()
    assert (read["text"], read["ops"]) == ("a⟨U+DCE9⟩b", ["⟨U+DCE9⟩"])

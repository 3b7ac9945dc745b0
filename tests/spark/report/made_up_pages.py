"""Reports of made-up runs, to be looked at in a browser: any number of partitions, without Spark.

    python -m tests.spark.report.made_up_pages FOLDER [PARTITIONS]

A run of two minutes: kills of leaders from 40 to 55 s, and again at 80 s. Findings of three kinds,
most of them in `z1/2`, where two lost writes stand alone at 47.25 and 47.5 s.
"""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from tests.histories.synthesize import START_NS, WALL_OFFSET_NS
from tests.spark.report.made_up_metrics import metric_facts
from tests.unit.analysis.made_up_evidence import evidence, finding
from zonequake_analysis.checks.search.reference import ReferenceStep
from zonequake_analysis.checks.search.witness import Witness, WitnessOperation
from zonequake_analysis.inputs.run_folder import RecordedEvent
from zonequake_analysis.inputs.shapes import Function
from zonequake_analysis.judgement.judge import Judgement
from zonequake_analysis.measures.availability.windows import Cause, Unavailability
from zonequake_analysis.measures.rebalances import fault_landings, rebalances
from zonequake_analysis.measures.tally import BINS
from zonequake_analysis.measures.timeline import Latencies, PartitionRow, Timeline
from zonequake_analysis.post_mortem.examples import Example, chosen
from zonequake_analysis.post_mortem.finding_cells import FindingCell, coarse
from zonequake_analysis.post_mortem.over_time import FindingsOverTime
from zonequake_analysis.post_mortem.witnessed_findings import WitnessedFinding
from zonequake_analysis.report.page import render_page
from zonequake_analysis.spark_pass.ingest import Ingested
from zonequake_analysis.tables.check_findings import CheckFinding
from zonequake_analysis.verdict import Check, Verdict

S, MS = 1_000_000_000, 1_000_000
SECONDS, SLICE_NS = 120, 200 * MS
SLICES = SECONDS * S // SLICE_NS
LOST_S = (47.25, 47.5)
LOST = ("lost-writes", "lost")
STALE = ("stale-reads", "stale")
ORDER = ("linearizability", "value")
HOSTILE = "</script><script>document.title='broken'</script><img src=x onerror=document.title='b'>"


def write_page(run: Path, *, partitions: int = 3, busy: bool = False, hostile: str = "") -> Path:
    """Writes `report.html` of a made-up run, with the logs of its nodes, and returns its path.

    `busy`: each partition has many findings of every kind at every moment. `hostile`: a text that
    stands wherever a run can say anything.
    """
    run.mkdir(parents=True, exist_ok=True)
    _write_logs(run / "logs", hostile)
    page = run / "report.html"
    judged = made_up_judgement(partitions, busy, hostile)
    text = render_page(run, judged, told=lambda _: None)
    page.write_bytes(text.encode(errors="backslashreplace"))
    return page


def _window(hostile: str) -> Unavailability:
    """Returns a window whose cause has as many words as those of a real run."""
    what = f"leader zq-z1-0-0 of z1/2 was killed, and term 7 began on zq-z1-1-0 {hostile}"
    return Unavailability(
        zone="z1",
        partition=2,
        function="write",
        start_ns=START_NS + 45 * S,
        end_ns=START_NS + 47 * S,
        certain_ns=1500 * MS,
        proven_ns=1500 * MS,
        failed=73,
        vantages=("probe-0", "probe-1", "probe-2"),
        total=False,
        causes=(Cause(kind="kill", what=what, lag_ns=3 * MS),) * 2,
    )


def made_up_judgement(partitions: int, busy: bool = False, hostile: str = "") -> Judgement:
    events = _events(partitions, hostile)
    e = evidence(faults=fault_landings(events), rebalances=rebalances(events))
    windows = (_window(hostile),)
    metrics = metric_facts(
        faults=e.faults,
        windows=windows,
        events=events,
        start_ns=START_NS,
        seconds=SECONDS,
        wall_offset_ns=WALL_OFFSET_NS,
        busy=busy,
    )
    e = replace(e, availability=replace(e.availability, windows=windows), metrics=metrics)
    cells = coarse(_cells(partitions, busy))
    checks = [
        Check(name="lost-writes", verdict=Verdict.VIOLATED, summary="2 lost", violations=2),
        Check(name="stale-reads", verdict=Verdict.VIOLATED, summary="many stale", violations=60),
        Check(name="linearizability", verdict=Verdict.VIOLATED, summary="no order", violations=9),
        Check(name="sacrificed-writes", verdict=Verdict.PASSED, summary="within bounds", checked=9),
    ]
    severity = {check.name: number for number, check in enumerate(checks)}
    found = FindingsOverTime(
        cells=cells,
        examples=[_example(cell, hostile) for cell in chosen(cells, severity)],
        timeless=[
            CheckFinding(check="replicas", kind="apart", text="two members differ " + hostile)
        ],
    )
    lost = finding("lost", check="loss", partition=2, at_ns=START_NS + int(LOST_S[0] * S), key="k7")
    witness = Witness(operations=_around(START_NS + int(LOST_S[0] * S), hostile), proven=True)
    return Judgement(
        description=e.description,
        verdict=Verdict.VIOLATED,
        checks=checks,
        evidence=e,
        ingested=Ingested(
            read_ops=_not_asked,
            buckets=(),
            quality=e.quality,
            wall_offset_ns=WALL_OFFSET_NS,
            start_ns=START_NS,
            end_ns=START_NS + SECONDS * S,
        ),
        events=events,
        timeline=_timeline(partitions),
        shown=[WitnessedFinding(finding=lost, witness=witness)],
        over_time=found,
        steps_s={"made up": 0.0},
        placement=None,
    )


def _not_asked() -> Any:
    """Stands for the operations, which a page doesn't ask for."""
    return None


def _cells(partitions: int, busy: bool) -> list[FindingCell]:
    rng = random.Random(7)

    def cell(kind: tuple[str, str], partition: int, at_s: float, count: int = 1) -> FindingCell:
        at_ns = START_NS + int(at_s * S)
        return FindingCell(
            check=kind[0],
            kind=kind[1],
            found_by="loss",
            zone="z1",
            partition=partition,
            first_ns=at_ns,
            last_ns=at_ns + (count - 1) * MS,
            count=count,
        )

    found = [cell(LOST, 2, at_s) for at_s in LOST_S]
    found += [cell(STALE, 2, 40 + rng.random() * 15, rng.randrange(1, 9)) for _ in range(60)]
    found += [cell(STALE, 0, 80.5), cell(ORDER, 0, 80.5, 3), cell(ORDER, 2, 46.0, 1200)]
    if busy:
        found += [
            cell(kind, partition, rng.random() * SECONDS, rng.randrange(1, 5000))
            for partition in range(partitions)
            for kind in (LOST, STALE, ORDER)
            for _ in range(300)
        ]
    return found


def _example(cell: FindingCell, hostile: str) -> Example:
    around = _around(cell.first_ns, hostile)
    return Example(
        cell=cell,
        text="a read misses what was known before it began",
        key="k7" + hostile,
        node="zq-default-0",
        value=1007,
        magnitude_ns=3 * MS,
        named=(around[6].op,),
        around=around,
    )


def _around(at_ns: int, hostile: str) -> tuple[WitnessOperation, ...]:
    return tuple(
        WitnessOperation(
            op=f"{n % 3}-{n}",
            process=n % 3,
            node="zq-default-0",
            role="load",
            outcome="ok",
            step=ReferenceStep(
                f=Function.READ if n % 2 == 0 else Function.WRITE,
                inv_ns=at_ns + (n - 6) * 40 * MS,
                fin_ns=at_ns + (n - 6) * 40 * MS + 9 * MS,
                value=1000 + n,
            ),
            term=3,
            index=500 + n,
            key="k7" + hostile,
        )
        for n in range(12)
    )


def _timeline(partitions: int) -> Timeline:
    rng = np.random.default_rng(3)
    counts = np.zeros((SLICES, BINS), np.int64)
    usual = rng.integers(330, 345, SLICES)  # bins of about 2 ms
    slow = np.zeros(SLICES, np.int64)
    slow[200:275] = 90
    for offset, times in ((0, 180), (20, 15), (60, 5)):
        counts[np.arange(SLICES), usual + slow + offset] += times
    longest = (2.0 ** ((usual + slow + 70) / 16)).astype(np.int64)
    bad = np.zeros(SLICES, np.int64)
    bad[201:212] = 40
    rows = []
    for partition in range(partitions):
        good, failed = np.full(SLICES, 4), np.zeros(SLICES, np.int64)
        if partition % 5 == 2:
            begin = 200 + partition % 40
            good[begin : begin + 12], failed[begin : begin + 12] = 1, 3
        rows.append(PartitionRow(zone="z1", partition=partition, good=good, bad=failed))
    ok = counts.sum(axis=1)
    return Timeline(
        start_ns=START_NS,
        slice_ns=SLICE_NS,
        slices=SLICES,
        latencies={"read": Latencies(counts=counts, max_ns=longest, ok=ok, bad=bad)},
        partitions=tuple(rows),
        counts={("load", "read", "ok"): int(ok.sum())},
    )


def _events(partitions: int, hostile: str) -> list[RecordedEvent]:
    def of(at_s: float, kind: str, partition: int | None = None, **data: object) -> RecordedEvent:
        zone = None if partition is None else "z1"
        at_ns = START_NS + int(at_s * S)
        return RecordedEvent(kind=kind, time=at_ns, zone=zone, partition=partition, data=data)

    begun = {"setup": -5, "preload": 0, "before": 8, "faults": 40, "recovery": 82, "quiet": 95}
    begun |= {"final": 110, "end": 119}
    found = [of(at_s, "run.phase", phase=name) for name, at_s in begun.items()]
    for name, from_s, to_s in (("kill-leader" + hostile, 40, 55), ("slow-disk", 50, 62)):
        data: dict[str, object] = {"fault": name, "type": "pod_kill", "targets": ["zq-default-0"]}
        found += [
            of(from_s, "fault.start", None, **data),
            of(from_s + 0.1, "fault.effective", None, **data),
        ]
        found.append(of(to_s, "fault.recovered", fault=name))
    found += [
        of(40 + partition * 0.02, "leader.change", partition, leader="zq-default-1", term=3)
        for partition in range(partitions)
    ]
    for partition in range(min(3, partitions)):
        for after_s, stage in enumerate(("CATCHING_UP", "CAUGHT_UP", "JOINT", "STABLE", "NONE")):
            at_s = 60 + 3 * partition + after_s * 1.5
            peers = ["zq-default-1"]
            found.append(
                of(at_s, "rebalance.stage", partition, stage=stage, token=5, term=3, peers=peers)
            )
    return sorted(found, key=lambda event: event.time)


def _write_logs(folder: Path, hostile: str) -> None:
    folder.mkdir(exist_ok=True)
    for node, every_ms in (("zq-default-0", 100), ("zq-default-1", 400)):
        lines = [
            f"{_utc(at_ms)} INFO {node}: heartbeat {at_ms} {hostile}"
            for at_ms in range(0, SECONDS * 1000, every_ms)
        ]
        text = "\n".join(lines) + "\n"
        (folder / f"{node}.log").write_bytes(text.encode(errors="surrogatepass"))


def _utc(at_ms: int) -> str:
    unix_s = (START_NS + WALL_OFFSET_NS) / 1e9 + at_ms / 1000
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f") + "000Z"


if __name__ == "__main__":
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    print(write_page(Path(sys.argv[1]), partitions=count, busy=count > 8))

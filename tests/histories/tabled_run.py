"""A run folder whose tables have answers that are known by construction.

    0 s                 10 s            30 s ──── 32 s           40 s ── 43 s     50 s      65 s
    before              lost element    kill-leader; z1/0 out    z1/2 moves       z1/3      stale
                                        a lost register (31 s)   (2 of 15 fail)   moves on

Each partition gets a write every 200 ms, which takes 10 ms; 200 ms on z1/1 during the fault, and
50 ms on z1/2 while it moves. The data node zq-default-0 syncs slowly from 30 to 33 s.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.histories import anomalies
from tests.histories.made_metrics import MadeSeries, write_metrics
from tests.histories.synthesize import (
    START_NS,
    WALL_OFFSET_NS,
    Outage,
    SyntheticOperation,
    synthesize_probes,
    write_operations,
)
from zonequake_analysis.inputs.shapes import Function, RoleCode

S, MS = 1_000_000_000, 1_000_000
SECONDS = 80
PARTITIONS = 4
START_MS = (START_NS + WALL_OFFSET_NS) // MS
TICK_NS = 200 * MS
FAULT_S, BACK_S = 30, 32
MOVE_S, MOVED_S = 40, 43
FAILED_S = (41, 42)
LOST_S, LOST_ELEMENT_S, STALE_S = 31, 10, 65


def write_tabled_run(run: Path) -> None:
    """Writes the folder, as the harness leaves it: not analyzed."""
    write_operations(run / "history" / "load-0.jsonl", _load())
    planted = [
        *anomalies.plant("lost", START_NS + LOST_S * S).operations,
        *anomalies.plant("lost-element", START_NS + LOST_ELEMENT_S * S).operations,
    ]
    planted += [
        replace(operation, partition=2)
        for operation in anomalies.plant("stale", START_NS + STALE_S * S).operations
    ]
    write_operations(run / "history" / "planted.jsonl", planted)
    outage = Outage(partition=0, start_s=FAULT_S + 0.1, end_s=BACK_S)
    synthesize_probes(run, partitions=PARTITIONS, duration_s=SECONDS, outages=[outage])
    (run / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in _events()))
    write_metrics(run, _series(), start_ms=START_MS, seconds=SECONDS)


def _load() -> Iterator[SyntheticOperation]:
    ticks = SECONDS * S // TICK_NS
    for partition in range(PARTITIONS):
        newest = 0
        for tick in range(ticks):
            at_ns = START_NS + tick * TICK_NS
            value = tick * PARTITIONS + partition + 1
            is_moved = partition == 2 and any(at_ns == START_NS + second * S for second in FAILED_S)
            newest = newest if is_moved else value
            yield SyntheticOperation(
                f=Function.WRITE,
                key=f"r{partition}",
                partition=partition,
                process=value,
                inv_ns=at_ns,
                fin_ns=at_ns + _took_ns(partition, at_ns),
                type="fail" if is_moved else "ok",
                value=value,
                index=None if is_moved else tick + 1,
                node=f"zq-default-{partition % 3}",
            )
        yield SyntheticOperation(
            f=Function.READ,
            key=f"r{partition}",
            partition=partition,
            process=10**6 + partition,
            inv_ns=START_NS + (SECONDS + 2) * S,
            fin_ns=START_NS + (SECONDS + 2) * S + MS,
            value=newest,
            index=ticks + 1,
            role=RoleCode.FINAL,
        )


def _took_ns(partition: int, at_ns: int) -> int:
    second = (at_ns - START_NS) / S
    if partition == 1 and FAULT_S <= second < BACK_S:
        return TICK_NS - MS
    if partition == 2 and MOVE_S <= second < MOVED_S:
        return 50 * MS
    return 10 * MS


def _events() -> list[dict[str, object]]:
    def of(
        at_s: float, kind: str, *, partition: int | None = None, **data: object
    ) -> dict[str, object]:
        place = {} if partition is None else {"zone": "z1", "partition": partition}
        return {"kind": kind, "time": START_NS + int(at_s * S), **place, "data": data}

    def stage(at_s: float, name: str, partition: int, token: int) -> dict[str, object]:
        peers = ["zq-default-0", "zq-default-1"]
        return of(
            at_s,
            "rebalance.stage",
            partition=partition,
            stage=name,
            token=token,
            term=1,
            peers=peers,
            adding=peers[1:],
        )

    fault: dict[str, Any] = {
        "fault": "kill-leader",
        "type": "pod_kill",
        "targets": ["zq-default-0"],
    }
    return [
        of(0, "run.phase", phase="before"),
        of(FAULT_S, "run.phase", phase="faults"),
        of(FAULT_S, "fault.start", **fault),
        of(FAULT_S + 0.05, "fault.effective", **fault),
        of(BACK_S, "fault.recovered", fault="kill-leader"),
        stage(MOVE_S, "CATCHING_UP", 2, 7),
        stage(MOVE_S + 1.5, "CAUGHT_UP", 2, 7),
        stage(MOVE_S + 2, "JOINT", 2, 7),
        stage(MOVE_S + 2.5, "STABLE", 2, 7),
        of(MOVED_S, "rebalance.stage", partition=2, stage="NONE", token=7, term=1),
        stage(50, "CATCHING_UP", 3, 8),
    ]


def _series() -> list[MadeSeries]:
    """Ten syncs a second and node, within 1 ms; those of zq-default-0 last up to 100 ms from the
    fault on, for three seconds.
    """

    def buckets(second: int, node: int) -> dict[str, float]:
        slow = 0.0 if node else 10.0 * max(0, min(second, FAULT_S + 3) - FAULT_S)
        every = 10.0 * second
        return {"0.001": every - slow, "0.01": every - slow, "0.1": every, "+Inf": every}

    return [
        MadeSeries(
            metric="zonequake_store_commit_seconds_bucket",
            labels={
                "pod": f"zq-default-{node}",
                "instance": f"10.0.0.{node}:8080",
                "environment": "log",
                "le": le,
            },
            value=lambda s, node=node, le=le: buckets(s, node)[le],  # type: ignore[misc]
        )
        for node in (0, 1)
        for le in buckets(0, 0)
    ]

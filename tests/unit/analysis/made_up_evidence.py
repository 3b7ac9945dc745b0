"""Evidence of a run in which nothing happened, to be changed where a test looks."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from zonequake_analysis.checks.search.witness import Finding
from zonequake_analysis.inputs.run_folder import Expectations, RunDescription
from zonequake_analysis.judgement.evidence import Evidence, OperationFindings, WithoutOrder
from zonequake_analysis.judgement.latency import P99s
from zonequake_analysis.measures.availability.windows import Availability
from zonequake_analysis.measures.replica_audit import Audit
from zonequake_analysis.spark_pass.ingest import Quality


def found(counts: dict[tuple[str, str], int] | None = None) -> OperationFindings:
    """What the checks over operations found: rows per (check, kind)."""
    return OperationFindings(
        counts=Counter(counts or {}),
        without_order=WithoutOrder(by_both=0, by_claim_only=0, by_black_box_only=0),
        lost_on_replica=0,
    )


def finding(kind: str, **changes: Any) -> Finding:
    """A finding of this kind at the key `k`."""
    plain = Finding(
        check="made-up",
        kind=kind,
        zone="z1",
        partition=0,
        key="k",
        value=None,
        op="1-0",
        at_ns=0,
        position=None,
        magnitude_ns=None,
    )
    return replace(plain, **changes)


def evidence(**changes: Any) -> Evidence:
    """A hundred appends and reads that were answered, and nothing else."""
    plain = Evidence(
        description=RunDescription(
            name="made-up",
            description="",
            seed="1",
            expectations=Expectations(),
            planned_faults=(),
            clock_offset_ns=0,
            harness=None,
            text="",
        ),
        quality=Quality(
            files=1,
            bytes=1,
            lines=400,
            torn_lines=0,
            bad_lines=0,
            keyless_lines=0,
            faults=0,
            told_faults=(),
            refused_operations=0,
            orphans=0,
            cut_off=0,
            unplaced=0,
            clocks=("synthetic",),
        ),
        bad_events=(),
        found=found(),
        counts={
            ("load", "append", "ok"): 100,
            ("load", "read", "ok"): 100,
            ("final", "read", "ok"): 4,
        },
        acknowledged=100,
        uncovered=0,
        compared_writes=100,
        compared_reads=104,
        placed=204,
        availability=Availability(
            windows=(), vantages=(), silences=(), hidden_ns=0, resolution_ns=0
        ),
        rebalances=(),
        early_joints=(),
        faults=(),
        audit=Audit(partitions=0, replicas=0, writes_compared=0, disagreements=()),
        journalled=0,
        resets=(),
        cuts=(),
        unfounded=(),
        one_clock=True,
        p99=P99s(),
    )
    return replace(plain, **changes)

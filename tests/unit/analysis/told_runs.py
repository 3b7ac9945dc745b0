"""Runs as `verdict.json` has them, made up for tests of what is told of them."""

from __future__ import annotations

from zonequake_analysis.judgement.verdict_json import (
    CheckEntry,
    FaultEntry,
    ReportedRun,
    RunFacts,
    VerdictDocument,
    WindowEntry,
)
from zonequake_analysis.verdict import EXIT_CODES, Kind, Verdict, worst

WITNESS = "lost: chaos/3 key k1 (no order explains these)\n  0.100 – 0.200 s  process 1  write a"


def check(name: str, verdict: Verdict = Verdict.PASSED, **fields: object) -> CheckEntry:
    known: dict[str, object] = {"summary": f"{name} is {verdict}", "checked": 10} | fields
    return CheckEntry(name=name, verdict=verdict, **known)  # type: ignore[arg-type]


def told(*checks: CheckEntry, seed: int = 7, windows: int = 0) -> ReportedRun:
    verdict = worst(one.verdict for one in checks)
    return ReportedRun(
        document=VerdictDocument(
            verdict=verdict,
            exit_code=EXIT_CODES[verdict],
            checks=list(checks),
            headline=f"the run is {verdict}",
            numbers={"duration_s": 61.5, "operations": 1234, "longest_window_certain_ms": 300.0},
            run=RunFacts(
                run=f"leader-kill-{seed}",
                scenario="leader-kill",
                seed=str(seed),
                target="zonequake",
                versions={"zonequake": "0.1.0"},
                cluster="v1.34.4",
                replay=f"zonequake run leader-kill --seed {seed}",
                started_wall_ns=1_795_311_896_987_549_046,
            ),
            windows=[
                WindowEntry(
                    zone="chaos",
                    partition=number,
                    function="write",
                    certain_ms=1000.0 - number,
                    possible_ms=1200.0,
                    cause="kill (pod_kill on zq-default-1)",
                )
                for number in range(windows)
            ],
            faults=[FaultEntry(name="kill", landed="CATCHING_UP", progress=0.5)],
        ),
        folder=f"out/seed-{seed}",
    )


def every_kind(seed: int = 7) -> ReportedRun:
    """A run with a check of each verdict and of each kind, one of them not judged."""
    return told(
        check("lost-writes", Verdict.VIOLATED, violations=2, witnesses=[WITNESS]),
        check("stale-reads"),
        check("joint-after-caught-up", summary="not judged: no joint", checked=0),
        check("coverage", Verdict.UNKNOWN, kind=Kind.COVERAGE),
        check("harness", Verdict.HARNESS_FAILED, kind=Kind.HARNESS, summary="\x1b[31mpod gone\x00"),
        check("cleanup", Verdict.CLEANUP_NOT_PROVEN, kind=Kind.CLEANUP),
        check("latency", Verdict.SLO_BREACHED, kind=Kind.OBJECTIVE),
        seed=seed,
    )

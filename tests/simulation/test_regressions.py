"""Seeds that once broke a rule, kept as tests. What they showed was mended at the time.

A seed shows what it was kept for only as long as its scenario draws the same; all of them stay
schedules like any other, and cost a tenth of a second each.
"""

from __future__ import annotations

import pytest

from zonequake_simulation import SCENARIOS, simulate

pytestmark = pytest.mark.simulation

KEPT = [
    ("reconfiguration", 320, "reads waited for a half that had left the configuration"),
    ("reconfiguration", 6, "a late demand of an earlier leadership ended a supply for good"),
    ("reconfiguration", 400_013, "a stalled leader outlived the end of the faults"),
    ("raft", 100_034, "a leader that was stalled when it was elected was blamed for later commits"),
    ("raft", 300_087, "a leader that was stalled when it was elected was blamed for later commits"),
    ("raft", 200_113, "replicas were compared at different moments"),
    ("transactions", 379, "a retry found its own write, and its client was told that it failed"),
    ("transactions", 404, "a retry found its own write, and its client was told that it failed"),
    ("storage", 281, "a leader that was stalled when it was elected was blamed for later commits"),
    ("storage", 20_082, "a supplier that led no more gave what it had been reading"),
    ("two-groups", 40_029, "a state was whole when its demander stopped asking, and never taken"),
    ("transactions", 40_041, "a leader found a request's own write, and told that its cas failed"),
    ("everything-reset", 2, "the survivor of a reset lost its disk before it led"),
    ("catch-up", 105, "who led no more invited a peer in the term of the next leader"),
    ("everything-reset", 60_030, "a replica of the old lineage was blamed for taking a snapshot"),
    ("reset", 70_049, "an old majority renewed its Leases and acknowledged beside the survivor"),
    ("storage", 59, "a staged snapshot that the core had taken was forgotten on a full disk"),
    ("reset", 80_025, "a state was held against a lineage in which its last entry was overwritten"),
    ("storage", 90_023, "a majority was lost: a disk about to fail was counted as sound"),
    ("everything-reset", 5_026, "the survivor of a reset lost its disk to a failed sync"),
    ("everything-reset", 21, "an empty supply made refused entries forgotten, again and again"),
    ("everything-reset", 53, "an empty supply made refused entries forgotten, again and again"),
    ("operated", 3, "a zone that was altered while a step ran made the step fail"),
    ("operated", 137, "a client whose deadline was a microsecond away asked forever"),
    ("operated", 2010, "an operator that had stood still undid what another saw of the topology"),
    ("operated", 2038, "an operator that had stood still undid what another saw of the topology"),
    ("reset", 41, "a node that was stalled renewed its Lease no more when the stall ended early"),
    ("operated-volatile", 94, "a process whose pod was deleted lived on forever"),
    ("operated-volatile", 135, "most first members were lost before any was told"),
    ("operated-volatile", 390, "what a dead operator wrote was put right at a resync"),
    *(
        (
            "operated-available",
            seed,
            "a read that the API server can't answer: older than asked for",
        )
        for seed in (900_028, 910_108, 910_155, 910_328, 910_515, 910_607, 910_617, 910_480)
    ),
    ("operated-available", 73, "a reset for pending's half, which had lost its majority"),
    ("operated-available", 246, "a late event told of the process before the one that left"),
    ("operated", 910_344, "a read that the API server can't answer: older than asked for"),
    ("operated-volatile", 910_893, "a group that started over took a wish in the same write"),
    ("operated-two", 900_097, "a set of one was granted while its peer was lost"),
    ("operated-two", 910_526, "a lock was kept for peers that were lost for good"),
    ("operated-two", 910_628, "a lock was kept for peers that were lost for good"),
    ("operated", 910_236, "a first member was lost while its report was under way"),
    ("operated-volatile", 910_979, "a peer was lost while its grant was under way"),
    ("everything-reset", 1_795_424_240_382, "a stalled process forgot what it had stored"),
    ("volatile", 1_795_424_240_616, "a peer was lost while its granted change had not begun"),
    ("reset", 1_795_437_725_239, "a survivor that died before it stored its set began again"),
    ("reset", 1_795_437_725_637, "a survivor handed out commits of before, and didn't lead yet"),
    ("volatile", 1_795_436_452_181, "a catching-up peer had more than any voter that was left"),
    ("operated", 1_795_475_368_405, "a lock was let go by a report from before its grant"),
    (
        "operated-available",
        1_795_480_000_219,
        "a late end counted out who began a session just then",
    ),
    ("operated-two", 1_795_480_000_226, "a round behind a loss read no newer topology"),
    ("operated-available", 1_795_480_000_373, "a Lease stayed unrenewed when a stall ended early"),
    ("operated-volatile", 1_795_490_000_034, "a group came to depend on a process without a pod"),
    (
        "operated-available",
        1_795_500_000_012,
        "a round heard behind a word, and had read before it",
    ),
    ("operated-volatile", 2009, "a group came to depend on a process without a pod"),
    ("operated-available", 1_795_500_000_240, "who was there between two samples counted as away"),
    ("operated-available", 1_795_500_000_299, "who was there between two samples counted as away"),
    ("operated-available", 1_795_530_001_096, "who held nothing was to go on after a restart"),
    ("operated-available", 1_795_530_001_341, "a node in its next session was counted out late"),
    ("operated", 1_795_510_000_557, "a lock was judged by a leader of an older term"),
    ("operated-two", 1_795_550_001_361, "a committed configuration stood before two that were not"),
    ("operated", 1_795_570_000_610, "who was in no list counted as left before pods were listed"),
    ("operated-available", 1_795_570_001_459, "a fence of before its session counted a node out"),
    ("operated-available", 1_795_600_000_600, "a node was permitted in no session yet, and left"),
    ("operated-volatile", 1_795_600_000_226, "a lock was for peers that were lost for good"),
]


@pytest.mark.parametrize(("name", "seed"), [kept[:2] for kept in KEPT])
def test_a_seed_that_once_failed_breaks_no_rule(name: str, seed: int) -> None:
    report = simulate(seed, SCENARIOS[name])
    assert report.rule is None, report.violation

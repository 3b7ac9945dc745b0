"""The simulation itself: what it reaches, that it repeats, and that its rules can fail."""

from __future__ import annotations

import os
import subprocess
import sys

import msgspec
import pytest

from zonequake_simulation import SCENARIOS, FaultKind, FaultPlan, Simulation, simulate
from zonequake_store.raft.api import Ready
from zonequake_store.raft.core import Raft

pytestmark = [pytest.mark.simulation, pytest.mark.timeout(600)]

REPEAT = """
import hashlib
from zonequake_simulation import SCENARIOS, Simulation
for name in sorted(SCENARIOS):
    with Simulation(3, SCENARIOS[name], trace=True) as run:
        run.run(1000)
        run.settle()
        run.judge()
        seen = (run.events, sorted(run.tally.items()), run.client.history, run.histories())
        print(name, run.steps, hashlib.sha256(repr(seen).encode()).hexdigest())
"""


def test_every_kind_of_fault_is_part_of_a_scenario() -> None:
    assert {kind for each in SCENARIOS.values() for kind in each.faults} == set(FaultKind)


def test_the_same_seed_gives_the_same_run_in_every_process() -> None:
    first, second = (
        subprocess.run(
            [sys.executable, "-c", REPEAT],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        for hash_seed in ("1", "2")
    )
    assert first == second
    assert [line.split()[0] for line in first] == sorted(SCENARIOS)


def test_a_plan_is_that_of_its_seed_and_a_run_without_faults_meets_none() -> None:
    scenario = SCENARIOS["raft"]
    assert FaultPlan.random(5, scenario) == FaultPlan.random(5, scenario)
    assert FaultPlan.random(5, scenario) != FaultPlan.random(6, scenario)
    with Simulation(5, scenario, FaultPlan()) as run:
        run.run(500)
        run.settle()
        run.judge()
        assert not [name for name in run.tally if name.startswith("fault")]


def test_what_is_answered_before_it_is_stored_breaks_a_rule(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ready = Raft.ready

    def all_at_once(raft: Raft) -> Ready:
        found = ready(raft)
        changed = msgspec.structs.replace(
            found, messages=found.messages + found.messages_after_store, messages_after_store=()
        )
        raft._outstanding = changed
        return changed

    monkeypatch.setattr(Raft, "ready", all_at_once)
    report = simulate(0, SCENARIOS["raft"])
    assert report.rule is not None
    assert "stored before" in report.rule

"""A pause of the load is proven when it begins, until it ends, and that the load works again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.chaos.made_up_injections import made_up_injection
from zonequake_chaos.faults.kinds.load_pause import LoadPause
from zonequake_chaos.faults.life import Injection
from zonequake_chaos.record.cleanup_journal import CleanupJournal
from zonequake_kube.errors import ClusterError, WaitExpired
from zonequake_load.pod.control import LoadStatus, OutcomeCounts, Phase, PhaseCounts


class Load:
    """Two load pods; in each an operation ends at every look while it works."""

    def __init__(self) -> None:
        self.phases = {"load-0": Phase.LOAD, "load-1": Phase.LOAD}
        self.ended = dict.fromkeys(self.phases, 40)
        self.incarnation = 1
        self.deaf: set[str] = set()
        """Pods that take a phase and then do nothing."""
        self.refuses = False

    async def enter(self, phase: Phase) -> None:
        self.phases["load-0"] = phase
        if self.refuses:
            raise ClusterError("load-1: connection refused")
        self.phases["load-1"] = phase

    async def complete(self, phase: Phase, *, timeout_s: float) -> list[LoadStatus]:
        await self.enter(phase)
        return await self.status()

    async def status(self) -> list[LoadStatus]:
        for pod, phase in self.phases.items():
            self.ended[pod] += phase is Phase.LOAD and pod not in self.deaf
        return [
            LoadStatus(
                pod=pod,
                ordinal=0,
                incarnation=self.incarnation,
                phase=phase,
                complete=True,
                problem=None,
                counts={Phase.LOAD: PhaseCounts(operations=OutcomeCounts(info=self.ended[pod]))},
                rate=0,
                outstanding=0,
                done_keys=0,
                planned_keys=0,
                probe_interval_ms=0,
            )
            for pod, phase in self.phases.items()
        ]


@pytest.fixture
def load() -> Load:
    return Load()


@pytest.fixture
def injection(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Injection:
    monkeypatch.setattr("zonequake_chaos.faults.life._POLL_S", 0)
    return made_up_injection(
        name="no-load", timeout_s=0.2, loads=[load], journal=CleanupJournal(tmp_path)
    )


async def paused(injection: Injection) -> LoadPause:
    life = LoadPause()
    await life.prepare(injection)
    await life.inject(injection)
    assert await life.wait_until_effective(injection) == {"quiet": ["load-0", "load-1"]}
    return life


async def test_a_load_that_works_again_is_proven_by_operations_that_end(
    injection: Injection,
) -> None:
    life = await paused(injection)
    await life.recover(injection)
    await life.wait_until_recovered(injection)
    assert injection.ended_early is None
    assert injection.back == {"operations": {"load-0": 1, "load-1": 1}}


async def test_a_pod_that_takes_the_phase_and_does_nothing_has_not_recovered(
    injection: Injection, load: Load
) -> None:
    life = await paused(injection)
    load.deaf = {"load-1"}
    await life.recover(injection)
    with pytest.raises(WaitExpired, match="'load-1': 0"):
        await life.wait_until_recovered(injection)
    assert injection.back is None


async def test_a_load_that_worked_during_its_pause_says_so(
    injection: Injection, load: Load
) -> None:
    life = await paused(injection)
    load.phases["load-1"] = Phase.LOAD
    await life.recover(injection)
    assert injection.ended_early == "load-1 worked before its pause ended"


async def test_a_pod_that_was_restarted_in_the_pause_counts_from_nothing(
    injection: Injection, load: Load
) -> None:
    life = await paused(injection)
    load.incarnation, load.ended = 2, dict.fromkeys(load.phases, 0)
    await life.recover(injection)
    assert injection.ended_early is None
    await life.wait_until_recovered(injection)


async def test_a_pause_that_a_pod_refused_leaves_no_other_one_paused(
    injection: Injection, load: Load
) -> None:
    life = LoadPause()
    load.refuses = True
    with pytest.raises(ClusterError):
        await life.inject(injection)
    load.refuses = False
    await life.clean_up(injection)
    assert set(load.phases.values()) == {Phase.LOAD}

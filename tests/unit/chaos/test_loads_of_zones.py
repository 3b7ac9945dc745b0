"""The load of each zone must work before the faults, whatever the others do."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from zonequake_analysis.verdict import Verdict
from zonequake_chaos.runner.problems import Problems
from zonequake_chaos.runner.runner import Runner
from zonequake_load.pod.control import Phase


class LoadOf:
    """The load of one zone, whose two pods do so much."""

    def __init__(self, rate: float) -> None:
        self._rate = rate

    async def enter(self, phase: Phase) -> None:
        assert phase is Phase.LOAD

    async def status(self) -> list[Any]:
        return [SimpleNamespace(rate=self._rate / 2)] * 2


async def problems_at(**rates: float) -> Problems:
    found = Problems()
    runner = SimpleNamespace(
        _loads=[LoadOf(rate) for rate in rates.values()],
        _spec=SimpleNamespace(
            zones=[SimpleNamespace(name=name) for name in rates],
            times=SimpleNamespace(before_s=0),
        ),
        _progress=SimpleNamespace(note=lambda *_: None),
        _problems=found,
    )
    await Runner._before(cast("Runner", runner))
    return found


async def test_a_zone_without_load_is_not_made_up_for_by_another_ones() -> None:
    assert (await problems_at(a=140, b=140)).texts == []
    found = await problems_at(a=140, b=0)
    assert found.verdicts == [Verdict.PASSED, Verdict.UNKNOWN]
    assert found.texts == [
        "the load of zone b does 0.0 operations/s: a run without load shows nothing"
    ]

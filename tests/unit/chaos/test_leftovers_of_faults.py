"""What faults left at pods is found by looking, and mended, though no journal knows of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from zonequake_chaos.cleanup import prove
from zonequake_chaos.cleanup.leftovers import Leftover, LeftoverSearch, SearchPlaces, look
from zonequake_chaos.cleanup.undo import ZONE_GONE_AGAIN_S
from zonequake_chaos.node_access.shell import PodOnNode
from zonequake_chaos.record.cleanup_journal import CleanupJournal, Debt, DeleteZone, RestoreScale
from zonequake_kube.client import Kube
from zonequake_kube.errors import NotFound, WaitExpired, in_words
from zonequake_kube.execution import ExecResult
from zonequake_kube.objects import STORE_LABELS

POD = {
    "metadata": {"name": "zq-default-0", "uid": "u", "labels": {}},
    "spec": {"nodeName": "n", "containers": [{"name": "store"}]},
    "status": {"phase": "Running"},
}


class OnePod:
    """A namespace that holds one data node, and nothing of any run."""

    async def find(self, kind: str, labels: str = "") -> list[dict[str, Any]]:
        return [POD] if kind == "Pod" and labels in ("", STORE_LABELS) else []

    async def get(self, kind: str, name: str) -> dict[str, Any]:
        raise NotFound(f"{kind} {name}", status=404)

    async def execute(self, *_: object, **__: object) -> ExecResult:
        return ExecResult(code=0, stdout="", stderr="")


class Hands:
    """An agent that finds `left` until it is told to heal; `code` is its exit code."""

    agent: Sequence[str] = ("agent",)

    def __init__(self, left: list[str], code: int = 0) -> None:
        self.left, self.code = left, code

    async def run(
        self, pod: PodOnNode, argv: Sequence[str], *, timeout_s: float = 0.0
    ) -> ExecResult:
        assert (pod.node, argv[-1]) == ("n", "u")
        if argv[1] == "heal":
            self.left = []
        return ExecResult(code=self.code, stdout=json.dumps(self.left), stderr="no such verb")


def places(shell: Hands) -> SearchPlaces:
    return SearchPlaces(kube=cast("Kube", OnePod()), node=None, shell=shell, run="r", lock=None)


async def test_what_an_agent_finds_is_a_trace_until_it_is_healed() -> None:
    shell = Hands(["stepped clock of process 7"])
    search = await look(places(shell))
    assert [leftover.what for leftover in search.left] == [
        "pod zq-default-0: stepped clock of process 7"
    ]
    await search.left[0].mend()
    search = await look(places(shell))
    assert search.proven
    assert "links, syncs, clocks and volumes of pods" in search.checked


async def test_an_agent_that_cannot_look_proves_nothing() -> None:
    search = await look(places(Hands([], code=2)))
    assert not search.proven
    assert "no such verb" in search.unseen[0]


async def test_pods_are_looked_at_before_a_debt_takes_them_away(
    tmp_path: Path, monkeypatch: Any
) -> None:
    journal, shell = CleanupJournal(tmp_path), Hands(["fill file at /data"])
    journal.owe(RestoreScale(stateful_set="zq-limited", replicas=0))
    seen: list[list[str]] = []

    async def pay(_: Kube, debt: Debt, **__: object) -> None:
        seen.append(shell.left)

    monkeypatch.setattr(prove, "pay", pay)
    proof = await prove.clean_up(
        cast("Kube", OnePod()),
        node=None,
        shell=shell,
        release="zq",
        run="r",
        journal=journal,
    )
    assert (seen, proof.problems) == ([[]], [])


@pytest.mark.parametrize("trouble", [WaitExpired("the zone stays"), ValueError("unexpected")])
async def test_a_zone_that_stays_leaves_nothing_beside_it_and_hides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: Exception
) -> None:
    """Its deletion took all of the time: a volume was deleted after the only look, and listed."""
    journal, left = CleanupJournal(tmp_path), ["zone", "volume"]
    journal.owe(RestoreScale(stateful_set="zq-default", replicas=3))
    journal.owe(DeleteZone(zone="chaos"))
    patience_s: list[float] = []

    async def pay(_: Kube, debt: Debt, *, zone_gone_s: float = 60.0, **__: object) -> None:
        if isinstance(debt, DeleteZone):
            patience_s.append(zone_gone_s)
            await asyncio.sleep(0.2)
            raise trouble

    async def mend(what: str) -> None:
        if what == "zone":
            raise trouble
        left.remove(what)

    async def look(_: object) -> LeftoverSearch:
        return LeftoverSearch(left=[Leftover(what=each, mend=partial(mend, each)) for each in left])

    monkeypatch.setattr(prove, "pay", pay)
    monkeypatch.setattr(prove, "look", look)
    proof = await prove.clean_up(
        cast("Kube", OnePod()),
        node=None,
        shell=None,
        release="zq",
        run="r",
        journal=journal,
        within_s=0.1,
    )
    assert [type(debt) for _, debt in journal.debts] == [DeleteZone], "the others were paid"
    assert proof.problems == [
        f"DeleteZone(zone='chaos'): {trouble}",
        f"zone, which could not be undone: {in_words(trouble)}",
        "left: zone",
    ]
    assert patience_s == [60.0, ZONE_GONE_AGAIN_S]

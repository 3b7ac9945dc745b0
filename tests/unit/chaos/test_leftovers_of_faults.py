"""What faults left at pods is found by looking, and mended, though no journal knows of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from zonequake_chaos.cleanup import prove
from zonequake_chaos.cleanup.leftovers import Where, look
from zonequake_chaos.node_access.shell import PodOnNode
from zonequake_chaos.record.cleanup_journal import Debt, Journal, RestoreScale
from zonequake_kube.client import Kube
from zonequake_kube.errors import NotFound
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


def where(hands: Hands) -> Where:
    return Where(kube=cast("Kube", OnePod()), node=None, hands=hands, run="r", mark=None)


async def test_what_an_agent_finds_is_a_trace_until_it_is_healed() -> None:
    hands = Hands(["stepped clock of process 7"])
    looked = await look(where(hands))
    assert [trace.what for trace in looked.left] == ["pod zq-default-0: stepped clock of process 7"]
    await looked.left[0].mend()
    looked = await look(where(hands))
    assert looked.proven
    assert "links, syncs, clocks and volumes of pods" in looked.checked


async def test_an_agent_that_cannot_look_proves_nothing() -> None:
    looked = await look(where(Hands([], code=2)))
    assert not looked.proven
    assert "no such verb" in looked.unseen[0]


async def test_pods_are_looked_at_before_a_debt_takes_them_away(
    tmp_path: Path, monkeypatch: Any
) -> None:
    journal, hands = Journal(tmp_path), Hands(["fill file at /data"])
    journal.owe(RestoreScale(stateful_set="zq-limited", replicas=0))
    seen: list[list[str]] = []

    async def pay(_: Kube, debt: Debt, **__: object) -> None:
        seen.append(hands.left)

    monkeypatch.setattr(prove, "pay", pay)
    proof = await prove.clean_up(
        cast("Kube", OnePod()),
        node=None,
        hands=hands,
        release="zq",
        run="r",
        journal=journal,
    )
    assert (seen, proof.problems) == ([[]], [])

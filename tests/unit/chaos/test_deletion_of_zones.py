"""A zone that stays after its deletion is told of with the state of the operator."""

from __future__ import annotations

from typing import Any, cast

import pytest

from zonequake_chaos.cleanup import undo
from zonequake_kube.client import Kube
from zonequake_kube.errors import WaitExpired


class Held:
    """An API server whose zone keeps its finalizer, and whose operator waits for a node."""

    async def delete(self, *_: object, **__: object) -> None:
        """Marks it."""

    async def find(self, kind: str, _: str) -> list[dict[str, Any]]:
        unmet = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/1 nodes are available.",
        }
        pod = {
            "metadata": {"name": "zq-operator-x"},
            "status": {"phase": "Pending", "conditions": [unmet]},
        }
        lease = {"metadata": {"name": "zq-operator"}, "spec": {"holderIdentity": ""}}
        found: dict[str, list[dict[str, Any]]] = {"Pod": [pod], "Lease": [lease]}
        return found[kind]

    async def nodes(self) -> list[dict[str, Any]]:
        return []


async def test_a_zone_that_stays_tells_how_its_operator_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undo, "_POLL_S", 0.001)
    with pytest.raises(WaitExpired) as told:
        await undo.delete_zone(cast("Kube", Held()), "chaos", within_s=0.002)
    assert str(told.value) == (
        "zone chaos is still there 0.002 s after its deletion: pod zq-operator-x: Pending: "
        "Unschedulable: 0/1 nodes are available.; Lease zq-operator has no holder"
    )

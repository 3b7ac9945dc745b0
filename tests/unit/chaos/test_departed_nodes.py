"""A run's zones are made only once the operator has forgotten the nodes of the run before."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from zonequake_kube.errors import NotFound, WaitExpired
from zonequake_target_store import zones


class Operator:
    """Plays the API server whose topology loses a node at each look."""

    def __init__(self, *counted: str) -> None:
        self.counted = list(counted)
        self.looks = 0

    async def get(self, kind: str, name: str) -> dict[str, Any]:
        assert (kind, name) == ("LogicalTopology", zones.TOPOLOGY)
        self.looks += 1
        found = {"status": {"nodes": [{"name": each} for each in self.counted]}}
        if len(self.counted) > 2:
            self.counted.pop()
        return found

    async def find(self, kind: str, _: str) -> list[dict[str, Any]]:
        return []

    async def nodes(self) -> list[dict[str, Any]]:
        return []


@pytest.fixture
def observer(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(zones, "LOOK_S", 0)
    view = SimpleNamespace(nodes={"n0": None, "n1": None})
    return SimpleNamespace(view=lambda: view)


async def test_nodes_without_a_pod_are_waited_for_to_leave(observer: Any) -> None:
    operator: Any = Operator("n0", "n1", "n2", "n3")
    await zones.wait_departed(operator, observer, timeout_s=60)
    assert operator.looks == 3


async def test_a_node_that_never_leaves_is_named(observer: Any) -> None:
    operator: Any = Operator("n0", "n9")
    with pytest.raises(WaitExpired, match="n9, whose pods are gone: there is no pod of"):
        await zones.wait_departed(operator, observer, timeout_s=0)


async def test_without_a_topology_no_node_is_waited_for(observer: Any) -> None:
    class Nobody:
        async def get(self, kind: str, name: str) -> dict[str, Any]:
            raise NotFound("no operator has run yet", status=404)

    nobody: Any = Nobody()
    await zones.wait_departed(nobody, observer, timeout_s=0)

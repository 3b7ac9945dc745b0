"""Members are compared at one place of their log, which an election may move meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from zonequake_chaos.kit import collect
from zonequake_chaos.kit.member_deployment import MemberSetDeployment
from zonequake_kube.errors import ClusterError, WaitExpired

COMPARISONS = collect._RETRIES


class System:
    """Members that go on while they are compared, so many times."""

    def __init__(self, goes_on: int, differ: str = "") -> None:
        self.left = goes_on
        self.asked: list[int] = []
        self._differ = differ

    async def differences(self, pods: Sequence[str], applied: int) -> str:
        self.asked.append(applied)
        if self.left:
            self.left -= 1
            raise ClusterError(f"members went on from {applied}")
        return self._differ


class Observer:
    """Each look shows members one entry further on."""

    def __init__(self) -> None:
        self.applied = 6

    async def wait(self, seen: Any, *, timeout_s: float, waiting_for: Any) -> None:
        self.applied += 1

    def view(self) -> Any:
        replica = SimpleNamespace(applied=self.applied)
        partition = SimpleNamespace(replicas={"a": replica, "b": replica})
        return SimpleNamespace(partitions={("z", 0): partition})


async def compared(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collect, "_RETRY_S", 0)
    deployment = object.__new__(MemberSetDeployment)
    deployment._system = cast("Any", system)
    deployment._members = cast("Any", SimpleNamespace(pods=("a", "b")))
    await deployment.wait_alike(cast("Any", Observer()), timeout_s=1)


async def test_members_that_an_election_moves_on_are_compared_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    system = System(COMPARISONS - 1)
    await compared(system, monkeypatch)
    assert system.asked == list(range(7, 7 + COMPARISONS))


async def test_members_that_never_rest_are_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    last = 6 + COMPARISONS
    with pytest.raises(WaitExpired, match=f"can't be compared at {last}: members went on"):
        await compared(System(COMPARISONS), monkeypatch)


async def test_members_that_differ_are_not_compared_again(monkeypatch: pytest.MonkeyPatch) -> None:
    system = System(0, differ="a and b differ")
    with pytest.raises(WaitExpired, match="a and b differ"):
        await compared(system, monkeypatch)
    assert system.asked == [7]

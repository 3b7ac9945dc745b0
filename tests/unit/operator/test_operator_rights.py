"""How often the operator asks for its rights, and what it says of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import pytest
from prometheus_client import REGISTRY

from zonequake_operator.api_server.kube import NamespaceApi
from zonequake_operator.controller import rights_keeper
from zonequake_operator.controller.rights_keeper import RightsKeeper
from zonequake_operator.errors import KubeForbidden
from zonequake_operator.resources.rights import NEEDED, Right


class Account:
    """What the API server says to one account; `asked`: how often about all of its rights."""

    def __init__(self) -> None:
        self.lacks: frozenset[Right] = frozenset()
        self.refuses_all = False
        self.on_refusal: Callable[[], None] = lambda: None
        self._questions = 0

    @property
    def asked(self) -> float:
        return self._questions / len(NEEDED)

    async def may(self, right: Right) -> bool:
        self._questions += 1
        if self.refuses_all:
            self.on_refusal()
            raise KubeForbidden("POST selfsubjectaccessreviews", 403, "not yet")
        return right not in self.lacks


async def kept_for(account: Account, seconds: float) -> list[frozenset[Right]]:
    told: list[frozenset[Right]] = []
    keeper = RightsKeeper(cast("NamespaceApi", account), tell=told.append)
    running = asyncio.create_task(keeper.run())
    await asyncio.sleep(seconds)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return told


async def test_a_server_that_refuses_everything_is_not_asked_without_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As one does that was killed and has not read its rules yet."""
    monkeypatch.setattr(rights_keeper, "MISSING_S", 0.1)
    account = Account()
    account.refuses_all = True
    assert await kept_for(account, 0.35) == []
    assert 2 <= account.asked <= 4


async def test_each_right_is_shown_also_while_none_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rights_keeper, "MISSING_S", 0.02)
    account = Account()
    assert await kept_for(account, 0.1) == [frozenset()]
    assert {shown(right) for right in NEEDED} == {0.0}
    lacks = next(iter(NEEDED))
    account.lacks = frozenset({lacks})
    assert await kept_for(account, 0.1) == [frozenset({lacks})]
    assert shown(lacks) == 1.0


def shown(right: Right) -> float | None:
    return REGISTRY.get_sample_value("zonequake_operator_missing_rights", {"right": f"{right}"})

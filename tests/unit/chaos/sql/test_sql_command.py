"""What `zonequake sql` says of what it did."""

from __future__ import annotations

from typing import Any, cast

import pytest

from zonequake_chaos.kube import Kube
from zonequake_chaos.sql import command
from zonequake_chaos.sql.parser import parse

ZONE = {"metadata": {"name": "z", "uid": "u"}, "spec": {}}


class HeldByItsFinalizer:
    """An API server whose zone stays while no operator runs."""

    def __init__(self, *, stays: bool) -> None:
        self._stays, self._deleted = stays, False

    async def find(self, kind: str) -> list[dict[str, Any]]:
        there = kind == "DistributionZone" and (self._stays or not self._deleted)
        return [ZONE] if there else []

    async def delete(self, kind: str, name: str, *, uid: str | None) -> None:
        self._deleted = True


@pytest.mark.parametrize(
    ("stays", "said"),
    [
        (False, "the zone z is dropped"),
        (True, "z is being dropped, and still there after 0 s: does an operator run?"),
    ],
)
async def test_a_zone_is_dropped_only_once_it_is_gone(
    monkeypatch: pytest.MonkeyPatch, stays: bool, said: str
) -> None:
    monkeypatch.setattr(command, "DROP_PATIENCE_S", 0.0)
    monkeypatch.setattr(command, "DROP_LOOK_S", 0.0)
    text = "DROP ZONE z"
    (statement,) = parse(text)
    kube = cast("Kube", HeldByItsFinalizer(stays=stays))
    done = await command._carry_out(kube, statement, text)
    assert done.notice.startswith(said)

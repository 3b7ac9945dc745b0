"""Whether kopf, as this operator sets it up, goes on with a zone whatever becomes of one call."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import aiohttp
import kopf
import pytest
from kopf._cogs.clients import api

from zonequake_operator.controller.app import configure

OUTAGE_CALLS = 200
"""Refused calls in a row: minutes of an API server that is away."""


class Session:
    """Refuses connections, and then answers."""

    closed = False

    def __init__(self) -> None:
        self.calls = 0

    async def request(self, **_: object) -> Any:
        self.calls += 1
        if self.calls <= OUTAGE_CALLS:
            raise aiohttp.ClientConnectionError("refused")
        return SimpleNamespace(status=200)


async def test_a_finalizer_is_removed_also_after_an_outage_of_the_api_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """kopf let the zone go once its attempts were used up, and no event came for it ever again: the
    zone stayed in deletion until the operator was restarted."""
    pauses: list[float] = []

    async def sleep(pause_s: float) -> None:
        pauses.append(pause_s)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    settings, session = kopf.OperatorSettings(), Session()
    configure(settings)
    context: Any = SimpleNamespace(
        session=session, server="http://api", add_response=lambda _: None
    )
    answer = await api.request(
        "patch",
        "/zone",
        settings=settings,
        payload={"metadata": {"finalizers": []}},
        context=context,
        logger=logging.getLogger(__name__),
    )
    assert answer.status == 200
    assert len(pauses) == OUTAGE_CALLS
    assert max(pauses) <= 5


def test_a_watch_whose_end_was_lost_is_given_up_before_a_clean_up_gives_up() -> None:
    """The API server ended while the operator had no network: a zone's deletion was not seen."""
    settings = kopf.OperatorSettings()
    configure(settings)
    server_s, client_s = settings.watching.server_timeout, settings.watching.client_timeout
    assert server_s is not None
    assert client_s is not None
    assert str(server_s).isdecimal(), "the API server takes whole seconds only"
    assert server_s < client_s <= 40

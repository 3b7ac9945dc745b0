"""What an HTTP answer means: only a success in the expected form is one."""

from __future__ import annotations

import random
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from tests.patience import PATIENCE_S
from zonequake_load.operation import Function, Limits, Operation, Outcome, Type
from zonequake_load.targets.member_client import Attempt
from zonequake_target_toy.client import ToyAnswer, ToyClient

WRITE = Operation(f=Function.WRITE, key="k", value=7)
DONE = {"node": "m", "index": 1, "term": 1, "value": None, "applied": True}


class Store:
    """A server that does what it is asked, and then answers as a test says."""

    def __init__(self, status: int, answer: object, location: str = "") -> None:
        self.status, self.answer, self.location = status, answer, location
        self.done: list[str] = []

    async def answered(self, request: web.Request) -> web.Response:
        if request.path == "/status":
            return web.json_response({})
        self.done.append(f"{request.method} {request.path}")
        headers = {"Location": self.location} if self.location else {}
        return web.json_response(self.answer, status=self.status, headers=headers)


@asynccontextmanager
async def client_of(store: Store, client: type[ToyClient] = ToyClient) -> AsyncIterator[ToyClient]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", store.answered)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    opened = client([f"{host}:{port}"], rng=random.Random(1))
    try:
        await opened.open()
        yield opened
    finally:
        await opened.close()
        await runner.cleanup()


def limits(seconds: float = PATIENCE_S) -> Limits:
    now_ns = time.monotonic_ns()
    return Limits(deadline_ns=now_ns + int(seconds * 1e9), attempt_ns=60_000_000_000, retry=True)


async def asked(store: Store, client: type[ToyClient] = ToyClient) -> Outcome:
    async with client_of(store, client) as opened:
        return await opened.execute(WRITE, limits())


async def test_a_success_in_the_expected_form_is_one() -> None:
    assert (await asked(Store(200, DONE))).type is Type.OK
    assert (await asked(Store(201, DONE))).type is Type.OK


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirection_is_not_followed_and_nothing_is_certain(status: int) -> None:
    """The member may have done what was asked before it sent the client on, to a dead port here."""
    store = Store(status, DONE, location="http://127.0.0.1:9/elsewhere")
    outcome = await asked(store)
    assert outcome.type is Type.INFO, outcome
    assert f"answered {status}" in str(outcome.error)
    assert store.done == ["POST /execute"]


@pytest.mark.parametrize("status", [400, 404, 409, 500, 503])
async def test_an_error_is_no_success_whatever_its_body(status: int) -> None:
    outcome = await asked(Store(status, DONE))
    assert outcome.type is Type.INFO, outcome
    assert f"answered {status}" in str(outcome.error)


class CertainOfConflicts(ToyClient):
    """Its system says by 409 that it did nothing."""

    async def attempt(self, operation: Operation, attempt: Attempt) -> Outcome:
        await self.ask(attempt, "/execute", {}, answer=ToyAnswer, certain={409})
        raise AssertionError


@pytest.mark.parametrize(("status", "type_"), [(409, Type.FAIL), (500, Type.INFO)])
async def test_a_status_that_a_target_names_is_certain(status: int, type_: Type) -> None:
    store = Store(status, DONE)
    async with client_of(store, CertainOfConflicts) as opened:
        assert (await opened.execute(WRITE, limits(seconds=0.3))).type is type_


OTHER_FORMS: Sequence[object] = [
    {},
    {**DONE, "error": "not done"},
    {"node": "m", "index": 1, "term": 1},
    [DONE],
    "done",
]


@pytest.mark.parametrize("answer", OTHER_FORMS)
async def test_an_answer_in_another_form_is_no_success(answer: object) -> None:
    outcome = await asked(Store(200, answer))
    assert outcome.type is Type.INFO, outcome
    assert "answered in another form" in str(outcome.error)

"""An answer that isn't the toy's leaves a write open; it doesn't end the load."""

from __future__ import annotations

import random
import time

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from zonequake_load.operation import Function, Limits, Operation, Type
from zonequake_load.pod.control import ReadsAt
from zonequake_load.targets.context import ClientContext
from zonequake_target_toy.client import connect


@pytest.mark.parametrize("answer", [b"{}", b"[]", b"busy", b'{"index": "1", "term": 1}', b""])
async def test_a_strange_answer_is_an_unknown_outcome(answer: bytes) -> None:
    async def status(_: web.Request) -> web.Response:
        return web.Response(body=b'{"node": "m-0", "index": 1, "term": 1}')

    async def execute(_: web.Request) -> web.Response:
        return web.Response(body=answer)

    app = web.Application()
    app.add_routes([web.get("/status", status), web.post("/execute", execute)])
    async with TestServer(app, host="127.0.0.1") as server:
        client = connect(
            ClientContext(
                zone="z",
                seeds=[f"127.0.0.1:{server.port}"],
                reads_at=ReadsAt.LEADER,
                rng=random.Random(1),
            )
        )
        await client.open()
        limits = Limits(
            deadline_ns=time.monotonic_ns() + 60 * 10**9, attempt_ns=60 * 10**9, retry=True
        )
        outcome = await client.execute(Operation(f=Function.WRITE, key="k", value=1), limits)
        await client.close()
    assert outcome.type is Type.INFO

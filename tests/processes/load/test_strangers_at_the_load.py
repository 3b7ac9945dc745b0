"""A stranger at a load pod's port learns nothing, ends nothing and fills nothing."""

from __future__ import annotations

import asyncio
import random

import aiohttp
import pytest

from tests.processes.load.load_pod import LoadPods
from tests.processes.load.test_load_pod import plan_for
from tests.processes.store.strangers import say_all
from tests.unit.load.reference_store import ReferenceStore
from zonequake_load.pod.control import Phase

pytestmark = pytest.mark.processes


async def test_garbage_at_the_control_port_does_no_harm(
    store: ReferenceStore, pods: LoadPods
) -> None:
    await pods.start(plan_for(store))
    (pod,) = pods.pods
    chance = random.Random(1)
    phase = b"POST /phase HTTP/1.1\r\nHost: n\r\nContent-Length: %d\r\n\r\n%s"
    bodies = [b'{"phase": ' + b"[" * 60_000, b'{"phase": "none"}', b"[" * 10**6]
    things = [phase % (len(body), body) for body in bodies]
    things += [chance.randbytes(chance.randint(1, 2000)) for _ in range(100)]
    things += [b"GET /files/..%2f..%2fetc%2fpasswd HTTP/1.1\r\nHost: n\r\n\r\n"]
    await say_all(pod.port, things)
    silent = [await asyncio.open_connection("127.0.0.1", pod.port) for _ in range(400)]
    assert (await pods.status(pod)).phase is Phase.QUIET
    async with aiohttp.ClientSession() as session:
        url = f"http://127.0.0.1:{pod.port}/files/..%2f{pod.name}.log"
        async with session.get(url) as response:
            assert response.status == 404
    for _, writer in silent:
        writer.transport.abort()
    log = (pod.directory.parent / f"{pod.name}.log").read_text()
    assert "Traceback" not in log
    assert len(log) < 4096, log[-2000:]

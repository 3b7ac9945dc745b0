"""The toy's client against its real server: what an outcome says must be so."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest

from zonequake_chaos.kit.members import DumpedKey
from zonequake_kube.client import Kube
from zonequake_load.operation import Function, Limits, Operation, Outcome, Type
from zonequake_load.pod.control import ReadsAt
from zonequake_load.targets.context import ClientContext
from zonequake_target_toy import server
from zonequake_target_toy.client import ToyClient, connect
from zonequake_target_toy.package import ToyMembers


@pytest.fixture(autouse=True)
def _patiently(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or nothing is sent because this process had no turn."""
    monkeypatch.setattr("zonequake_load.targets.http_client.CONNECT_TIMEOUT_S", 30.0)
    monkeypatch.setattr("zonequake_load.targets.member_client.OPEN_TIMEOUT_S", 60.0)


READ = Operation(f=Function.READ, key="k")


class Running:
    """A server on loopback."""

    def __init__(self, folder: Path, *words: str) -> None:
        folder.mkdir(exist_ok=True)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        place = ["--folder", str(folder), "--port", str(self.port), "--name", "member-0"]
        self.command = [sys.executable, server.__file__, *place, *words]
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self.command)

    def stop(self) -> None:
        """Stops the process, whose connections stay; it has stopped when this returns."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitpid(self.process.pid, os.WUNTRACED)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextlib.asynccontextmanager
async def opened(running: Running) -> AsyncIterator[ToyClient]:
    """The load's client of that server; the server is killed at the end."""
    seeds = [f"127.0.0.1:{running.port}"]
    client = connect(
        ClientContext(zone="z", seeds=seeds, reads_at=ReadsAt.LEADER, rng=random.Random(1))
    )
    try:
        await client.open()
        yield client
        await client.close()
    finally:
        running.kill()


async def done(
    client: ToyClient, operation: Operation, *, attempt_s: float = 30.0, retry: bool = True
) -> Outcome:
    deadline_ns = time.monotonic_ns() + 60 * 10**9
    limits = Limits(deadline_ns=deadline_ns, attempt_ns=int(attempt_s * 1e9), retry=retry)
    return await client.execute(operation, limits)


def write(value: int) -> Operation:
    return Operation(f=Function.WRITE, key="k", value=value)


def test_each_operation_does_what_it_says(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(Running(tmp_path, "--sync")) as client:
            written = await done(client, write(1))
            cas = [Operation(f=Function.CAS, key="k", value=2, expected=one) for one in (9, 1)]
            refused, applied = [await done(client, one) for one in cas]
            for value in (3, 4):
                await done(client, Operation(f=Function.APPEND, key="l", value=value))
            seen = await done(client, READ)
            listed = await done(client, Operation(f=Function.READ, key="l"))
        answers = (written, refused, applied, seen, listed)
        assert [one.type for one in answers] == [Type.OK] * 5
        assert (refused.applied, refused.value, applied.applied) == (False, 1, True)
        assert (seen.value, listed.value) == (2, [3, 4])
        places = [(one.term, one.index) for one in (written, refused, applied, seen)]
        assert places == [(1, 1), (1, 1), (1, 2), (1, 4)]

    asyncio.run(story())


def test_a_server_that_is_away_certainly_did_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        running = Running(tmp_path, "--sync")
        async with opened(running) as client:
            running.kill()
            await done(client, write(1), retry=False)  # its connection may end under it
            second = await done(client, write(2), retry=False)
        assert second.type is Type.FAIL, second

    asyncio.run(story())


def test_an_answer_that_does_not_come_leaves_it_open(tmp_path: Path) -> None:
    async def story() -> None:
        running = Running(tmp_path, "--sync")
        async with opened(running) as client:
            assert (await done(client, write(1))).type is Type.OK
            running.stop()
            lost = await done(client, write(2), attempt_s=1)
            running.process.send_signal(signal.SIGCONT)
        assert (lost.type, lost.attempts) == (Type.INFO, 1), lost

    asyncio.run(story())


def test_only_with_sync_a_kill_loses_nothing(tmp_path: Path) -> None:
    async def value_after_a_kill(folder: Path, *words: str) -> object:
        running = Running(folder, *words)
        async with opened(running) as client:
            assert (await done(client, write(1))).type is Type.OK
            running.kill()
            running.start()
            return (await done(client, READ)).value

    assert asyncio.run(value_after_a_kill(tmp_path / "sync", "--sync")) == 1
    assert asyncio.run(value_after_a_kill(tmp_path / "late", "--flush-seconds=3600")) is None


class Proxy:
    """Asks the server in the place of the API server, by which the harness asks members."""

    def __init__(self, running: Running) -> None:
        self._url = f"http://127.0.0.1:{running.port}"

    async def pod_proxy(self, pod: str, port: int, path: str, *, timeout_s: float) -> bytes:
        def ask() -> bytes:
            with urllib.request.urlopen(self._url + path, timeout=30) as answer:
                return bytes(answer.read())

        return await asyncio.to_thread(ask)


def test_a_member_is_seen_and_dumped_as_it_was_written(tmp_path: Path) -> None:
    async def story() -> None:
        running = Running(tmp_path, "--sync")
        async with opened(running) as client:
            members = ToyMembers(cast("Kube", Proxy(running)))
            before = await members.status("m", timeout_s=30)
            written = await done(client, write(7))
            after, dump = await members.status("m", timeout_s=30), await members.dump("m")
            assert await members.version("m") == server.VERSION
        assert (before.applied, after.applied) == (0, written.index)
        assert (after.storage, after.term) == (before.storage, written.term)
        assert (dump.applied, dump.storage) == (after.applied, after.storage)
        assert dump.keys == [DumpedKey(key="k", value=7, index=1)]
        assert written.node == "member-0", "as its dump is called"

    asyncio.run(story())

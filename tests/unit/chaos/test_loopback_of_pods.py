"""Ports on a pod's loopback are asked by one program in the pod."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from tests.unit.chaos.local_exec import LocalExec
from zonequake_kube.client import Kube
from zonequake_kube.errors import ClusterError, NotFound
from zonequake_kube.loopback import PodLoopback


class Member:
    """A server on loopback; `/slow` sets `asked`, and answers when `holds` is set."""

    def __init__(self) -> None:
        self.port = 0
        self.asked = asyncio.Event()
        self.holds = asyncio.Event()

    async def start(self) -> web.AppRunner:
        app = web.Application()
        app.router.add_post("/echo", self._echo)
        app.router.add_get("/slow", self._slow)
        app.router.add_get("/broken", self._broken)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.port = runner.addresses[0][1]
        return runner

    async def _echo(self, request: web.Request) -> web.Response:
        return web.Response(body=await request.read())

    async def _slow(self, _: web.Request) -> web.Response:
        self.asked.set()
        await self.holds.wait()
        return web.Response(text="late")

    async def _broken(self, _: web.Request) -> web.Response:
        return web.Response(status=503, text="no leader")


@pytest.fixture
async def member() -> AsyncIterator[Member]:
    served = Member()
    runner = await served.start()
    yield served
    served.holds.set()
    await runner.cleanup()


@pytest.fixture
def pods() -> LocalExec:
    return LocalExec()


@pytest.fixture
async def kube(pods: LocalExec, tmp_path: Path) -> AsyncIterator[Kube]:
    async with pods.serving(tmp_path) as connected:
        yield connected


async def test_one_program_of_a_pod_makes_all_calls_and_ends_with_the_connection(
    pods: LocalExec, member: Member, tmp_path: Path
) -> None:
    async with pods.serving(tmp_path) as kube:
        loopback = PodLoopback(kube, "hands")

        async def echo(text: str) -> str:
            body = text.encode()
            said = await loopback.ask("p-0", member.port, "/echo", method="POST", body=body)
            return said.decode()

        texts = ["ä\n", "b" * 100_000, ""]
        assert await asyncio.gather(*map(echo, texts)) == texts
        ((pod, container, process),) = pods.started
        assert (pod, container, process.returncode) == ("p-0", "hands", None)
    assert await process.wait() == 0


async def test_what_a_member_refuses_is_told_with_its_words(kube: Kube, member: Member) -> None:
    loopback = PodLoopback(kube, "hands")
    with pytest.raises(ClusterError, match="HTTP 503: no leader") as refused:
        await loopback.ask("p-0", member.port, "/broken")
    assert (refused.value.status, refused.value.words) == (503, "no leader")
    with pytest.raises(NotFound, match="GET /nothing at port"):
        await loopback.ask("p-0", member.port, "/nothing")


async def test_a_silent_member_leaves_the_program_for_the_next_call(
    kube: Kube, pods: LocalExec, member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zonequake_kube.loopback._MORE_S", 60.0)  # the program is yet to start
    loopback = PodLoopback(kube, "hands")
    with pytest.raises(ClusterError, match="timed out"):
        await loopback.ask("p-0", member.port, "/slow", timeout_s=0.2)
    said = await loopback.ask("p-0", member.port, "/echo", method="POST", body=b"x")
    assert (said, len(pods.started)) == (b"x", 1)


async def test_a_program_that_died_with_its_container_is_started_again(
    kube: Kube, pods: LocalExec, member: Member
) -> None:
    loopback = PodLoopback(kube, "hands")
    ask = loopback.ask
    await ask("p-0", member.port, "/echo", method="POST")
    pods.started[0][2].kill()
    with pytest.raises(ClusterError):
        await ask("p-0", member.port, "/echo", method="POST")
    assert await ask("p-0", member.port, "/echo", method="POST", body=b"x") == b"x"
    assert len(pods.started) == 2


async def test_a_call_that_waits_when_the_connection_is_closed_fails_as_one_of_the_cluster(
    pods: LocalExec, member: Member, tmp_path: Path
) -> None:
    async with pods.serving(tmp_path) as kube:
        loopback = PodLoopback(kube, "hands")
        call = asyncio.create_task(loopback.ask("p-0", member.port, "/slow", timeout_s=60.0))
        await member.asked.wait()
        await kube.held.aclose()
        with pytest.raises(ClusterError, match="ended without output"):
            await call
        member.holds.set()


async def test_a_program_that_does_not_answer_is_ended(
    kube: Kube, pods: LocalExec, member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its late answer would be taken for that of the next call."""
    monkeypatch.setattr("zonequake_kube.loopback._MORE_S", -0.1)
    loopback = PodLoopback(kube, "hands")
    with pytest.raises(ClusterError, match="no answer within"):
        await loopback.ask("p-0", member.port, "/slow", timeout_s=1.0)
    monkeypatch.undo()
    member.holds.set()
    said = await loopback.ask("p-0", member.port, "/echo", method="POST", body=b"x")
    assert (said, len(pods.started)) == (b"x", 2)

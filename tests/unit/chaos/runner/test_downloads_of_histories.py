"""Histories come out of the load pods whole, over broken connections, and while they grow."""

from __future__ import annotations

import asyncio
import re
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.unit.chaos.runner.fake_cluster import FakeCluster
from zonequake_chaos.kit.client_code import ClientCode
from zonequake_chaos.load import histories
from zonequake_chaos.load.histories import Followed
from zonequake_chaos.load.pods import LoadPods
from zonequake_chaos.record.clock import SystemClock
from zonequake_ctl.context import ReleasePlace
from zonequake_kube.errors import HarnessError
from zonequake_load.pod.control import LoadPlan

PIECE = b"x" * 999_999 + b"\n"


class LongHistories(FakeCluster):
    """A load pod whose one file has `pieces` megabytes; it says `said`, and breaks off `broken`
    times after the first. `asked`: where each download began."""

    pieces, said, broken = 3, 3, 0
    knows_parts, away, unanswered = True, False, 0

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[int] = []

    async def _load(self, request: web.Request, pod: str, path: str) -> web.StreamResponse:  # type: ignore[override]
        if self.away:
            self.unanswered += 1
            return web.json_response({"message": "connection refused"}, status=503)
        if path == "files":
            size_bytes = self.said * len(PIECE)
            files = [{"name": f"{pod}.jsonl", "size_bytes": size_bytes, "open": False}]
            return web.json_response({"files": files})
        start = int(re.sub(r"bytes=(\d+)-$", r"\1", request.headers.get("Range", "bytes=0-")))
        self.asked.append(start)
        at, ends = start if self.knows_parts else 0, self.pieces * len(PIECE)
        answer = web.StreamResponse(
            status=206 if at else 200, headers={"Content-Length": str(ends - at)}
        )
        await answer.prepare(request)
        while at < ends:
            if self.broken and at > start:
                self.broken -= 1
                assert request.transport is not None
                request.transport.abort()
                return answer
            await answer.write(PIECE[at % len(PIECE) :])
            at += len(PIECE) - at % len(PIECE)
        return answer


@pytest.fixture
def cluster_type() -> type[FakeCluster]:
    return LongHistories


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "history"
    made.mkdir()
    return made


def files_in(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.fixture
async def load(cluster: Any, place: ReleasePlace) -> AsyncIterator[LoadPods]:
    cluster.phases["zq-load-z-0"] = "done"
    async with await place.connect() as kube:
        plan = LoadPlan(client="some:client", zone="z", seeds=["zq:7080"])
        yield LoadPods(
            kube=kube,
            clock=SystemClock(),
            name="zq-load-z",
            plan=plan,
            code=ClientCode(connect=plan.client),
            piece_bytes=2_000_000,
        )


async def test_a_broken_download_goes_on_and_the_file_is_whole(
    cluster: Any, load: LoadPods, folder: Path
) -> None:
    cluster.broken = 2
    assert await load.collect(folder) == 3_000_000
    assert b"".join(files_in(folder).values()) == PIECE * 3
    assert cluster.asked == sorted(set(cluster.asked)), "nothing is asked for twice"
    assert len(cluster.asked) == 3


async def test_what_was_followed_is_not_downloaded_again(
    cluster: Any, load: LoadPods, folder: Path
) -> None:
    cluster.said = cluster.pieces = 1
    await load.follow(folder)
    await load.follow(folder)
    cluster.said = cluster.pieces = 3
    assert await load.collect(folder) == 3_000_000
    assert files_in(folder) == {
        "zq-load-z-0.jsonl": PIECE * 2,
        "zq-load-z-0.0001.jsonl": PIECE,
    }
    assert cluster.asked == [0, 1_000_000]


async def test_a_pod_that_does_not_answer_is_followed_when_it_does(
    cluster: Any, load: LoadPods, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(histories, "FOLLOW_S", 0.05)
    cluster.away = True
    async with Followed([load], folder):
        await until(lambda: cluster.unanswered >= 2)
        cluster.away = False
        await until(lambda: files_in(folder) != {})
    assert cluster.asked == [0]


async def until(holds: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline_s
        await asyncio.sleep(0.02)


async def test_a_pod_that_sends_all_for_a_part_is_told_of_and_nothing_is_there_twice(
    cluster: Any, load: LoadPods, folder: Path
) -> None:
    cluster.said = cluster.pieces = 1
    await load.follow(folder)
    cluster.said, cluster.pieces, cluster.knows_parts = 3, 3, False
    with pytest.raises(HarnessError, match="found status 200, expected 206"):
        await load.collect(folder)
    assert files_in(folder) == {"zq-load-z-0.jsonl": PIECE}


async def test_a_file_that_is_shorter_than_the_pod_says_is_told_of(
    cluster: Any, load: LoadPods, folder: Path
) -> None:
    cluster.said = 4
    with pytest.raises(HarnessError, match="got 3000000 bytes, expected 4000000"):
        await load.collect(folder)


async def test_memory_never_holds_a_whole_history(
    cluster: Any, load: LoadPods, folder: Path
) -> None:
    cluster.pieces = cluster.said = 60
    tracemalloc.start()
    try:
        assert await load.collect(folder) == 60_000_000
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 20_000_000

"""Histories come out of the load pods whole, over broken connections, and never as one piece."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.unit.chaos.runner.fake_cluster import FakeCluster
from zonequake_chaos.load.pods import LoadPods
from zonequake_chaos.record.clock import SystemClock
from zonequake_ctl.context import ReleasePlace
from zonequake_kube.errors import HarnessError
from zonequake_load.pod.control import LoadPlan

PIECE = b"x" * 1_000_000


class LongHistories(FakeCluster):
    """A load pod whose one file has `pieces` megabytes; it says `said`, and breaks off `broken`
    times after the first."""

    pieces, said, broken = 3, 3, 0

    async def _load(self, request: web.Request, pod: str, path: str) -> web.StreamResponse:  # type: ignore[override]
        if path == "files":
            size_bytes = self.said * len(PIECE)
            files = [{"name": f"{pod}.jsonl", "size_bytes": size_bytes, "open": False}]
            return web.json_response({"files": files})
        answer = web.StreamResponse(headers={"Content-Length": str(self.pieces * len(PIECE))})
        await answer.prepare(request)
        for number in range(self.pieces):
            if self.broken and number:
                self.broken -= 1
                assert request.transport is not None
                request.transport.abort()
                return answer
            await answer.write(PIECE)
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


async def collected(cluster: Any, place: ReleasePlace, folder: Path) -> int:
    cluster.phases["zq-load-z-0"] = "done"
    async with await place.connect() as kube:
        plan = LoadPlan(zone="z", seeds=["zq:7080"])
        load = LoadPods(kube=kube, clock=SystemClock(), name="zq-load-z", plan=plan)
        return await load.collect(folder)


async def test_a_broken_download_is_begun_again_and_the_file_is_whole(
    cluster: Any, place: ReleasePlace, folder: Path
) -> None:
    cluster.broken = 2
    assert await collected(cluster, place, folder) == 3_000_000
    assert files_in(folder) == {"zq-load-z-0.jsonl": PIECE * 3}


async def test_a_file_that_is_shorter_than_the_pod_says_is_no_history(
    cluster: Any, place: ReleasePlace, folder: Path
) -> None:
    cluster.said = 4
    with pytest.raises(HarnessError, match="got 3000000 bytes, expected 4000000"):
        await collected(cluster, place, folder)
    assert files_in(folder) == {}


async def test_memory_never_holds_a_whole_history(
    cluster: Any, place: ReleasePlace, folder: Path
) -> None:
    cluster.pieces = cluster.said = 60
    tracemalloc.start()
    try:
        assert await collected(cluster, place, folder) == 60_000_000
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 20_000_000

"""A made-up cluster on loopback, and a kubeconfig that names it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from tests.unit.chaos.runner.fake_cluster import FakeCluster
from zonequake_ctl.context import ReleasePlace


@pytest.fixture
def cluster_type() -> type[FakeCluster]:
    """What is made up; a test module may have another kind."""
    return FakeCluster


@pytest.fixture
async def cluster(cluster_type: type[FakeCluster]) -> AsyncIterator[FakeCluster]:
    fake = cluster_type()
    ticking = asyncio.create_task(fake.tick())
    runner = web.AppRunner(fake.app(), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    fake.address = runner.addresses[0]
    yield fake
    ticking.cancel()
    await runner.cleanup()


@pytest.fixture
def place(cluster: FakeCluster, tmp_path: Path) -> ReleasePlace:
    host, port = cluster.address
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "c", "cluster": {"server": f"http://{host}:{port}"}}],
                "users": [{"name": "u", "user": {"token": "t"}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )
    )
    return ReleasePlace(
        kubeconfig=kubeconfig, context="x", namespace="zonequake", release="zq", embedded=False
    )


@pytest.fixture
def events_of() -> Callable[[Path], list[dict[str, Any]]]:
    def read(folder: Path) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]

    return read

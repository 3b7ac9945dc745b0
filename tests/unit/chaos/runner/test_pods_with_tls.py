"""A pod whose port speaks TLS is asked so through the API server."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web

from tests.unit.chaos.runner.fake_cluster import FakeCluster
from zonequake_ctl.context import ReleasePlace


class ClusterThatRecords(FakeCluster):
    """Answers every proxied call with how it was addressed."""

    async def _proxy(self, request: web.Request) -> web.Response:
        found = request.match_info
        return web.Response(text=f"{found['pod']} {found['port']} /{found['path']}")


@pytest.fixture
def cluster_type() -> type:
    return ClusterThatRecords


async def test_a_pod_is_asked_by_the_scheme_that_it_speaks(
    cluster: Any, place: ReleasePlace
) -> None:
    async with await place.connect() as kube:
        assert await kube.pod_proxy("p", 2379, "/version") == b"p 2379 /version"
        tls = await kube.pod_proxy("p", 2379, "/version", scheme="https")
    assert tls == b"https:p 2379 /version"

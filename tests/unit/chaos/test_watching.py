"""An observer that can't go on says so to whoever waits, and not that nothing came."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from zonequake_chaos.clock import SystemClock
from zonequake_chaos.errors import HarnessError
from zonequake_chaos.kube import Kube
from zonequake_chaos.observe import DataNodes, Observer


class Api:
    """Has one pod, whose object is none that a pod has."""

    async def snapshot(self, kind: str, labels: str) -> tuple[list[dict[str, Any]], str]:
        return ([{"metadata": {"name": "zq-default-0"}}] if kind == "Pod" else []), "1"

    async def watch(self, kind: str, *, labels: str, resource_version: str) -> Any:
        await asyncio.Event().wait()
        yield


async def test_a_watch_that_broke_ends_a_wait_with_its_cause() -> None:
    kube = cast("Kube", Api())
    observer = Observer(kube=kube, clock=SystemClock(), sight=DataNodes(kube))
    async with observer.watching():
        with pytest.raises(HarnessError, match="can't be watched any more: KeyError: 'spec'"):
            await observer.wait(
                lambda view: bool(view.nodes), timeout_s=5, waiting_for=lambda view: "a node"
            )

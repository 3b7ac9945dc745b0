"""The plugin's screens over processes that stand for pods."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from rich.console import Console, RenderableType

from tests.kube.operator.addresses import address
from tests.kube.operator.machine import Machine
from zonequake_ctl.zq.look import look
from zonequake_ctl.zq.planning import answer, wish_of_settings
from zonequake_ctl.zq.screens.screen import screen
from zonequake_kube.client import Kube
from zonequake_kube.errors import ClusterError


class StraightKube(Kube):
    """Without a kubelet there is no way through the API server to a pod: go straight to it."""

    async def pod_proxy(self, pod: str, port: int, path: str, **options: Any) -> bytes:
        url = f"http://{address(int(pod.rpartition('-')[2]))}:{port}{path}"
        limit = aiohttp.ClientTimeout(total=options.get("timeout_s", 15))
        try:
            async with self._session.get(url, timeout=limit) as response:
                if response.status >= 300:
                    raise ClusterError(await response.text(), status=response.status)
                return await response.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ClusterError(f"{url}: {error}") from error


@asynccontextmanager
async def connected(machine: Machine) -> AsyncIterator[Kube]:
    async with await StraightKube.open(
        kubeconfig=machine.api.kubeconfig, context=None, namespace=machine.api.namespace
    ) as kube:
        yield kube


def text_of(found: RenderableType) -> str:
    """As a terminal of 140 columns shows it."""
    console = Console(width=140, no_color=True, highlight=False)
    with console.capture() as captured:
        console.print(found)
    text = captured.get()
    print(text)
    return text


async def status(machine: Machine) -> str:
    async with connected(machine) as kube:
        return text_of(screen(await look(kube)))


async def plan(machine: Machine, *settings: str) -> str:
    async with connected(machine) as kube:
        return text_of(await answer(kube, wish_of_settings("z", settings), show_all=True))

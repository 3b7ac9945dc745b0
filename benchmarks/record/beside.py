"""Work on the members of an etcd that goes on beside a run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from zonequake_ctl.context import ReleasePlace
from zonequake_kube.client import Kube
from zonequake_kube.errors import ClusterError
from zonequake_target_etcd.members import PORTS

MEMBERS = "app.kubernetes.io/component=target"
PATH = "/v3/maintenance/defragment"
_PAUSE_S = 0.5


async def defragment(kube: Kube) -> None:
    """Defragments each member once, one after another; one that can't be reached is left out."""
    for pod in await kube.find("Pod", MEMBERS):
        try:
            await kube.pod_proxy(
                pod["metadata"]["name"], PORTS.clients, PATH, method="POST", body=b"{}"
            )
        except ClusterError:
            continue


@contextmanager
def working_beside(work: str | None, kubeconfig: Path) -> Iterator[None]:
    """Does the work again and again until the block ends; nothing if there is none."""
    ended = threading.Event()

    place = ReleasePlace(
        kubeconfig=kubeconfig, context=None, namespace="zonequake", release="zq", embedded=True
    )

    async def again_and_again() -> None:
        async with await place.connect() as kube:
            while not ended.is_set():
                with suppress(ClusterError):  # members come and go in a run
                    await defragment(kube)
                await asyncio.sleep(_PAUSE_S)

    if work is None:
        yield
        return
    thread = threading.Thread(target=lambda: asyncio.run(again_and_again()), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()

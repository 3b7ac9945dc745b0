"""Takes away what a run made under a label, pods and volume claims included."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from zonequake_kube.client import Kube
from zonequake_kube.errors import NotFound, WaitExpired

GONE_S = 60.0
_POLL_S = 0.3


async def erase(kube: Kube, labels: str, kinds: Sequence[str]) -> None:
    """Deletes all objects of these kinds with these labels, and their pods at once."""
    for kind in kinds:
        await kube.delete_all(kind, labels)
    for pod in await kube.find("Pod", labels):
        try:
            await kube.delete("Pod", pod["metadata"]["name"], grace_s=0)
        except NotFound:
            continue


async def erase_all(kube: Kube, labels: str, kinds: Sequence[str]) -> None:
    """Erases, and waits until it is done. Raises WaitExpired.

    Pods may make objects with these labels until they have ended: those go last.
    """
    await erase(kube, labels, kinds)
    await _wait_erased(kube, labels)
    for kind in kinds:
        await kube.delete_all(kind, labels)


async def _wait_erased(kube: Kube, labels: str) -> None:
    """Waits until what outlives its deletion is gone: pods, then their claims. Raises WaitExpired.

    A claim that is going away would be taken for its own by a pod of the same name.
    """
    left: list[str] = []
    for _ in range(int(GONE_S / _POLL_S)):
        left = [
            f"{kind} {found['metadata']['name']}"
            for kind in ("Pod", "PersistentVolumeClaim")
            for found in await kube.find(kind, labels)
        ]
        if not left:
            return
        await asyncio.sleep(_POLL_S)
    raise WaitExpired(f"still there {GONE_S:g} s after their deletion: {', '.join(left[:5])}")

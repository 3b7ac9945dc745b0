"""Images that the kubelet can't get: seen in the pods that wait for them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Never, TypeVar

from zonequake_kube.client import Kube
from zonequake_kube.errors import ClusterError, ImageNotPulled
from zonequake_kube.objects import Json

REASONS = (
    "ErrImagePull",
    "ImagePullBackOff",
    "ErrImageNeverPull",
    "InvalidImageName",
    "ImageInspectError",
    "RegistryUnavailable",
)
"""The kubelet's reasons for a container without its image (kubernetes, pkg/kubelet/images)."""

_LOOK_S = 1.0
T = TypeVar("T")


def not_pulled(pod: Json) -> str | None:
    """Returns the image that keeps this pod from starting, with the kubelet's words; None if none
    does.
    """
    status = pod.get("status") or {}
    containers = (status.get("initContainerStatuses") or []) + (
        status.get("containerStatuses") or []
    )
    for container in containers:
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") in REASONS:
            words = " ".join(str(waiting.get("message") or "").split())
            return (
                f"image {container['image']} of pod {pod['metadata']['name']} can't be pulled: "
                f"{waiting['reason']}{f' ({words})' if words else ''}"
            )
    return None


async def unless_not_pulled(
    kube: Kube, selectors: Sequence[str], work: Coroutine[Any, Any, T]
) -> T:
    """Awaits `work`, and ends it as soon as a pod of these label selectors can't get its image.

    Raises ImageNotPulled in that case, else what `work` raises.
    """
    watch, working = asyncio.create_task(_watch(kube, selectors)), asyncio.create_task(work)
    try:
        await asyncio.wait((watch, working), return_when=asyncio.FIRST_COMPLETED)
        return await (working if working.done() else watch)
    finally:
        watch.cancel()
        working.cancel()
        await asyncio.gather(watch, working, return_exceptions=True)


async def _watch(kube: Kube, selectors: Sequence[str]) -> Never:
    while True:
        for selector in selectors:
            try:
                pods = await kube.find("Pod", selector)
            except ClusterError:  # not now: the wait beside this one goes on, and says so
                continue
            for pod in pods:
                if problem := not_pulled(pod):
                    raise ImageNotPulled(
                        f"{problem}. Load it into the embedded cluster by `zonequake cluster load "
                        "IMAGE.tar`, or name one that this cluster's registry has."
                    )
        await asyncio.sleep(_LOOK_S)

"""helm that waited in vain says only that it did: the error names the pods and their reasons."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from zonequake_cluster.errors import TooLittleDisk
from zonequake_cluster.machine.disk_room import DiskRoom
from zonequake_ctl.context import ReleasePlace
from zonequake_ctl.release import install
from zonequake_kube.errors import ImageNotPulled

DEADLINE = "Error: UPGRADE FAILED: context deadline exceeded"


class Server:
    """A made-up API server with one pod."""

    def __init__(self, **status: object) -> None:
        self.status = status

    async def __aenter__(self) -> Server:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def find(self, kind: str, labels: str) -> list[dict[str, Any]]:
        assert labels == "app.kubernetes.io/name=zonequake,app.kubernetes.io/instance=zq"
        found = {"metadata": {"name": "zq-operator-x"}, "status": self.status}
        return [found] if kind == "Pod" else []

    async def nodes(self) -> list[dict[str, Any]]:
        pressure = {"type": "DiskPressure", "status": "True", "message": "the disk is full"}
        ready = {"type": "Ready", "status": "True"}
        return [{"metadata": {"name": "n"}, "status": {"conditions": [pressure, ready]}}]


def place(
    monkeypatch: pytest.MonkeyPatch, server: Server, *, embedded: bool = False
) -> ReleasePlace:
    async def connect(_: ReleasePlace) -> Server:
        return server

    monkeypatch.setattr(ReleasePlace, "connect", connect)
    return ReleasePlace(
        kubeconfig=None, context=None, namespace="zonequake", release="zq", embedded=embedded
    )


async def test_helms_deadline_comes_with_the_pods_that_are_not_ready(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def helm(*_: object) -> None:
        install._check(["upgrade"], 1, DEADLINE)

    monkeypatch.setattr(install, "_helm_beside", helm)
    server = Server(phase="Failed", reason="Evicted", message="The node was low on resource.")
    with pytest.raises(install.HelmFailed) as told:
        await install.install_release(place(monkeypatch, server), images={})
    assert str(told.value).splitlines() == [
        f"helm upgrade ended with 1: {DEADLINE}",
        "pod zq-operator-x: Failed: Evicted: The node was low on resource.",
        "node n: DiskPressure: the disk is full",
    ]


async def test_an_image_that_is_missing_is_still_told_of_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def helm(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(install, "_helm_beside", helm)
    waiting = {"waiting": {"reason": "ErrImagePull"}}
    server = Server(containerStatuses=[{"name": "c", "image": "i", "state": waiting}])
    with pytest.raises(ImageNotPulled):
        await install.install_release(place(monkeypatch, server), images={})


async def test_on_a_full_disk_helm_is_not_even_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    full = DiskRoom(folder=Path("/state"), free_bytes=2**29)
    monkeypatch.setattr(install, "disk_room", lambda _: full)
    with pytest.raises(TooLittleDisk, match=r"0\.5 GiB are free .* evicts pods"):
        await install.install_release(place(monkeypatch, Server(), embedded=True), images={})

"""Alters the zone of a run in the middle of it, on either system."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from benchmarks.evidence_ignite.rows import Altered, System
from zonequake_ctl.context import ReleasePlace
from zonequake_kube.client import Kube
from zonequake_target_ignite.client.protocol.statements import quoted
from zonequake_target_ignite.nodes import STATUS_PORT

POD = "zq-ignite-default-0"
_LOOK_S = 0.1


def statement(zone: str, replicas: int) -> str:
    """Returns the alteration in Ignite's words."""
    return f"ALTER ZONE {quoted(zone)} SET (REPLICAS {replicas})"


def took_effect(lines: Iterator[str] | list[str], fault: str) -> bool:
    """Returns whether a run's events show the effect of a fault."""
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue  # it is being written
        if event["kind"] == "fault.effective" and event["data"]["fault"] == fault:
            return True
    return False


async def alter(kube: Kube, system: System, zone: str, replicas: int) -> None:
    """Gives the zone another number of replicas. Raises ClusterError."""
    if system is System.OURS:
        await kube.patch("DistributionZone", zone, {"spec": {"replicas": replicas}})
        return
    asked = msgspec.json.encode({"statement": statement(zone, replicas)})
    await kube.pod_proxy(POD, STATUS_PORT, "/sql", method="POST", body=asked, timeout_s=60.0)


@contextmanager
def altering_beside(
    altered: Altered, system: System, *, zone: str, out: Path, kubeconfig: Path
) -> Iterator[None]:
    """Alters the zone once the fault has taken effect. Raises what kept it from that."""
    ended, failed = threading.Event(), []
    events = out / "events.jsonl"

    async def once() -> None:
        while not (events.exists() and took_effect(events.read_text().splitlines(), altered.fault)):
            if ended.is_set():
                return
            await asyncio.sleep(_LOOK_S)
        place = ReleasePlace(
            kubeconfig=kubeconfig, context=None, namespace="zonequake", release="zq", embedded=True
        )
        async with await place.connect() as kube:
            await alter(kube, system, zone, altered.replicas)

    def run() -> None:
        try:
            asyncio.run(once())
        except Exception as error:  # noqa: BLE001 - raised where the run ends
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    if failed:
        raise failed[0]

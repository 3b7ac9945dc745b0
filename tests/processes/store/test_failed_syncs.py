"""The scenario `failed-fsync`, step by step on real processes: strace lets the syncs of one fail.

n1 stands still, so that whatever is acknowledged rests on n0, whose syncs fail, and n2. Then n2 is
killed and stays away, and n0 comes back to a disk that works: n0 and n1 are a majority.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable

import pytest

from tests.patience import PATIENCE_S
from tests.processes.store.local_nodes import LocalNodes, Zone
from zonequake_agent import pods
from zonequake_agent.disk import tampering
from zonequake_agent.disk.tampering import FAILING_SYNCS, TamperingKind
from zonequake_protocol.client import Append, ReplyStatus

pytestmark = pytest.mark.processes

THREE = ["n0", "n1", "n2"]
GOES_ON_S = 4.0
"""How long writes are tried after a failed sync: longer than an election."""
PLANTED = {
    "ZQ_PLANTED_FAULT": "ignore-failed-sync",
    "ZQ_ALLOW_PLANTED_FAULTS": "yes-for-a-test",
}


@pytest.fixture
def pod_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], str]:
    """Makes one process the whole of a pod, for calls that ask for its processes; the pod's UID.

    Each test has a UID of its own: strace's file is named by it in a folder that all tests of the
    machine share, and who begins or ends faults ends every strace that writes to that file.
    """

    monkeypatch.setattr(tampering, "_ATTACH_TIMEOUT_S", PATIENCE_S)

    def of(pid: int) -> str:
        only = [pods.PodProcess(pid=pid, name="python", container="c")]
        monkeypatch.setattr(pods, "processes", lambda uid, proc=pods.PROC: only)
        monkeypatch.setattr(pods, "workers", lambda uid: [pid])
        return str(uuid.uuid4())

    return of


async def acknowledged_meanwhile(
    nodes: LocalNodes,
    zone: Zone,
    pod_of: Callable[[int], str],
    *,
    is_enough: Callable[[set[int]], Awaitable[bool]],
) -> set[int]:
    """What is acknowledged until n2 is away and n0 was killed; n1 goes on, n0 starts again.

    That happens some time after a sync of n0 failed, and what is acknowledged `is_enough`.
    """
    group, client = zone.groups[0], nodes.client()
    assert (await client.append(group, "list", 1)).status is ReplyStatus.OK
    process = nodes.nodes["n0"].process
    assert process is not None
    uid = pod_of(process.pid)
    nodes.nodes["n1"].pause()
    await asyncio.to_thread(tampering.begin, uid, FAILING_SYNCS, seconds=2 * PATIENCE_S)
    known = {1}
    now_s = asyncio.get_running_loop().time
    give_up_s, failed_s, element = now_s() + PATIENCE_S, None, 1
    while failed_s is None or now_s() < failed_s + GOES_ON_S or not await is_enough(known):
        assert now_s() < give_up_s, f"acknowledged: {sorted(known)}; failed: {failed_s is not None}"
        if failed_s is None and tampering.look(uid, TamperingKind.FAILING).changed:
            failed_s = now_s()
        element += 1
        for name in ("n0", "n2"):
            try:
                async with asyncio.timeout(1):
                    reply = await client.once(name, Append(group, "list", element))
            except (TimeoutError, OSError):
                continue
            if reply.status is ReplyStatus.OK:
                known.add(element)
                break
    nodes.nodes["n2"].kill()
    nodes.nodes["n0"].kill()
    tampering.end(uid, TamperingKind.FAILING)
    nodes.nodes["n1"].resume()
    await nodes.restart(zone, "n0")
    return known


async def test_a_store_that_goes_on_after_a_failed_sync_loses_what_it_acknowledged(
    nodes: LocalNodes, pod_of: Callable[[int], str]
) -> None:
    await nodes.start(*THREE, **PLANTED)
    zone = await nodes.create("z", on=THREE)

    async def is_enough(known: set[int]) -> bool:
        """It acknowledges although its syncs fail."""
        return len(known) > 1

    known = await acknowledged_meanwhile(nodes, zone, pod_of, is_enough=is_enough)
    found = (await nodes.client().read(zone.groups[0], "list")).value
    assert isinstance(found, list)
    assert known - set(found), "what rested on the failed sync is gone"


async def test_a_sound_store_acknowledges_nothing_that_rests_on_a_failed_sync(
    nodes: LocalNodes, pod_of: Callable[[int], str]
) -> None:
    await nodes.start(*THREE)
    zone = await nodes.create("z", on=THREE)

    async def says_why(_: set[int]) -> bool:
        return any(e.kind == "storage.failed" for e in await nodes.events("n0"))

    known = await acknowledged_meanwhile(nodes, zone, pod_of, is_enough=says_why)
    assert known == {1}
    assert any(e.kind == "storage.failed" for e in await nodes.events("n0")), "and says why"

"""The harness's faults of links on real network namespaces: their proofs, and what undoes them.

The pods are made up, everything else is what a run does: the lives of the faults, the journal, the
agent's program by this machine itself, and real packets between the pods.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.patience import PATIENCE_S
from tests.processes.store.local_nodes import until
from zonequake_chaos.cleanup.undo import pay
from zonequake_chaos.faults.kinds.network import (
    LinkFaultLife,
    NetworkLoss,
    NetworkPartition,
    NetworkSlow,
)
from zonequake_chaos.faults.life import FaultWorld, Injection, Victim
from zonequake_chaos.node_access.leftovers import left_behind
from zonequake_chaos.node_access.own_machine import OwnMachine
from zonequake_chaos.observe.observer import Observer
from zonequake_chaos.observe.view import ClusterView, LinkPorts, NodeView
from zonequake_chaos.record.cleanup_journal import CleanupJournal, JoinNetwork
from zonequake_chaos.record.clock import SystemClock
from zonequake_chaos.scenario.faults import Direction, Traffic
from zonequake_chaos.targeting.triggers import Sighting
from zonequake_cluster.instance import Instance
from zonequake_kube.errors import WaitExpired
from zonequake_kube.objects import PodView

if TYPE_CHECKING:
    from tests.processes.agent.conftest import FakePod

LASTS_S = (6.0, 24.0)
"""Long enough for another program to begin and find a link cut, and be without an answer for a
while; the second one also on a machine that has stood still."""

# A harness that dies: it owes, breaks, says so, and waits for its end.
_DYING = """
import asyncio, json, sys
from pathlib import Path
from zonequake_cluster.instance import Instance
from zonequake_chaos.record.cleanup_journal import CleanupJournal, JoinNetwork
from zonequake_chaos.node_access.agent_links import break_links
from zonequake_chaos.node_access.shell import PodOnNode
from zonequake_chaos.node_access.own_machine import OwnMachine

async def run(folder, uid, order):
    shell = OwnMachine(Instance(name="none", root=folder))
    CleanupJournal(folder).owe(JoinNetwork(pod="p", uid=uid, host="n", fault=order["name"]))
    await break_links(shell, PodOnNode(name="p", uid=uid, node="n"), order)
    print("broken", flush=True)
    await asyncio.sleep(600)

asyncio.run(run(Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])))
"""


class Watching:
    """The part of an observer that these faults look at."""

    ports = LinkPorts(peers=7001, clients=7002)

    def __init__(self, victims: list[Victim]) -> None:
        self._nodes = {
            v.node: NodeView(
                pod=PodView(
                    name=v.node,
                    uid=v.pod_uid,
                    pool="",
                    ready=True,
                    phase="Running",
                    deleting=False,
                    container="store",
                    restarts=0,
                    address=v.address,
                    host=v.host,
                )
            )
            for v in victims
        }

    def view(self) -> ClusterView:
        return ClusterView(at_ns=0, began_ns=0, nodes=self._nodes, partitions={})


def victim_of(pod: FakePod) -> Victim:
    return Victim(
        node=pod.namespace,
        pod_uid=pod.uid,
        container="store",
        restarts=0,
        process_incarnation=None,
        address=pod.address,
        host="here",
    )


@pytest.fixture
def shell(tmp_path: Path) -> OwnMachine:
    return OwnMachine(Instance(name="none", root=tmp_path))


@pytest.fixture
def injection_of(
    pods: list[FakePod], shell: OwnMachine, tmp_path: Path
) -> Callable[..., Injection]:
    def make(*, between: bool = False, timeout_s: float = PATIENCE_S) -> Injection:
        everybody = [victim_of(pod) for pod in pods]
        world = FaultWorld(
            kube=cast("Any", None),
            node=None,
            shell=shell,
            observer=cast("Observer", Watching(everybody)),
            journal=CleanupJournal(tmp_path),
            events=cast("Any", None),
            clock=SystemClock(),
            release="zq",
        )
        return Injection(
            world=world,
            name="fault",
            victims=(everybody[0],),
            opposite=(everybody[1],) if between else (),
            sighting=Sighting(at_ns=1, what="now"),
            timeout_s=timeout_s,
            hold_s=5.0,
        )

    return make


@contextlib.contextmanager
def chatter(source: FakePod, to: FakePod) -> Iterator[None]:
    """Connections from one pod to the other all the time."""
    code = (
        "import socket, sys, time\n"
        "while True:\n"
        "    with socket.socket() as s:\n"
        "        s.settimeout(0.2)\n"
        "        s.connect_ex((sys.argv[1], 7001))\n"
        "    time.sleep(0.02)\n"
    )
    talking = subprocess.Popen(
        ["ip", "netns", "exec", source.namespace, sys.executable, "-c", code, to.address]
    )
    try:
        yield
    finally:
        talking.kill()
        talking.wait()


def partition(direction: Direction = Direction.BOTH) -> NetworkPartition:
    return NetworkPartition(traffic=Traffic.PEERS, direction=direction)


async def test_a_cut_link_is_proven_by_dropped_packets_and_undone_completely(
    pods: list[FakePod], shell: OwnMachine, injection_of: Callable[..., Injection]
) -> None:
    injection, life = injection_of(between=True), partition(Direction.INBOUND)
    await life.prepare(injection)
    await life.inject(injection)
    with chatter(pods[1], pods[0]):
        proof = await life.wait_until_effective(injection)
    assert proof["dropped"][pods[0].namespace] > 0  # type: ignore[index]
    assert proof["opposite"] == [pods[1].namespace]
    assert None not in pods[2].reaches(pods[0], 1), "the third one still reaches it"
    where = [victim.on_node for victim in injection.victims]
    assert len(await left_behind(shell, where)) == 1
    await life.clean_up(injection)
    assert await left_behind(shell, where) == []
    assert injection.world.journal.debts == []


async def test_a_fault_whose_rules_no_packet_meets_is_not_effective(
    pods: list[FakePod], injection_of: Callable[..., Injection]
) -> None:
    injection = injection_of(between=True, timeout_s=1.5)
    lives: list[LinkFaultLife] = [
        partition(),
        NetworkLoss(traffic=Traffic.PEERS, direction=Direction.BOTH, percent=50.0),
    ]
    for life in lives:
        await life.prepare(injection)
        await life.inject(injection)
        # The one that talks isn't on the other side.
        with chatter(pods[2], pods[0]), pytest.raises(WaitExpired, match="so far"):
            await life.wait_until_effective(injection)
        await life.clean_up(injection)


async def test_a_lossy_link_is_proven_by_what_was_lost_beside_what_passed(
    pods: list[FakePod], injection_of: Callable[..., Injection]
) -> None:
    injection = injection_of()
    life = NetworkLoss(traffic=Traffic.PEERS, direction=Direction.INBOUND, percent=30.0)
    await life.prepare(injection)
    await life.inject(injection)
    with chatter(pods[1], pods[0]):
        proof = await life.wait_until_effective(injection)
    packets = cast("dict[str, dict[str, int]]", proof["packets"])[pods[0].namespace]
    assert packets["dropped"] > 0
    assert packets["passed"] > 0
    await life.clean_up(injection)


async def test_a_slow_link_is_proven_by_round_trips_before_and_during(
    pods: list[FakePod], shell: OwnMachine, injection_of: Callable[..., Injection]
) -> None:
    injection = injection_of()
    life = slow(delay_ms=50.0)
    await life.prepare(injection)
    await life.inject(injection)
    proof = await life.wait_until_effective(injection)
    name = pods[0].namespace
    trips = cast("dict[str, dict[str, float]]", proof["round_trip_ms"])
    assert trips["during"][name] > 99
    assert cast("dict[str, Any]", proof["held"])[name]["mean_held_ms"] > 49
    await life.clean_up(injection)
    assert await left_behind(shell, [v.on_node for v in injection.victims]) == []


async def test_a_slow_link_that_slows_nothing_down_is_not_effective(
    pods: list[FakePod], injection_of: Callable[..., Injection]
) -> None:
    injection = injection_of(timeout_s=1.5)
    life = slow(delay_ms=300.0)
    await life.prepare(injection)
    await life.inject(injection)
    pods[0].agent("undo")  # behind the harness's back
    with pytest.raises(WaitExpired, match="must grow by 420 ms"):
        await life.wait_until_effective(injection)
    await life.clean_up(injection)


@pytest.mark.parametrize("taken_out", ["nothing", "rules", "delayer"])
async def test_a_fault_that_is_over_before_its_time_is_told_at_its_end(
    pods: list[FakePod], shell: OwnMachine, injection_of: Callable[..., Injection], taken_out: str
) -> None:
    injection, life = injection_of(), slow(delay_ms=20.0)
    await life.prepare(injection)
    await life.inject(injection)
    if taken_out == "rules":
        pods[0].agent("undo")
    elif taken_out == "delayer":
        left = await left_behind(shell, [v.on_node for v in injection.victims])
        os.kill(next(int(one.split()[-1]) for one in left if "delayer" in one), signal.SIGKILL)
        where = [victim.on_node for victim in injection.victims]

        async def is_gone() -> bool:
            return not any("delayer" in one for one in await left_behind(shell, where))

        await until(is_gone, "the delayer has ended")
    await life.recover(injection)
    assert (injection.ended_early is None) == (taken_out == "nothing")
    await life.clean_up(injection)
    assert pods[0].agent("leftovers") == []


async def test_a_narrow_link_is_proven_by_how_long_packets_were_held(
    pods: list[FakePod], injection_of: Callable[..., Injection]
) -> None:
    injection, life = injection_of(), slow(bytes_per_second=2_000)
    await life.prepare(injection)
    await life.inject(injection)
    with chatter(pods[1], pods[0]):
        proof = await life.wait_until_effective(injection)
    assert cast("dict[str, Any]", proof["held"])[pods[0].namespace]["longest_held_ms"] > 10
    await life.clean_up(injection)


def slow(*, delay_ms: float = 0.0, bytes_per_second: int = 0) -> NetworkSlow:
    return NetworkSlow(
        traffic=Traffic.PEERS,
        direction=Direction.BOTH,
        delay_ms=delay_ms,
        jitter_ms=0.0,
        bytes_per_second=bytes_per_second,
    )


@pytest.mark.parametrize("harm", ['"lost_percent": 100', '"delay_ms": 400'])
async def test_what_a_killed_harness_broke_is_healed_by_another_process(
    pods: list[FakePod], shell: OwnMachine, tmp_path: Path, harm: str
) -> None:
    _killed_after_it_broke(tmp_path, pods[0], harm, seconds=60)
    assert slow_or_cut(pods)
    (debt,) = [debt for _, debt in CleanupJournal(tmp_path).debts]
    assert isinstance(debt, JoinNetwork)
    for _ in range(2):
        await pay(cast("Any", None), debt, node=None, shell=shell)
    assert pods[0].agent("leftovers") == []

    async def is_over() -> bool:
        return not slow_or_cut(pods)

    await until(is_over, "the links are as before")


@pytest.mark.parametrize("harm", ['"lost_percent": 100', '"delay_ms": 400'])
async def test_what_a_killed_harness_broke_ends_by_itself_though_no_harness_comes_back(
    pods: list[FakePod], tmp_path: Path, harm: str
) -> None:
    assert any(is_broken_for_a_while(tmp_path, pods, harm, seconds) for seconds in LASTS_S)

    async def is_over() -> bool:
        return not slow_or_cut(pods)

    await until(is_over, "the links are as before")


def is_broken_for_a_while(folder: Path, pods: list[FakePod], harm: str, seconds: float) -> bool:
    _killed_after_it_broke(folder, pods[0], harm, seconds=seconds)
    return slow_or_cut(pods)


def slow_or_cut(pods: list[FakePod]) -> bool:
    (ms,) = pods[1].reaches(pods[0], 1, within_s=1.5)
    return ms is None or ms > 300


def _killed_after_it_broke(folder: Path, pod: FakePod, harm: str, *, seconds: float) -> None:
    order = f'{{"name": "ZQ-0000abcd", "seconds": {seconds}, "ports": [7001], {harm}}}'
    with subprocess.Popen(
        [sys.executable, "-c", _DYING, str(folder), pod.uid, order],
        stdout=subprocess.PIPE,
        text=True,
    ) as harness:
        assert harness.stdout is not None
        assert harness.stdout.readline() == "broken\n"
        os.kill(harness.pid, signal.SIGKILL)

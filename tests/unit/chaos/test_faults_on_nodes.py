"""Failed syncs, full disks, stepped clocks, a stopped operator: proofs, early ends, debts.

The node and the API server are played; what the agent does is in tests/processes/agent.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.chaos.made_up_injections import made_up_injection, made_up_victim
from zonequake_chaos.cleanup import undo
from zonequake_chaos.errors import FaultFailed
from zonequake_chaos.faults.kinds.clock_step import ClockStep
from zonequake_chaos.faults.kinds.disk_full import DiskFull
from zonequake_chaos.faults.kinds.node_outage import FINALIZER, NodeOutage
from zonequake_chaos.faults.kinds.on_the_node import ComponentKill, ComponentPause, ForceDelete
from zonequake_chaos.faults.kinds.operator import OperatorKill, OperatorPause
from zonequake_chaos.faults.kinds.power_loss import PowerLossLife
from zonequake_chaos.faults.kinds.tampered_calls import FailedFsync, SlowDisk
from zonequake_chaos.faults.life import FaultLife, Injection, end_tasks
from zonequake_chaos.node_access.own_machine import is_stopped
from zonequake_chaos.node_access.shell import NodeShell, PodOnNode
from zonequake_chaos.record.cleanup_journal import (
    CleanupJournal,
    ContinueProcess,
    EmptyVolume,
    LetSyncsPass,
    QuickenDisk,
    RestorePower,
)
from zonequake_chaos.record.cleanup_journal import RestoreClock as RestoreClockDebt
from zonequake_chaos.record.clock import SystemClock
from zonequake_chaos.scenario.faults import HELD_AT_MOST_S, FaultTarget, SlowDiskSpec, TargetRole
from zonequake_kube.client import Kube
from zonequake_kube.errors import ClusterError, NotFound, WaitExpired
from zonequake_kube.execution import ExecResult

PID = 77
HARMS = ("fail-syncs", "slow-disk", "fill", "step-clock", "mark-power", "lose-power")
VOLUME = {
    "source": "/limited/0.img",
    "device": "7:0",
    "loop": True,
    "kind": "ext4",
    "options": "rw,relatime",
    "points": [{"namespace": 1, "path": "/limited/0"}],
}
SLOW = SlowDiskSpec(
    name="slow", target=FaultTarget(role=TargetRole.ALL), delay_ms=20, files=["/data/*.wal"]
)
OPERATOR_LABEL = "app.kubernetes.io/component=operator"


class Node:
    """Plays the agent on the node: answers each verb from its own small state."""

    agent = ("agent",)

    def __init__(self, journal: Path) -> None:
        self._journal = journal
        self.asked: list[tuple[str, ...]] = []
        self.owed_before: list[str] = []
        self.failed = 3
        self.traced: list[int] = []
        self.refuses = True
        self.filled = False
        self.step_s = 0
        self.others: list[tuple[int, int]] = []
        self.absent = False
        self.marked = False
        self.unsynced_bytes = 0

    async def run(self, pod: PodOnNode, argv: Sequence[str], *, timeout_s: float = 0) -> ExecResult:
        _, verb, uid, *words = argv
        assert uid == pod.uid
        self.asked.append((verb, *words))
        if self.absent:
            return ExecResult(code=3, stdout="", stderr="no process")
        if verb in HARMS and words != ["0"]:
            self.owed_before.append(self._journal.read_text())
        return ExecResult(code=0, stdout=json.dumps(self._answer(verb, words)), stderr="")

    def _answer(self, verb: str, words: list[str]) -> object:
        match verb:
            case "fail-syncs" | "slow-disk":
                self.traced = [PID]
            case "let-syncs-pass" | "quicken-disk":
                self.traced = []
            case "volume":
                return VOLUME
            case "mark-power" | "lose-power":
                self.marked = True
            case "restore-power":
                assert json.loads(words[0]) == VOLUME
                self.marked = False
            case "fill":
                self.filled = True
            case "empty":
                self.filled = False
            case "step-clock":
                self.step_s = int(words[0])
        if "power" in verb:
            lost = {"killed": [PID], "synced_bytes": 4096, "unsynced_bytes": self.unsynced_bytes}
            return [lost] * (1 + len(words) // 2) if verb == "lose-power" else None
        if "sync" in verb or "disk" in verb:
            return {"running": [PID], "traced": self.traced, "changed": self.failed}
        if "clock" in verb:
            clocks = [(PID, self.step_s), *self.others]
            return [{"pid": pid, "step_s": step_s} for pid, step_s in clocks]
        return {
            "file_bytes": 4096 * self.filled,
            "free_bytes": 0,
            "refuses": self.filled and self.refuses,
        }


class Api:
    """Plays the API server: two pods, what a command in a container says, a server's date."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.states = "7 T\n"
        self.signals: list[int] = []
        self.ignores_step = False
        self.volumes: list[dict[str, Any]] = [{"name": "data", "persistentVolumeClaim": {}}]
        self.operators = 1
        self.uid = "uid-n0"
        self.code = 0
        self.version_is: str | None = ""
        """Empty: connections are reset; None: there is no answer."""

    async def get(self, kind: str, name: str) -> dict[str, Any]:
        return self._pod(name, self.uid if name == "n0" else f"uid-{name}")

    async def find(self, kind: str, labels: str = "") -> list[dict[str, Any]]:
        assert labels == OPERATOR_LABEL
        return [self._pod(f"op{n}", f"uid-op{n}") for n in range(self.operators)]

    def _pod(self, name: str, uid: str) -> dict[str, Any]:
        return {
            "metadata": {"name": name, "uid": uid},
            "spec": {
                "nodeName": "machine",
                "volumes": self.volumes,
                "containers": [
                    {
                        "name": "store",
                        "ports": [{"name": "http", "containerPort": 8080}],
                        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "http"}},
                        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                    }
                ],
            },
            "status": {
                "phase": "Running",
                "containerStatuses": [{"name": "store", "restartCount": 1}],
            },
        }

    async def execute(
        self, pod: str, container: str, command: list[str], *, timeout_s: float
    ) -> ExecResult:
        return ExecResult(code=self.code, stdout=self.states, stderr="")

    @contextlib.asynccontextmanager
    async def executing(
        self, pod: str, container: str, command: list[str], *, timeout_s: float, stdin: bool
    ) -> AsyncIterator[Any]:
        async def ready() -> str:
            return "ready"

        async def say(text: str) -> None:
            self.signals.append(int(command[-1]))

        async def result() -> ExecResult:
            return ExecResult(code=self.code, stdout="7\n", stderr="")

        yield SimpleNamespace(line=ready, say=say, result=result)

    async def is_refused(self) -> bool:
        return True

    async def version(self) -> str:
        if self.version_is is None:
            await asyncio.sleep(60)
        elif not self.version_is:
            raise ClusterError("the connection was reset")
        return "v1"

    async def pod_date(self, pod: str, port: int, path: str, *, scheme: str) -> datetime:
        assert (port, path, scheme) == (8080, "/healthz", "http")
        step_s = 0 if self.ignores_step else self._node.step_s
        return datetime.now(UTC) + timedelta(seconds=step_s)


class GoneAtOnce:
    """An observer whose every wait has come."""

    async def wait(self, seen: Any, **_: object) -> None:
        assert seen(SimpleNamespace(node=lambda name: None, at_ns=0))

    def process_ended(self, node: str, *, process: str | None, at_ns: int) -> None:
        """Has heard nothing of it."""


class Ticking:
    """A clock that goes on by a second at each look, so that waits end at once."""

    def __init__(self) -> None:
        self._seconds = 0

    def now(self) -> Any:
        self._seconds += 1
        return SimpleNamespace(time_ns=self._seconds * 10**9)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path / "cleanup.jsonl")


@pytest.fixture
def api(node: Node) -> Api:
    return Api(node)


@pytest.fixture
def injection(tmp_path: Path, node: Node, api: Api, monkeypatch: pytest.MonkeyPatch) -> Injection:
    monkeypatch.setattr("zonequake_chaos.faults.life._POLL_S", 0)
    return made_up_injection(
        [made_up_victim(pod_uid="uid-n0", host="machine")],
        timeout_s=3,
        hold_s=1,
        kube=api,
        shell=node,
        node=node,
        journal=CleanupJournal(tmp_path),
        clock=Ticking(),
        tasks=set(),
    )


LIVES: dict[str, tuple[Callable[[], FaultLife], type]] = {
    "failed fsync": (FailedFsync, LetSyncsPass),
    "slow disk": (lambda: SlowDisk(SLOW), QuickenDisk),
    "full disk": (DiskFull, EmptyVolume),
    "clock step": (lambda: ClockStep(step_s=-3600), RestoreClockDebt),
    "operator pause": (OperatorPause, ContinueProcess),
}


def has_no_effect(node: Node, api: Api) -> None:
    """Whatever is put in does nothing."""
    node.failed = 0
    node.refuses = False
    api.ignores_step = True
    api.states = "7 S\n"


@pytest.mark.parametrize("fault", LIVES)
async def test_a_fault_that_took_effect_is_proven_and_lasts(
    fault: str, injection: Injection
) -> None:
    life = LIVES[fault][0]()
    await life.prepare(injection)
    await life.inject(injection)
    assert await life.wait_until_effective(injection)
    await life.recover(injection)
    assert injection.ended_early is None
    await life.clean_up(injection)
    assert CleanupJournal(injection.world.journal._path.parent).debts == []


@pytest.mark.parametrize("fault", LIVES)
async def test_a_fault_without_effect_is_not_proven(
    fault: str, injection: Injection, node: Node, api: Api
) -> None:
    life = LIVES[fault][0]()
    await life.prepare(injection)
    has_no_effect(node, api)
    await life.inject(injection)
    with pytest.raises(WaitExpired):
        await life.wait_until_effective(injection)


@pytest.mark.parametrize("fault", LIVES)
async def test_a_fault_that_was_ended_before_its_time_says_so(
    fault: str, injection: Injection, node: Node, api: Api
) -> None:
    life = LIVES[fault][0]()
    await life.prepare(injection)
    await life.inject(injection)
    await life.wait_until_effective(injection)
    node.traced, node.filled, node.step_s, api.states = [], False, 0, "7 S\n"
    await life.recover(injection)
    assert injection.ended_early is not None


@pytest.mark.parametrize("fault", LIVES)
async def test_what_a_fault_owes_is_written_before_it_goes_in_and_paid_by_another_process(
    fault: str, injection: Injection, node: Node, api: Api, tmp_path: Path
) -> None:
    make, debt = LIVES[fault]
    life = make()
    await life.prepare(injection)
    await life.inject(injection)
    assert all(written.strip() for written in node.owed_before)
    (found,) = [owed for _, owed in CleanupJournal(tmp_path).debts]
    assert isinstance(found, debt)
    for _ in range(2):
        kube: Any = api
        here: Any = node
        await undo.pay(kube, found, node=None, shell=here)
    assert (node.traced, node.filled, node.step_s, node.marked) == ([], False, 0, False)
    if debt is ContinueProcess:
        assert api.signals == [19, 18, 18]


async def test_a_slow_disk_is_told_what_to_delay(injection: Injection, node: Node) -> None:
    life = SlowDisk(SLOW)
    await life.prepare(injection)
    await life.inject(injection)
    assert node.asked == [("slow-disk", "34", "20", "syncs", "/data/*.wal")]


@pytest.mark.parametrize("make", [FailedFsync, lambda: SlowDisk(SLOW)])
async def test_changed_calls_that_are_held_until_another_fault_do_not_end_by_themselves_before(
    injection: Injection, node: Node, make: Callable[[], FaultLife]
) -> None:
    """The step that ends it may come long after the time-out: its hold is not known."""
    injection.held, injection.hold_s = True, 0
    life = make()
    await life.prepare(injection)
    await life.inject(injection)
    assert float(node.asked[0][1]) == HELD_AT_MOST_S + injection.timeout_s + 30


@pytest.mark.parametrize(
    ("uid", "finalizers", "held"),
    [
        ("uid-n0", [FINALIZER], True),
        ("uid-n0", [], False),
        ("next", [FINALIZER], False),
        (None, [], False),
    ],
)
async def test_an_outage_has_lasted_only_if_the_pod_was_kept_to_its_end(
    injection: Injection, uid: str | None, finalizers: list[str], held: bool
) -> None:
    """A member that came back by itself was up while faults counted on its absence."""
    patched: list[dict[str, Any]] = []

    async def get(kind: str, name: str) -> dict[str, Any]:
        if uid is None:
            raise NotFound(f"{kind} {name} not found")
        return {"metadata": {"uid": uid, "finalizers": finalizers}}

    async def patch(kind: str, name: str, change: dict[str, Any]) -> None:
        patched.append(change["metadata"])

    injection.world.kube = SimpleNamespace(get=get, patch=patch)  # type: ignore[misc,assignment]
    await NodeOutage().recover(injection)
    assert (injection.ended_early is None) == held
    assert len(patched) == len(finalizers), "what is there of it is undone in any case"


@pytest.mark.parametrize("stopped", [["kubelet"], []])
async def test_a_forced_deletion_has_lasted_only_if_the_kubelet_hung_to_its_end(
    injection: Injection, stopped: list[str]
) -> None:
    resumed: list[str] = []
    node = SimpleNamespace(stopped_components=lambda: stopped, resume=resumed.append)
    injection.world.node = node  # type: ignore[misc,assignment]
    await ForceDelete().recover(injection)
    assert (injection.ended_early is None) == bool(stopped)
    assert resumed == ["kubelet"]


async def test_a_power_loss_is_owed_before_it_and_proven_by_what_is_gone(
    injection: Injection, node: Node, api: Api, tmp_path: Path
) -> None:
    injection.world.observer = GoneAtOnce()  # type: ignore[misc,assignment]
    other = dataclasses.replace(injection.victims[0], node="n1", pod_uid="uid-n1")
    injection.victims = (*injection.victims, other)
    life = PowerLossLife()
    await life.prepare(injection)
    assert [owed for _, owed in CleanupJournal(tmp_path).debts] != []
    assert not node.marked
    await life.inject(injection)
    assert all(written.count("restore_power") == 2 for written in node.owed_before)
    assert [asked for asked in node.asked if asked[0] == "lose-power"] == [
        ("lose-power", "/data", "uid-n1", "/data")
    ], "both at the same moment"
    proof = await life.wait_until_effective(injection)
    assert proof["killed"] == {"n0": [PID], "n1": [PID]}
    kube, here = cast("Kube", api), cast("NodeShell", node)
    for _, debt in CleanupJournal(tmp_path).debts:
        assert isinstance(debt, RestorePower)
        for _ in range(2):
            await undo.pay(kube, debt, node=None, shell=here)
    assert not node.marked
    await life.clean_up(injection)
    assert CleanupJournal(tmp_path).debts == []


async def test_a_power_loss_that_kept_what_was_not_synced_is_not_proven(
    injection: Injection, node: Node
) -> None:
    life = PowerLossLife()
    await life.prepare(injection)
    node.unsynced_bytes = 17
    await life.inject(injection)
    with pytest.raises(FaultFailed, match="there are 4096 bytes that were synced and 17 that were"):
        await life.wait_until_effective(injection)


async def test_a_pod_without_a_claims_volume_loses_no_power(
    injection: Injection, api: Api, node: Node
) -> None:
    api.volumes = []
    with pytest.raises(FaultFailed, match="has no volume from a claim"):
        await PowerLossLife().prepare(injection)
    assert (node.asked, injection.debts) == ([], [])


async def test_a_clock_whose_processes_ended_before_its_time_says_so(
    injection: Injection, node: Node
) -> None:
    life = ClockStep(step_s=60)
    await life.prepare(injection)
    await life.inject(injection)
    node.absent = True
    await life.recover(injection)
    assert injection.ended_early == "all processes of n0 were replaced"


@pytest.mark.parametrize(
    ("now", "why"),
    [
        ([(80, 60)], None),
        ([(79, 60), (80, 60)], None),
        ([(80, 0)], "n0 had a process with the machine's clock"),
    ],
)
async def test_children_that_come_and_go_have_the_clock_of_their_parent(
    injection: Injection, node: Node, now: list[tuple[int, int]], why: str | None
) -> None:
    """PostgreSQL forks a process for each connection; one that was started anew has its own."""
    life = ClockStep(step_s=60)
    await life.prepare(injection)
    node.others = [(78, 60)]
    await life.inject(injection)
    node.others = now
    await life.recover(injection)
    assert injection.ended_early == why


class Component:
    """A node whose API server is a process that sleeps; `deaf`: nothing stops it."""

    def __init__(self, pid: int, *, deaf: bool = False) -> None:
        self.pid = pid
        self._deaf = deaf
        self.kills_end = False

    def pause(self, component: str) -> int:
        if not self._deaf:
            os.kill(self.pid, signal.SIGSTOP)
        return self.pid

    def resume(self, component: str) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self, component: str) -> int:
        if self.kills_end:
            raise PermissionError("not yours")
        return self.pid


@pytest.fixture
def sleeping(injection: Injection) -> Iterator[int]:
    """A real process, and real time for what happens to it."""
    injection.world.clock = SystemClock()  # type: ignore[misc]
    injection.timeout_s = 60.0
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process.pid
        process.kill()


@pytest.mark.parametrize("resumed", [False, True])
async def test_a_paused_component_is_proven_by_the_kernel_and_watched_to_its_end(
    injection: Injection, sleeping: int, resumed: bool
) -> None:
    injection.world.node = Component(sleeping)  # type: ignore[misc,assignment]
    life = ComponentPause(component="kube-apiserver")
    await life.prepare(injection)
    await life.inject(injection)
    proof = await life.wait_until_effective(injection)
    assert proof == {"component": "kube-apiserver", "pid": sleeping}
    if resumed:
        os.kill(sleeping, signal.SIGCONT)
        while is_stopped(sleeping):  # noqa: ASYNC110 - the kernel has no event for it
            await asyncio.sleep(0.01)
    await life.recover(injection)
    assert (injection.ended_early is not None) == resumed
    await life.clean_up(injection)


async def test_a_component_that_runs_on_is_not_proven_to_be_paused(
    injection: Injection, sleeping: int
) -> None:
    injection.world.node = Component(sleeping, deaf=True)  # type: ignore[misc,assignment]
    injection.timeout_s = 0.3
    life = ComponentPause(component="kube-apiserver")
    await life.prepare(injection)
    await life.inject(injection)
    with pytest.raises(WaitExpired, match="runs on"):
        await life.wait_until_effective(injection)


async def begun(life: ComponentKill, injection: Injection) -> asyncio.Task[None]:
    """Injects it, and returns the task that kills again and again."""
    before = asyncio.all_tasks()
    await life.inject(injection)
    (kills,) = asyncio.all_tasks() - before
    return kills


async def test_kills_that_have_stopped_are_told_with_their_cause(
    injection: Injection, api: Api, sleeping: int
) -> None:
    node = Component(sleeping)
    injection.world.node = node  # type: ignore[misc,assignment]
    life = ComponentKill(component="kube-apiserver")
    kills = await begun(life, injection)
    assert (await life.wait_until_effective(injection))["refused"] is True
    node.kills_end = True
    await asyncio.wait([kills])
    await life.recover(injection)
    assert injection.ended_early is not None
    assert "not yours" in injection.ended_early
    again = ComponentKill(component="kube-apiserver")
    await asyncio.wait([await begun(again, injection)])
    with pytest.raises(FaultFailed, match=r"kills of .* ended: PermissionError: not yours"):
        await again.wait_until_effective(injection)
    await again.clean_up(injection)


@pytest.mark.parametrize(
    ("version_is", "ended"),
    [("", None), (None, None), ("v1", "kube-apiserver answered before its outage ended")],
)
async def test_an_outage_has_ended_early_only_if_a_request_is_answered(
    injection: Injection, api: Api, sleeping: int, version_is: str | None, ended: str | None
) -> None:
    injection.world.node = Component(sleeping)  # type: ignore[misc,assignment]
    life = ComponentKill(component="kube-apiserver")
    await life.inject(injection)
    await life.wait_until_effective(injection)
    api.version_is = version_is
    await life.recover(injection)
    assert injection.ended_early == ended
    await life.clean_up(injection)


async def test_kills_of_a_fault_that_is_interrupted_end_with_the_tasks_of_its_run(
    injection: Injection, sleeping: int
) -> None:
    injection.world.node = Component(sleeping)  # type: ignore[misc,assignment]
    kills = await begun(ComponentKill(component="kube-apiserver"), injection)
    await end_tasks(injection.world.tasks)
    assert kills.cancelled()
    assert injection.world.tasks == set()


async def test_a_kill_that_has_begun_has_ended_when_the_kills_have(
    injection: Injection, sleeping: int
) -> None:
    began, ended = threading.Event(), threading.Event()

    class Slow(Component):
        def kill(self, component: str) -> int:
            began.set()
            time.sleep(0.3)
            ended.set()
            return self.pid

    injection.world.node = Slow(sleeping)  # type: ignore[misc,assignment]
    life = ComponentKill(component="kube-apiserver")
    await life.inject(injection)
    await asyncio.to_thread(began.wait)
    await life.clean_up(injection)
    assert ended.is_set()


async def test_a_command_in_a_pod_that_fails_is_no_proof_and_pays_nothing(
    injection: Injection, api: Api
) -> None:
    life = OperatorPause()
    await life.prepare(injection)
    await life.inject(injection)
    api.code = 137
    with pytest.raises(FaultFailed, match="exit code 137"):
        await life.wait_until_effective(injection)
    with pytest.raises(FaultFailed, match="SIGCONT in pod op0: exit code 137"):
        await life.clean_up(injection)
    assert injection.debts, "it is still owed"


async def test_a_member_that_ended_on_its_full_disk_is_waited_for_and_its_volume_emptied(
    injection: Injection, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kubelet starts it again after a while; until then nothing can reach the volume."""
    life = DiskFull()
    await life.prepare(injection)
    await life.inject(injection)
    answer, away = node._answer, [True, True]

    async def run(pod: PodOnNode, argv: Sequence[str], *, timeout_s: float = 0) -> ExecResult:
        if away:
            away.pop()
            return ExecResult(code=3, stdout="", stderr="no process")
        return ExecResult(code=0, stdout=json.dumps(answer(argv[1], list(argv[3:]))), stderr="")

    monkeypatch.setattr(node, "run", run)
    await life.recover(injection)
    assert injection.ended_early is None
    assert not node.filled
    away += [True] * 9
    with pytest.raises(WaitExpired, match=r"nothing has the volume now: .*no process"):
        await life.clean_up(injection)
    assert injection.debts, "it is still owed"


async def test_a_volume_is_emptied_through_the_pod_that_has_it_now(
    injection: Injection, node: Node, api: Api
) -> None:
    life = DiskFull()
    await life.prepare(injection)
    await life.inject(injection)
    api.uid = "uid-of-the-successor"
    await life.clean_up(injection)
    assert node.filled is False


async def test_a_clock_whose_processes_have_ended_owes_nothing(
    injection: Injection, node: Node, api: Api
) -> None:
    life = ClockStep(step_s=60)
    await life.prepare(injection)
    node.absent = True
    await life.clean_up(injection)
    assert injection.debts == []


async def test_a_pod_without_a_claims_volume_is_not_filled(injection: Injection, api: Api) -> None:
    api.volumes = []
    with pytest.raises(FaultFailed, match="no volume from a claim"):
        await DiskFull().prepare(injection)


@pytest.mark.parametrize("step_s", [0, 2, -3])
async def test_a_step_that_could_not_be_told_from_none_is_refused(
    step_s: int, injection: Injection
) -> None:
    with pytest.raises(FaultFailed, match="is too small to be measured"):
        await ClockStep(step_s=step_s).prepare(injection)


async def test_a_killed_operator_is_proven_by_the_process_that_the_signal_met(
    injection: Injection, api: Api
) -> None:
    life = OperatorKill()
    await life.prepare(injection)
    await life.inject(injection)
    assert await life.wait_until_effective(injection) == {"killed": {"op0": "process 7"}}
    assert api.signals == [9]


async def test_a_release_without_an_operator_can_have_none_paused(
    injection: Injection, api: Api
) -> None:
    api.operators = 0
    with pytest.raises(FaultFailed, match="no pod with the labels"):
        await OperatorPause().prepare(injection)

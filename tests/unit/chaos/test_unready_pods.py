"""A pod that isn't ready is named with its reason, and a node with what it suffers from."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from zonequake_kube import diagnosis
from zonequake_kube.client import Kube
from zonequake_kube.diagnosis import explained, look_at_operator, look_at_pods
from zonequake_kube.errors import ClusterError, HarnessError, WaitExpired
from zonequake_kube.unready import MOST_PODS, node_trouble, pod_trouble, trouble_lines

GATE = "zonequake.io/caught-up"
Made = dict[str, Any]


def condition(kind: str, status: str, reason: str = "", message: str = "") -> Made:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def pod(phase: str, *conditions: Made, containers: tuple[Made, ...] = (), **status: object) -> Made:
    return {
        "metadata": {"name": "zq-operator-x"},
        "spec": {"readinessGates": [{"conditionType": GATE}]},
        "status": {
            "phase": phase,
            "conditions": list(conditions),
            "containerStatuses": list(containers),
            **status,
        },
    }


def container(state: Made, *, ready: bool = False, restarts: int = 0, last: int = 0) -> Made:
    ended = {"terminated": {"exitCode": last, "reason": "Error"}} if last else {}
    return {
        "name": "operator",
        "state": state,
        "ready": ready,
        "restartCount": restarts,
        "lastState": ended,
    }


READY = pod("Running", condition("Ready", "True"), containers=(container({}, ready=True),))
EVICTED = pod(
    "Failed",
    condition("DisruptionTarget", "True", "TerminationByKubelet"),
    reason="Evicted",
    message="The node was low on resource: ephemeral-storage.\nThreshold quantity: 5Gi",
)
UNSCHEDULABLE = pod(
    "Pending",
    condition(
        "PodScheduled",
        "False",
        "Unschedulable",
        "0/1 nodes are available: 1 node(s) had untolerated taint(s).",
    ),
)
CRASHES = pod(
    "Running",
    condition("Ready", "False", "ContainersNotReady", "containers with unready status: [operator]"),
    condition(GATE, "True"),
    containers=(
        container(
            {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 1s"}},
            restarts=7,
            last=137,
        ),
    ),
)
TAINT = {"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}
PRESSED: Made = {
    "metadata": {"name": "zonequake-1"},
    "spec": {"taints": [TAINT, {"key": "soft", "effect": "PreferNoSchedule"}]},
    "status": {
        "conditions": [
            condition("MemoryPressure", "False", "KubeletHasSufficientMemory"),
            condition("DiskPressure", "True", "HasDiskPressure", "the disk is full"),
            condition("Ready", "True", "KubeletReady"),
        ]
    },
}
PRESSED_WORDS = (
    "node zonequake-1: DiskPressure: HasDiskPressure: the disk is full; "
    "taint node.kubernetes.io/disk-pressure:NoSchedule"
)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (
            EVICTED,
            "Failed: Evicted: The node was low on resource: ephemeral-storage. "
            "Threshold quantity: 5Gi",
        ),
        (
            UNSCHEDULABLE,
            "Pending: Unschedulable: 0/1 nodes are available: 1 node(s) had untolerated taint(s).",
        ),
        (
            CRASHES,
            "Running: container operator waits: CrashLoopBackOff: back-off 1s, "
            "restarted 7 times, before that ended with exit code 137 (Error)",
        ),
        (
            pod(
                "Running",
                condition("Ready", "False"),
                condition(GATE, "True"),
                containers=(container({"terminated": {"exitCode": 1, "reason": "Error"}}),),
            ),
            "Running: container operator ended with exit code 1 (Error)",
        ),
        (
            pod(
                "Running",
                condition("Ready", "False", "ReadinessGatesNotReady"),
                condition(GATE, "False", "Behind", "A replica here is behind."),
                containers=(container({"running": {}}, ready=True, restarts=2),),
            ),
            f"Running: readiness gate {GATE} is False: Behind: A replica here is behind.",
        ),
        (
            pod("Running", containers=(container({"running": {}}),)),
            f"Running: container operator runs and is not ready; readiness gate {GATE} was never "
            "set",
        ),
        (
            pod("Pending", condition("PodReadyToStartContainers", "False")),
            "Pending: PodReadyToStartContainers is False",
        ),
        (
            pod(
                "Pending",
                initContainerStatuses=[
                    {"name": "first", "state": {"terminated": {"exitCode": 0}}},
                    {"name": "next", "state": {"waiting": {"reason": "ErrImagePull"}}},
                ],
            ),
            "Pending: container next waits: ErrImagePull",
        ),
        (pod("Pending"), "Pending: no reason is given"),
    ],
)
def test_a_pod_that_is_not_ready_says_why(found: Made, words: str) -> None:
    assert pod_trouble(found) == f"pod zq-operator-x: {words}"


def test_a_pod_that_just_came_and_one_that_goes_are_told_of() -> None:
    assert pod_trouble({"metadata": {"name": "new"}}) == "pod new: Unknown: no reason is given"
    going = {**READY, "metadata": {"name": "old", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert pod_trouble(going) == (
        f"pod old: Running: being deleted since 2026-01-01T00:00:00Z; "
        f"readiness gate {GATE} was never set"
    )


def test_a_pod_that_is_ready_or_has_ended_well_is_no_trouble() -> None:
    assert pod_trouble(READY) is None
    assert pod_trouble(pod("Succeeded")) is None


def test_a_node_is_named_with_its_pressures_and_taints_or_not_at_all() -> None:
    assert node_trouble(PRESSED) == PRESSED_WORDS
    ready = condition("Ready", "True")
    assert node_trouble({"metadata": {"name": "n"}, "status": {"conditions": [ready]}}) is None
    unknown = condition("Ready", "Unknown", "NodeStatusUnknown", "Kubelet stopped posting.")
    lost = {"metadata": {"name": "n"}, "spec": {"unschedulable": True}}
    lost["status"] = {"conditions": [unknown]}
    assert node_trouble(lost) == (
        "node n: NotReady: NodeStatusUnknown: Kubelet stopped posting.; cordoned"
    )


def test_dozens_of_evicted_pods_hide_no_pod_that_waits() -> None:
    lines = trouble_lines([EVICTED] * 30 + [READY, UNSCHEDULABLE], [PRESSED])
    assert "Unschedulable" in lines[0]
    assert lines[-2:] == [f"and {31 - MOST_PODS} pods more", PRESSED_WORDS]
    assert len(lines) == MOST_PODS + 2


class Server:
    """A made-up API server; what it may not tell is an error."""

    def __init__(self, **kinds: list[Made] | ClusterError) -> None:
        self.kinds = kinds

    async def _told(self, kind: str) -> list[Made]:
        told = self.kinds.get(kind, [])
        if isinstance(told, ClusterError):
            raise told
        return told

    async def find(self, kind: str, _: str = "") -> list[Made]:
        return await self._told(kind)

    async def nodes(self) -> list[Made]:
        return await self._told("Node")


def kube(**kinds: list[Made] | ClusterError) -> Kube:
    return cast("Kube", Server(**kinds))


async def test_an_account_of_one_namespace_sees_the_pods_alone() -> None:
    refused = ClusterError("forbidden", status=403)
    lines = await look_at_pods(kube(Pod=[EVICTED, READY], Node=refused), ("a=b",))
    assert len(lines) == 1
    assert await look_at_pods(kube(Pod=[READY]), ("a=b",)) == []
    assert await look_at_pods(kube(Node=[PRESSED]), ("a=b", "c=d")) == [
        "found no pod of a=b or c=d",
        PRESSED_WORDS,
    ]


async def test_an_api_server_that_says_nothing_hides_no_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused = ClusterError("gone")
    assert await look_at_pods(kube(Pod=refused), ("a=b",)) == ["the pods could not be read: gone"]
    assert await look_at_operator(kube(Pod=refused)) == (
        "the operator's state could not be read: gone"
    )
    assert await look_at_operator(kube(Lease=refused)) == "there is no pod of the operator"

    async def never(*_: object) -> list[Made]:
        await asyncio.Event().wait()
        return []

    monkeypatch.setattr(diagnosis, "LOOK_S", 0.01)
    monkeypatch.setattr(Server, "find", never)
    assert await look_at_pods(kube(), ("a=b",)) == ["the pods could not be read: no answer in time"]


async def test_the_operators_state_tells_also_what_became_of_a_pod_that_is_ready() -> None:
    restarted = pod(
        "Running",
        condition("Ready", "True"),
        containers=(container({"running": {}}, ready=True, restarts=1, last=1),),
    )
    lease: Made = {
        "metadata": {"name": "zq-operator"},
        "spec": {
            "holderIdentity": "zq-operator-x-1f",
            "renewTime": "2026-01-01T00:00:00.000000Z",
            "leaseDurationSeconds": 9,
        },
    }
    unheld = {"metadata": {"name": "other"}, "spec": {"holderIdentity": ""}}
    state = await look_at_operator(
        kube(Pod=[restarted, EVICTED], Lease=[lease, unheld], Node=[PRESSED]),
        now=datetime(2026, 1, 1, 0, 1, 35, tzinfo=UTC),
    )
    assert state == "; ".join(
        [
            "pod zq-operator-x is ready, restarted 1 times, before that ended with exit code 1 "
            "(Error)",
            str(pod_trouble(EVICTED)),
            PRESSED_WORDS,
            "Lease zq-operator is held by zq-operator-x-1f, renewed 95 s ago, and lasts 9 s",
            "Lease other has no holder",
        ]
    )
    assert await look_at_operator(kube()) == "there is no pod of the operator"


async def failing(*errors: Exception) -> None:
    async with asyncio.TaskGroup() as group:
        for error in errors:
            group.create_task(one(error))


async def one(error: Exception) -> None:
    raise error


async def test_a_wait_that_expired_is_explained_and_any_other_error_is_left_alone() -> None:
    server = kube(Pod=[UNSCHEDULABLE])
    late, worse = WaitExpired("not within 9 s"), HarnessError("its plan is wrong")
    for work in (lambda: one(late), lambda: failing(late)):
        with pytest.raises(WaitExpired) as told:
            await explained(server, ("a=b",), work)
        assert str(told.value) == f"not within 9 s; {pod_trouble(UNSCHEDULABLE)}"
    with pytest.raises(HarnessError) as raised:
        await explained(server, ("a=b",), lambda: one(worse))
    assert raised.value is worse
    with pytest.raises(ExceptionGroup) as group:
        await explained(server, ("a=b",), lambda: failing(late, worse))
    assert set(group.value.exceptions) == {late, worse}

    async def well() -> int:
        return 7

    assert await explained(server, ("a=b",), well) == 7

"""Every load pod is called, whatever another one answers, and each failure is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from tests.unit.installed import installed
from zonequake_chaos.kit.client_code import ClientCode
from zonequake_chaos.load.pods import LoadPods
from zonequake_chaos.record.clock import SystemClock
from zonequake_kube.client import Kube
from zonequake_kube.errors import ClusterError, HarnessError, WaitExpired
from zonequake_load.pod.control import LoadPlan, Phase


class Pods:
    """Three load pods with a history of three bytes each; `failing` ones raise their error."""

    def __init__(self, failing: dict[int, Exception]) -> None:
        self.entered: list[str] = []
        self._failing = {f"load-{ordinal}": error for ordinal, error in failing.items()}

    async def pod_proxy(self, pod: str, port: int, path: str, **_: Any) -> bytes:
        if pod in self._failing:
            raise self._failing[pod]
        if path == "/phase":
            self.entered.append(pod)
        files = [{"name": f"{pod}.jsonl", "size_bytes": 3, "open": False}]
        return json.dumps({"files": files}).encode()

    async def pod_download(self, pod: str, port: int, path: str, sink: Any, **_: Any) -> None:
        sink(b"{}\n")

    def load(self, connect: str = "a:connect") -> LoadPods:
        plan = LoadPlan(client=connect, zone="z", seeds=["zq:7080"], pods=3)
        return LoadPods(
            kube=cast("Kube", self),
            clock=SystemClock(),
            name="load",
            plan=plan,
            code=ClientCode(connect=plan.client),
        )


def refused(text: str) -> ClusterError:
    return ClusterError(text, status=409)


def names_in(folder: Path) -> list[str]:
    return [file.name for file in folder.iterdir()]


async def test_a_pod_that_refuses_a_phase_keeps_no_other_one_out_of_it() -> None:
    pods = Pods({0: refused("load-0 ended"), 2: refused("load-2 ended")})
    with pytest.raises(ClusterError, match=r"^load-0 ended; load-2 ended$"):
        await pods.load().enter(Phase.QUIET)
    assert pods.entered == ["load-1"]


async def test_histories_of_other_pods_are_there_if_one_can_not_be_had(tmp_path: Path) -> None:
    pods = Pods({0: HarnessError("load-0 has no disk"), 1: refused("load-1 ended")})
    with pytest.raises(HarnessError, match=r"^load-0 has no disk; load-1 ended$") as told:
        await pods.load().collect(tmp_path)
    assert not isinstance(told.value, ClusterError), "one of the two is no answer of the cluster"
    assert names_in(tmp_path) == ["load-2.jsonl"]


async def test_an_error_of_the_code_is_not_taken_for_an_answer_of_the_cluster(
    tmp_path: Path,
) -> None:
    pods = Pods({0: refused("load-0 ended"), 1: TypeError("no such argument")})
    for call in (pods.load().enter(Phase.QUIET), pods.load().collect(tmp_path)):
        with pytest.raises(TypeError, match="no such argument"):
            await call
    assert pods.entered == ["load-2"]
    assert names_in(tmp_path) == ["load-2.jsonl"]


class WrongPlan(Pods):
    """Load pods that end because they can't read their plan, again and again."""

    def __init__(self, *, state: str) -> None:
        super().__init__({})
        self._state = {"name": "load", state: {"terminated": {"exitCode": 254}}}

    async def apply(self, manifest: Any) -> None:
        pass

    async def get(self, kind: str, name: str) -> Any:
        return {
            "metadata": {"name": name},
            "spec": {"containers": [{"image": "some/store:0.1.0"}]},
            "status": {"containerStatuses": [self._state]},
        }

    async def logs(self, pod: str, container: str, *, previous: bool = False) -> bytes:
        if not previous:
            raise ClusterError("the container waits to start")
        return b"2026-01-01T00:00:00Z begins\n2026-01-01T00:00:01Z ERROR found a field `client`\n"


@pytest.mark.parametrize("state", ["state", "lastState"])
async def test_a_load_that_does_not_take_its_plan_ends_the_wait_at_once(state: str) -> None:
    installation = installed(load_image="some/store:0.1.0")
    load = WrongPlan(state=state).load(connect="zonequake_target_store.client:connect")
    told = (
        r"^load-0 ended with exit code 254: ERROR found a field `client`; .*some/store:0\.1\.0.*"
        "images.load$"
    )
    with pytest.raises(HarnessError, match=told) as found:
        await load.start(run_id="r", installation=installation, timeout_s=3600)
    assert not isinstance(found.value, WaitExpired)

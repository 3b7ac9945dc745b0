"""A driver whose executors are pods waits for what may come, and ends with the cause otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.analysis.test_placement import FakeTime, session
from tests.unit.analysis_pods.test_pods_of_an_analysis import pod_with
from zonequake_analysis.cluster.reach import CONNECT_S
from zonequake_analysis.errors import SessionError
from zonequake_analysis.pods import executors
from zonequake_analysis.pods.driver_reached import TRIED_S
from zonequake_analysis.spark_pass import placement
from zonequake_analysis.spark_pass.placement import check_placement

MASTER = "k8s://https://kubernetes.default.svc"
NO_IMAGE = pod_with({"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}})
STARTING = pod_with({"waiting": {"reason": "ContainerCreating"}})
RUNNING = pod_with({"running": {}})
UNREACHED = "can't reach the driver at 10.0.0.9:7078 (timed out)"
BARRED = pod_with({"terminated": {"exitCode": 255, "message": UNREACHED}})


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The executors that the API server has; None: it can't be asked."""
    pods: list[Any] = [[]]
    monkeypatch.setattr(executors, "_pods", lambda _: pods[0])
    monkeypatch.setattr(executors, "_refusal", lambda _: "the API server refuses executors: no")
    monkeypatch.setattr(placement, "_LOOK_S", 0.0)
    monkeypatch.setattr(placement, "_POLL_S", 0.001)
    return pods


def told(**limits: float) -> str:
    """The error of a driver to which none comes."""
    with pytest.MonkeyPatch.context() as patched:
        for name, seconds in limits.items():
            patched.setattr(placement, name, seconds)
        spark = session(MASTER, ("driver", "10.0.0.9:1", 0))
        with pytest.raises(SessionError) as caught:
            check_placement(spark, MASTER)
    assert spark.stopped == [True]
    return str(caught.value)


def test_an_image_that_is_not_there_ends_it_at_once(asked: list[Any]) -> None:
    asked[0] = [NO_IMAGE, NO_IMAGE]
    assert "can't be pulled: ImagePullBackOff (no such image)" in told()


def test_pods_that_the_server_refuses_end_it_with_its_words(asked: list[Any]) -> None:
    del asked
    assert told(REACH_S=0.0) == "the API server refuses executors: no"


def test_a_pod_that_does_not_start_is_named_when_its_time_is_over(asked: list[Any]) -> None:
    asked[0] = [STARTING]
    assert "has not started pod p yet" in told(REACH_S=0.02)


@pytest.mark.parametrize("pods", [[RUNNING], [NO_IMAGE, RUNNING], None])
def test_one_that_started_and_does_not_connect_gets_longer_and_names_the_drivers_address(
    asked: list[Any], pods: Any
) -> None:
    asked[0] = pods
    said = told(REACH_S=0.0, REGISTER_S=0.05)
    assert "none connected to this process at 10.0.0.9" in said
    assert "network policy" in said


def test_pods_that_all_say_that_they_can_not_reach_the_driver_end_it_at_once(
    asked: list[Any],
) -> None:
    asked[0] = [BARRED, BARRED]
    said = told()
    assert f"pod p {UNREACHED}" in said
    assert "a network policy or a firewall bars the way" in said


def test_one_that_said_so_is_told_within_a_minute_of_its_start_though_spark_made_another(
    asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeTime()
    starts_s, seen_s = 50.0, 50.0 + TRIED_S + CONNECT_S

    def pods(_: object) -> list[Any]:
        if clock.now_s < starts_s:
            return [STARTING]
        return [RUNNING, BARRED] if seen_s < clock.now_s < seen_s + 2 else [RUNNING, STARTING]

    monkeypatch.setattr(placement, "time", clock)
    monkeypatch.setattr(placement, "_POLL_S", 0.2)
    monkeypatch.setattr(placement, "_LOOK_S", 1.0)
    monkeypatch.setattr(executors, "_pods", pods)
    assert f"pod p {UNREACHED}" in told()
    assert seen_s < clock.now_s < starts_s + 60
    del asked


def test_one_that_says_nothing_gets_three_minutes(
    asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeTime()
    monkeypatch.setattr(placement, "time", clock)
    monkeypatch.setattr(placement, "_POLL_S", 0.2)
    asked[0] = [RUNNING]
    assert "within 180 s" in told()
    assert clock.now_s == pytest.approx(180, abs=1)


def test_another_that_comes_although_one_said_so_is_enough(
    asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked[0] = [BARRED, RUNNING]
    came = iter([False] * 5)
    monkeypatch.setattr(placement, "_others", lambda _: next(came, True))
    check_placement(session(MASTER, ("driver", "d:1", 0)), MASTER)


def test_one_that_comes_ends_the_wait(asked: list[Any]) -> None:
    asked[0] = [NO_IMAGE]
    check_placement(session(MASTER, ("driver", "d:1", 0), ("1", "w:1", 0)), MASTER)

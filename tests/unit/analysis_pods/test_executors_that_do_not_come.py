"""A driver whose executors are pods waits for what may come, and ends with the cause otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.analysis.test_placement import session
from tests.unit.analysis_pods.test_pods_of_an_analysis import pod_with
from zonequake_analysis.errors import SessionError
from zonequake_analysis.pods import executors
from zonequake_analysis.spark_pass import placement
from zonequake_analysis.spark_pass.placement import check_placement

MASTER = "k8s://https://kubernetes.default.svc"
NO_IMAGE = pod_with({"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}})
STARTING = pod_with({"waiting": {"reason": "ContainerCreating"}})
RUNNING = pod_with({"running": {}})


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


def test_one_that_comes_ends_the_wait(asked: list[Any]) -> None:
    asked[0] = [NO_IMAGE]
    check_placement(session(MASTER, ("driver", "d:1", 0), ("1", "w:1", 0)), MASTER)

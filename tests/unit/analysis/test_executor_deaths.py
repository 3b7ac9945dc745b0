"""Executors that only die end the analysis with their reason; those that work never do."""

from __future__ import annotations

import threading
from types import SimpleNamespace as Made
from typing import Any

import pytest

from zonequake_analysis.errors import SessionError
from zonequake_analysis.spark_pass import executor_deaths
from zonequake_analysis.spark_pass.executor_deaths import (
    MOST_DEATHS,
    OfContext,
    OfServer,
    Waited,
    ended_if_executors_die,
)
from zonequake_analysis.spark_pass.placement import REACH_S, REGISTER_S

CLUSTER = "spark://a:1"


def executor(name: str, *, alive: bool = False, completed: int = 0, reason: str = "") -> Any:
    """As Spark's JVM tells of one."""
    return Made(
        id=lambda: name,
        isActive=lambda: alive,
        completedTasks=lambda: completed,
        removeReason=lambda: Made(isDefined=lambda: bool(reason), get=lambda: reason),
    )


def session(*known: Any, master: str = CLUSTER, stages: tuple[int, ...] = (7,)) -> Any:
    """A session that sees these executors, and has these stages under way; a job in it waits until
    it is cancelled.
    """
    found = Made(size=lambda: len(known), apply=lambda number: known[number])
    store = Made(statusStore=lambda: Made(executorList=lambda active: found))
    cancelled = threading.Event()
    context = Made(
        master=master,
        _jsc=Made(sc=lambda: store),
        cancelAllJobs=cancelled.set,
        cancelled=cancelled,
        statusTracker=lambda: Made(getActiveStageIds=lambda: list(stages)),
    )
    return Made(_sc=context)


class Server:
    """A session at a Spark Connect server: without a context, and with reports of progress."""

    def __init__(self) -> None:
        self.handlers: list[Any] = []
        self.cancelled = threading.Event()
        """Set when its operations are interrupted."""
        self.registerProgressHandler = self.handlers.append
        self.removeProgressHandler = self.handlers.remove
        self.interruptAll = self.cancelled.set

    def report(self, inflight: int, *stages: tuple[int, int], done: bool = False) -> None:
        """Reports stages of (completed tasks, tasks), as the client does."""
        told = [
            Made(num_completed_tasks=some, num_tasks=most, done=some == most)
            for some, most in stages
        ]
        (handler,) = self.handlers
        handler(stages=told, inflight_tasks=inflight, operation_id="a", done=done)

    def waiting_job(self) -> None:
        """Waits with three of four tasks until it is interrupted."""
        self.report(0, (2, 2), (1, 4))
        waiting_until(self.cancelled)


def waiting_job(spark: Any) -> None:
    waiting_until(spark._sc.cancelled)


def waiting_until(cancelled: threading.Event) -> None:
    assert cancelled.wait(60)
    raise RuntimeError("Job 0 cancelled as part of cancellation of all jobs")


DEAD = [executor(str(number), reason="code\n 1") for number in range(MOST_DEATHS)]
DRIVER = executor("driver", alive=True, completed=0)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor_deaths, "_POLL_S", 0.001)


def test_executors_that_only_die_end_a_waiting_job_with_their_reason() -> None:
    spark = session(DRIVER, *DEAD, executor("8", alive=True))
    with (
        pytest.raises(
            SessionError, match=rf"{MOST_DEATHS} executors of {CLUSTER}.*: code 1\).*stderr"
        ),
        ended_if_executors_die(spark),
    ):
        waiting_job(spark)


@pytest.mark.parametrize(
    "known",
    [
        [DRIVER],
        [DRIVER, *DEAD[1:]],
        [DRIVER, *DEAD, executor("8", alive=True, completed=1)],
        [DRIVER, *DEAD, executor("8", completed=1)],
    ],
    ids=["none", "one fewer", "another works", "one of the dead had worked"],
)
def test_as_long_as_it_may_go_well_nothing_is_cancelled(known: list[Any]) -> None:
    spark = session(*known)
    assert OfContext(spark._sc).why(0.0) is None
    with ended_if_executors_die(spark):
        pass


def test_an_error_of_the_analysis_itself_stays_what_it_is() -> None:
    with pytest.raises(ValueError, match="own"), ended_if_executors_die(session(DRIVER)):
        raise ValueError("own")


def test_without_a_cluster_nothing_is_watched() -> None:
    before = threading.active_count()
    with ended_if_executors_die(session(*DEAD, master="local[2]")):
        assert threading.active_count() == before


GONE = executor("0", completed=9, reason="worker lost")


def test_tasks_that_wait_when_the_last_executor_is_gone_end_with_its_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(executor_deaths, "REACH_S", 0.01)
    spark = session(DRIVER, GONE)
    with (
        pytest.raises(
            SessionError,
            match=rf"no executor of {CLUSTER} was there.*1 had been.*: worker lost\); its workers.*"
            "bring one back",
        ),
        ended_if_executors_die(spark),
    ):
        waiting_job(spark)


@pytest.mark.parametrize(
    ("known", "stages"),
    [([DRIVER, GONE, executor("1", alive=True)], (7,)), ([DRIVER, GONE], ())],
    ids=["another is there", "no task waits"],
)
def test_executors_that_are_there_or_not_needed_end_nothing(
    known: list[Any], stages: tuple[int, ...]
) -> None:
    watched = OfContext(session(*known, stages=stages)._sc)
    assert [watched.why(now_s) for now_s in (0.0, REACH_S, 10 * REACH_S)] == [None] * 3


def test_the_time_without_one_begins_again_when_one_was_there() -> None:
    waited = Waited()
    looks = [(0.0, True), (50.0, True), (59.0, False), (61.0, True), (120.0, True)]
    assert [waited.look(now_s, waits=waits) for now_s, waits in looks] == [0, 50, 0, 0, 59]
    watched = OfContext(session(DRIVER, GONE)._sc)
    assert watched.why(0.0) is None
    assert watched.why(REACH_S - 1) is None
    assert "60 s while tasks waited" in (watched.why(REACH_S) or "")


def test_a_pod_that_started_gets_longer_and_one_that_does_not_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    causes: list[str | None] = [None]
    barred: list[str | None] = [None]
    monkeypatch.setattr(executor_deaths, "why_none_will_come", lambda _: None)
    monkeypatch.setattr(executor_deaths, "why_one_is_barred", lambda _: barred[0])
    monkeypatch.setattr(executor_deaths, "why_none_came", lambda _: causes[0])
    watched = OfContext(session(DRIVER, GONE, master="k8s://https://a")._sc)
    assert [watched.why(now_s) for now_s in (0.0, REACH_S, REGISTER_S - 1)] == [None] * 3
    assert "180 s while tasks waited" in (watched.why(REGISTER_S) or "")
    causes[0] = "pod p finds no node"
    assert "pod p finds no node: bring one back" in (watched.why(REACH_S) or "")
    barred[0] = "pod p can't reach the driver"
    assert "pod p can't reach the driver: bring one back" in (watched.why(REACH_S) or "")


def test_a_connect_server_that_runs_no_task_ends_with_what_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(executor_deaths, "REACH_S", 0.01)
    server = Server()
    spark: Any = server
    with (
        pytest.raises(SessionError, match=r"Connect server has run none.*\(1 of 4 are done\)"),
        ended_if_executors_die(spark),
    ):
        server.waiting_job()
    assert server.handlers == []


def test_a_connect_server_whose_tasks_run_or_are_done_ends_nothing() -> None:
    server = Server()
    watched = OfServer(server)  # type: ignore[arg-type]
    far_s = 10 * REACH_S
    server.report(1, (0, 4))
    assert [watched.why(0.0), watched.why(far_s)] == [None, None]
    server.report(0, (4, 4))
    assert [watched.why(0.0), watched.why(far_s)] == [None, None]
    server.report(0, (0, 4))
    assert watched.why(0.0) is None
    server.report(0, (0, 4), done=True)
    assert watched.why(far_s) is None, "the operation has ended"
    server.report(0, (0, 4))
    assert watched.why(0.0) is None
    assert "run none of the tasks" in (watched.why(REACH_S) or "")

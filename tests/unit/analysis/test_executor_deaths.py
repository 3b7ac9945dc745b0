"""Executors that only die end the analysis with their reason; those that work never do."""

from __future__ import annotations

import threading
from types import SimpleNamespace as Made
from typing import Any

import pytest

from zonequake_analysis.errors import SessionError
from zonequake_analysis.spark_pass import executor_deaths
from zonequake_analysis.spark_pass.executor_deaths import MOST_DEATHS, ended_if_executors_die

CLUSTER = "spark://a:1"


def executor(name: str, *, alive: bool = False, completed: int = 0, reason: str = "") -> Any:
    """As Spark's JVM tells of one."""
    return Made(
        id=lambda: name,
        isActive=lambda: alive,
        completedTasks=lambda: completed,
        removeReason=lambda: Made(isDefined=lambda: bool(reason), get=lambda: reason),
    )


def session(*known: Any, master: str = CLUSTER) -> Any:
    """A session that sees these executors; a job in it waits until it is cancelled."""
    found = Made(size=lambda: len(known), apply=lambda number: known[number])
    store = Made(statusStore=lambda: Made(executorList=lambda active: found))
    cancelled = threading.Event()
    context = Made(
        master=master, _jsc=Made(sc=lambda: store), cancelAllJobs=cancelled.set, cancelled=cancelled
    )
    return Made(_sc=context)


def waiting_job(spark: Any) -> None:
    assert spark._sc.cancelled.wait(60)
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
    assert executor_deaths.why_they_die(spark._sc) is None
    with ended_if_executors_die(spark):
        pass


def test_an_error_of_the_analysis_itself_stays_what_it_is() -> None:
    with pytest.raises(ValueError, match="own"), ended_if_executors_die(session(DRIVER)):
        raise ValueError("own")


@pytest.mark.parametrize("spark", [Made(), session(*DEAD, master="local[2]")])
def test_without_a_cluster_nothing_is_watched(spark: Any) -> None:
    before = threading.active_count()
    with ended_if_executors_die(spark):
        assert threading.active_count() == before

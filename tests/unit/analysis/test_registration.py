"""A standalone master that takes connections and no application ends the start of Spark in time."""

from __future__ import annotations

import threading
from types import SimpleNamespace as Made
from typing import Any

import pytest
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from zonequake_analysis.cluster import reach, registration
from zonequake_analysis.cluster.registration import ended_if_not_taken
from zonequake_analysis.errors import SessionError
from zonequake_analysis.jvm import local_jvm
from zonequake_analysis.spark_pass import session
from zonequake_analysis.spark_pass.session import build_session
from zonequake_analysis.spark_pass.settings import Size

MASTER = "spark://10.0.0.9:7078"
TOLD = r"spark://10\.0\.0\.9:7078 takes connections, but no application.*7077.*8080"


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Short times, and an event in place of the end of a JVM."""
    event = threading.Event()
    monkeypatch.setattr(local_jvm, "end", event.set)
    monkeypatch.setattr(registration, "ANSWERED_S", 0.05)
    monkeypatch.setattr(registration, "_FIRST_LOOK_S", 0.01)
    monkeypatch.setattr(registration, "_POLL_S", 0.01)
    return event


def asking(monkeypatch: pytest.MonkeyPatch, threads: str) -> None:
    """Has Spark's JVM run these threads."""
    names = Made(toString=lambda: threads)
    thread = Made(getAllStackTraces=lambda: Made(keySet=lambda: names))
    monkeypatch.setattr(SparkContext, "_jvm", Made(java=Made(lang=Made(Thread=thread))))


def test_a_master_that_never_answers_ends_the_jvm_with_its_address(
    killed: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking(monkeypatch, "[Thread[#40,appclient-registration-retry-thread,5,main]]")

    def begins() -> None:
        assert killed.wait(30)
        raise ConnectionError("Answer from Java side is empty")

    with pytest.raises(SessionError, match=TOLD), ended_if_not_taken(MASTER):
        begins()


@pytest.mark.parametrize(
    ("master", "threads"), [(MASTER, "[Thread[#1,main,5,main]]"), ("local[2]", "appclient-regist")]
)
def test_a_jvm_that_asks_no_master_is_left_alone(
    master: str, threads: str, killed: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking(monkeypatch, threads)
    with ended_if_not_taken(master):
        assert not killed.wait(0.3)


def test_a_jvm_that_is_not_there_yet_is_no_error(
    killed: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SparkContext, "_jvm", None)
    with ended_if_not_taken(MASTER):
        assert not killed.wait(0.1)


@pytest.mark.parametrize(
    "words",
    ["Cannot call methods on a stopped SparkContext.\n\tat", "All masters are unresponsive!"],
)
def test_a_spark_that_gave_up_is_told_with_the_master_and_not_with_java(
    words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begins(_: Any) -> None:
        raise RuntimeError(words)

    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    monkeypatch.setattr(reach, "answer_to_a_partial_frame", lambda *_: b"")
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", begins)
    monkeypatch.setattr(session, "_given", SparkConf)
    with pytest.raises(SessionError, match=TOLD) as told:
        build_session(size=Size.SMALL, master=MASTER)
    assert "Java" not in str(told.value)


def test_all_of_it_is_told_within_a_minute() -> None:
    assert reach.CONNECT_S + reach.ANSWER_S + registration.ANSWERED_S < 60

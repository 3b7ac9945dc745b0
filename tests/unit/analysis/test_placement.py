"""Spark runs where it was asked to, or says why not."""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace as Made
from typing import Any

import pytest
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkConf
from pyspark.sql import SparkSession

from zonequake_analysis.cluster import reach
from zonequake_analysis.cluster.options import check_own_address
from zonequake_analysis.errors import SessionError
from zonequake_analysis.spark_pass import placement
from zonequake_analysis.spark_pass.placement import (
    check_placement,
    check_reachable,
    check_server,
    placement_of,
)
from zonequake_analysis.spark_pass.session import build_session
from zonequake_analysis.spark_pass.settings import Size, is_local


class Executors:
    """What Spark's JVM says of its executors: (name, address, tasks)."""

    def __init__(self, *known: tuple[str, str, int]) -> None:
        self._known = known

    def size(self) -> int:
        return len(self._known)

    def apply(self, number: int) -> Any:
        name, address, tasks = self._known[number]
        return Made(id=lambda: name, hostPort=lambda: address, totalTasks=lambda: tasks)


def session(master: str, *known: tuple[str, str, int]) -> Any:
    stopped: list[bool] = []
    context = Made(
        getExecutorMemoryStatus=lambda: Made(size=lambda: len(known)),
        statusStore=lambda: Made(executorList=lambda active: Executors(*known)),
    )
    spark = Made(
        sparkContext=Made(
            master=master,
            applicationId="app-1",
            _jsc=Made(sc=lambda: context),
            getConf=lambda: {"spark.driver.host": "10.0.0.9"},
        ),
        stop=lambda: stopped.append(True),
        stopped=stopped,
    )
    spark._sc = spark.sparkContext
    return spark


class AtServer(SparkSession):
    """A session at a Spark Connect server: it has the server's settings, and no context."""

    def __init__(self, conf: Mapping[str, str]) -> None:
        self.own = conf

    @property
    def conf(self) -> Any:
        return self.own


@pytest.mark.parametrize(
    ("master", "expected"),
    [("local", True), ("local[*]", True), ("local[2]", True), ("local-cluster[2,1,1024]", False),
     ("spark://a:7077", False), ("k8s://https://a", False), ("yarn", False)],
)  # fmt: skip
def test_a_local_master_is_known_by_its_name(master: str, expected: bool) -> None:
    assert is_local(master) == expected


def test_a_master_where_nothing_listens_is_named_with_the_cause() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        with pytest.raises(SessionError, match=f"127.0.0.1:{port}.*refused.*is it running there"):
            check_reachable(f"spark://127.0.0.1:{port}")


def test_one_of_several_masters_is_enough() -> None:
    with socket.socket() as closed, socket.create_server(("127.0.0.1", 0)) as server:
        closed.bind(("127.0.0.1", 0))
        ports = closed.getsockname()[1], server.getsockname()[1]
        check_reachable(f"spark://127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}")
        server.setblocking(False)
        server.accept()[0].close()  # raises if nothing has connected


@contextmanager
def answering(said: bytes) -> Iterator[tuple[int, list[bytes]]]:
    """A server that says this once its client has said all; yields its port, and what it heard."""
    heard: list[bytes] = []

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = server.accept()
                with connection:
                    heard.append(b"")
                    while received := connection.recv(64):
                        heard[-1] += received
                    connection.sendall(said)

    with socket.create_server(("127.0.0.1", 0)) as server:
        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        yield server.getsockname()[1], heard
        server.shutdown(socket.SHUT_RDWR)
        serving.join()


@pytest.mark.parametrize("said", [b"HTTP/1.1 400 Bad Request\r\n", b"<html>", b"SSH-2.0-x\r\n"])
def test_what_answers_but_is_no_master_is_told_with_a_masters_port(said: bytes) -> None:
    with answering(said) as (port, _):
        told = rf"something answers at 127\.0\.0\.1:{port}, but it is no Spark master.*7077.*8080"
        with pytest.raises(SessionError, match=told):
            check_reachable(f"spark://127.0.0.1:{port}")


@pytest.mark.parametrize("said", [b"", b"\x15\x03\x03\x00\x02\x02\x0a"])
def test_a_master_hears_no_whole_frame_and_says_nothing_or_that_it_is_encrypted(
    said: bytes,
) -> None:
    with answering(said) as (port, heard):
        check_reachable(f"spark://127.0.0.1:{port}")
    assert [len(each) < 8 for each in heard] == [True]


@pytest.mark.parametrize("protocol", ["HTTP/1.0", "HTTP/1.1"])
def test_a_web_server_of_python_is_no_master(
    protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BaseHTTPRequestHandler, "protocol_version", protocol)
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        serving = threading.Thread(target=server.serve_forever, daemon=True)
        serving.start()
        try:
            with pytest.raises(SessionError, match="it is no Spark master"):
                check_reachable(f"spark://127.0.0.1:{server.server_port}")
        finally:
            server.shutdown()
            serving.join()


def test_a_master_beside_a_web_server_is_enough() -> None:
    with answering(b"HTTP/1.1 400") as (page, _), answering(b"") as (port, _):
        check_reachable(f"spark://127.0.0.1:{page},127.0.0.1:{port}")


@pytest.mark.parametrize("beginning", ["k8s://", "k8s://https://", "k8s://http://"])
def test_an_api_server_where_nothing_listens_is_named_with_the_cause(
    beginning: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement, "_API_SERVER_S", 0.0)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        master = f"{beginning}127.0.0.1:{port}"
        with pytest.raises(SessionError, match=rf"{master}.*127\.0\.0\.1:{port}: .*refused.*info"):
            check_reachable(master)
        closed.listen()
        check_reachable(master)


def test_an_api_server_without_a_port_is_asked_at_https(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int]] = []
    monkeypatch.setattr(reach, "refusal", lambda *place: asked.append(place))
    for master in ("k8s://a", "k8s://https://a", "k8s://http://a/x", "k8s://https://[::1]:6443"):
        check_reachable(master)
    assert asked == [("a", 443), ("a", 443), ("a", 80), ("::1", 6443)]


def test_an_api_server_whose_network_comes_late_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = [OSError("not yet"), None]
    monkeypatch.setattr(reach, "refusal", lambda *_: answers.pop(0))
    monkeypatch.setattr(placement, "_POLL_S", 0.001)
    check_reachable("k8s://https://a")
    assert answers == []


def test_an_api_server_behind_a_proxy_is_left_to_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int]] = []
    monkeypatch.setattr(reach, "refusal", lambda *place: asked.append(place))
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    monkeypatch.setenv("no_proxy", "b")
    for master in ("k8s://https://a", "k8s://https://b"):
        check_reachable(master)
    assert asked == [("b", 443)]


KUBECONFIG = """
clusters:
- {name: far, cluster: {server: "https://a", proxy-url: "http://me:secret@proxy:3128"}}
- {name: near, cluster: {server: "https://a"}}
contexts:
- {name: by-proxy, context: {cluster: far, user: me}}
- {name: straight, context: {cluster: near, user: me}}
"""


@pytest.mark.parametrize(
    ("current", "context", "no_proxy", "asks"),
    [
        ("by-proxy", None, "", False),
        ("straight", "by-proxy", "", False),
        ("straight", None, "", True),
        ("by-proxy", "straight", "", True),
        ("by-proxy", None, "a", True),
        ("by-proxy", "unknown", "", True),
        ("]", None, "", True),
    ],
)
def test_an_api_server_behind_the_proxy_of_a_kubeconfig_is_left_to_spark(
    current: str,
    context: str | None,
    no_proxy: str,
    asks: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked: list[tuple[str, int]] = []
    monkeypatch.setattr(reach, "refusal", lambda *place: asked.append(place))
    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", no_proxy)
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text(f"current-context: {current}\n")
    second.write_text(KUBECONFIG)
    monkeypatch.setenv("KUBECONFIG", f"{first}{os.pathsep}{second}")
    check_reachable("k8s://https://a", context=context)
    assert asked == ([("a", 443)] if asks else [])
    told = capsys.readouterr().err
    assert ("proxy-url of the cluster far in the kubeconfig" in told) != asks
    assert "secret" not in told


@pytest.mark.parametrize("master", ["k8s://", "k8s://ftp://a", "k8s://https://a:port"])
def test_an_api_server_without_an_address_is_refused(master: str) -> None:
    with pytest.raises(SessionError, match="expected k8s://https://host:port"):
        check_reachable(master)


@pytest.mark.parametrize(
    "master",
    ["somewhere", "local[two]", "Yarn", "", "local[0]", "local[2,0]", "local[*]x",
     "local-cluster[]", "local-cluster[0,1,1024]", "local-cluster[2,1]"],
)  # fmt: skip
def test_a_master_that_spark_does_not_know_is_refused(master: str) -> None:
    found = re.escape(master or "an empty one")
    with pytest.raises(SessionError, match=f"--master: found {found}, expected local, "):
        check_reachable(master)


@pytest.mark.parametrize(
    "master",
    ["local", "local[4]", "local[*]", "local[2, 3]", "local[*,2]", "local-cluster[2,1,1024]"],
)
def test_other_masters_are_left_to_spark(master: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[object] = []
    monkeypatch.setattr(socket, "create_connection", lambda *words, **_: tried.append(words))
    check_reachable(master)
    assert tried == []


@pytest.mark.parametrize(
    "master",
    ["spark://somewhere", "spark://:7077", "spark://a:port", "spark://a:70777", "spark://a:1,"],
)
def test_a_master_without_host_or_port_is_refused(master: str) -> None:
    with pytest.raises(SessionError, match="expected spark://host:port"):
        check_reachable(master)


def test_a_session_that_runs_elsewhere_is_refused() -> None:
    with pytest.raises(SessionError, match=r"asked for the master spark://a:1.*local\[\*\]"):
        check_placement(session("local[*]"), "spark://a:1")


def test_executors_that_never_come_are_an_error_that_names_the_drivers_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(placement, "REACH_S", 0.0)
    spark = session("spark://a:1", ("driver", "10.0.0.9:1", 0))
    with pytest.raises(SessionError, match=r"no executor .*10\.0\.0\.9.*--driver-host"):
        check_placement(spark, "spark://a:1")
    assert spark.stopped == [True]


class FakeTime:
    """A clock that only a sleep moves."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def test_an_executor_is_waited_for_a_minute_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeTime()
    monkeypatch.setattr(placement, "time", clock)
    with pytest.raises(SessionError, match="within 60 s"):
        check_placement(session("spark://a:1", ("driver", "10.0.0.9:1", 0)), "spark://a:1")
    assert clock.now_s == pytest.approx(60, abs=1)


def test_a_master_that_can_not_be_reached_is_told_within_a_minute() -> None:
    assert placement._API_SERVER_S + reach.CONNECT_S < 60


def test_a_spark_that_ends_as_its_executors_only_die_names_the_drivers_address() -> None:
    """A standalone master ends an application after ten."""
    spark = session("spark://a:1")

    def ended() -> None:
        raise Py4JError("Cannot call methods on a stopped SparkContext.\n\tat org.apache")

    spark.sparkContext._jsc = Made(sc=ended)
    with pytest.raises(
        SessionError, match=r"\(Cannot .*Context\.\).* at 10\.0\.0\.9;.*driver-host"
    ):
        check_placement(spark, "spark://a:1")
    assert spark.stopped == [True]


def test_an_address_of_another_machine_is_no_drivers_host(monkeypatch: pytest.MonkeyPatch) -> None:
    check_own_address("127.0.0.1")
    told = r"--driver-host .*10\.255\.255\.1: this process can't listen there \(.*assign"
    with pytest.raises(SessionError, match=told):
        check_own_address("10.255.255.1")

    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror("Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(SessionError, match=r" h: .*\(Name or service not known\)"):
        check_own_address("h")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "10.255.255.1: this process can't listen there"),
        ({"spark.driver.host": "10.255.255.2"}, "10.255.255.2: this process can't listen there"),
        ({"spark.driver.host": "127.0.0.1"}, "Spark began"),
        ({"spark.driver.bindAddress": "127.0.0.1"}, "Spark began"),
    ],
)
def test_the_drivers_host_is_tried_before_spark_starts_unless_it_listens_elsewhere(
    given: dict[str, str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begins(_: object) -> None:
        raise RuntimeError("Spark began")

    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", begins)
    conf = SparkConf().setAll(list(given.items()))
    monkeypatch.setattr("zonequake_analysis.spark_pass.session._given", lambda: conf)
    with socket.create_server(("127.0.0.1", 0)) as server:
        master = f"spark://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(SessionError, match=re.escape(told)):
            build_session(size=Size.SMALL, master=master, driver_host="10.255.255.1")


def test_executors_that_did_nothing_are_left_out() -> None:
    spark = session("spark://a:1", ("driver", "d:1", 0), ("1", "w2:7", 3), ("0", "w1:7", 5))
    found = placement_of(spark)
    assert found is not None
    assert (found.master, found.application) == ("spark://a:1", "app-1")
    assert [(e.name, e.address, e.tasks) for e in found.executors] == [
        ("0", "w1", 5),
        ("1", "w2", 3),
    ]


def test_through_connect_the_server_says_its_master_and_application() -> None:
    conf = {"spark.master": "spark://a:1", "spark.app.id": "app-1"}
    found = placement_of(AtServer(conf))
    assert found is not None
    assert (found.master, found.application, found.executors) == ("spark://a:1", "app-1", ())
    assert placement_of(AtServer({})) is None


def test_a_connect_server_where_nothing_listens_is_named_and_its_token_is_not() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        with pytest.raises(SessionError, match=rf"127\.0\.0\.1:{port}: .*is it running") as told:
            check_server(f"sc://127.0.0.1:{port}/;token=secret")
        assert "secret" not in str(told.value)
        closed.listen()
        check_server(f"sc://127.0.0.1:{port}/;token=secret")


@pytest.mark.parametrize("remote", ["spark://a:1", "sc://", "sc://me:secret@a:1", "sc://a:secret"])
def test_a_connect_server_that_is_no_address_is_refused(remote: str) -> None:
    with pytest.raises(SessionError, match="expected sc://host:port") as told:
        check_server(remote)
    assert "secret" not in str(told.value)

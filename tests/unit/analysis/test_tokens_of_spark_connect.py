"""The token in a URL of Spark Connect is told nowhere: in no stream, and in no file of the run."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import typer
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from tests.unit.analysis.test_placement import AtServer
from zonequake_analysis import cli
from zonequake_analysis.cluster.connect_url import connect_server, without_options
from zonequake_analysis.errors import SessionError
from zonequake_analysis.jvm import local_jvm
from zonequake_analysis.spark_pass import session
from zonequake_analysis.spark_pass.placement import placement_of
from zonequake_chaos.analysis_pods.command import app as analyze_here_or_in_the_cluster

TOKEN = "c2VjcmV0"


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    """The variables that Spark's client sets, which the process keeps, end with the test."""
    with patch.dict(os.environ):
        yield


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "history").mkdir()
    (tmp_path / "history" / "load-0.jsonl").write_text("{}\n")
    return tmp_path


@pytest.fixture
def server() -> Iterator[str]:
    """An address where something listens, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def refused(
    run: Path, words: list[str], capfd: Any, caplog: Any, command: typer.Typer = cli.app
) -> str:
    """What the command says, once the token is in none of its streams, files and their names.

    A wrong option leaves no file; what can't be reached, or fails, leaves a verdict.
    """
    before = {file for file in run.rglob("*") if file.is_file()}
    with caplog.at_level(logging.DEBUG):
        code = command([str(run), *words], standalone_mode=False)
    said = capfd.readouterr()
    files = {file: file.read_bytes() for file in run.rglob("*") if file.is_file()}
    if code == 254:
        assert set(files) == before
    else:
        assert code == 255
        assert {"verdict.json", "junit.xml", "summary.md"} <= {file.name for file in files}
    for text in (said.out, said.err, caplog.text, *map(str, files)):
        assert TOKEN not in text
    for file, content in files.items():
        assert TOKEN.encode() not in content, file
    return str(said.err)


@pytest.mark.parametrize(
    "url",
    [
        "sc://{server}/;token={token}==",
        "sc://{server}/;token={token}/x",
        "sc://{server}/;token={token}?x",
        "sc://{server}/;{token}",
        "sc://{server}/;use_ssl=true;token={token};",
        "sc://{server}/token={token}",
        "sc://{server};token={token}",
        "sc://{token}@{server}",
        "http://{server}/;token={token}",
        "sc://{server}/;session_id={token}",
    ],
)
@pytest.mark.parametrize("archives", [False, True])
def test_no_url_that_is_refused_is_told_with_its_token(
    run: Path, server: str, url: str, archives: bool, capfd: Any, caplog: Any
) -> None:
    given = ["--remote", url.format(server=server, token=TOKEN)]
    given += ["--archives", "environment.tar.gz"] if archives else []
    said = refused(run, given, capfd, caplog)
    assert "--remote or SPARK_REMOTE: " in said or server in said


def test_archives_beside_a_server_are_refused_without_its_token(
    run: Path, server: str, capfd: Any, caplog: Any
) -> None:
    url = f"sc://{server}/;use_ssl=true;token={TOKEN}"
    said = refused(run, ["--remote", url, "--archives", "f.tar.gz"], capfd, caplog)
    assert f"found --archives f.tar.gz with sc://{server}, expected" in said


@pytest.mark.parametrize("words", [["--master", "local[2]"], ["--driver-host", "10.0.0.9"]])
def test_another_place_of_spark_beside_a_server_is_refused(
    run: Path,
    server: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: Any,
    caplog: Any,
    words: list[str],
) -> None:
    monkeypatch.setattr(session, "_connected", lambda _: pytest.fail("it went on without it"))
    told = refused(run, ["--remote", f"sc://{server}/;token={TOKEN}", *words], capfd, caplog)
    assert f"found {words[0]} beside --remote" in told


def test_a_server_given_as_the_master_is_told_without_its_token(
    run: Path, server: str, capfd: Any, caplog: Any
) -> None:
    said = refused(run, ["--master", f"sc://{server}/;token={TOKEN}"], capfd, caplog)
    assert f"--master: found sc://{server}, expected" in said
    assert "--remote" in said


@pytest.mark.parametrize("words", ["a {url} b", "no session: {encoded}", "{token}"])
def test_an_error_of_sparks_client_that_holds_an_option_is_told_by_its_type(
    run: Path,
    server: str,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: Any,
    caplog: Any,
) -> None:
    encoded, token = f"{TOKEN}%3D%3D", f"{TOKEN}=="
    url = f"sc://{server}/;token={encoded}"

    def raises(*_: object) -> None:
        raise RuntimeError(words.format(url=url, token=token, encoded=encoded))

    monkeypatch.setattr(SparkSession.Builder, "remote", raises)
    refused(run, ["--remote", url], capfd, caplog)


def test_an_error_of_sparks_client_that_holds_none_is_told(
    run: Path, server: str, monkeypatch: pytest.MonkeyPatch, capfd: Any, caplog: Any
) -> None:
    def raises(*_: object) -> None:
        raise ImportError("grpcio must be installed")

    monkeypatch.setattr(SparkSession.Builder, "remote", raises)
    said = refused(run, ["--remote", f"sc://{server}/;token={TOKEN}"], capfd, caplog)
    assert f"no session began at sc://{server} (grpcio must be installed)" in said


@pytest.mark.parametrize("words", [["--master", "local[2]"], ["--driver-host", "10.0.0.9"]])
def test_a_server_in_the_environment_beside_another_place_is_refused_without_its_token(
    run: Path,
    server: str,
    words: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capfd: Any,
    caplog: Any,
) -> None:
    monkeypatch.setenv("SPARK_REMOTE", f"sc://{server}/;token={TOKEN}")
    assert "found SPARK_REMOTE in the environment" in refused(run, words, capfd, caplog)


@pytest.mark.parametrize("command", [cli.app, analyze_here_or_in_the_cluster])
@pytest.mark.parametrize(
    ("words", "host"), [([], "elsewhere"), (["--remote", "sc://given/;token=t"], "given")]
)
def test_a_server_in_the_environment_is_used_unless_an_option_names_one(
    run: Path,
    command: typer.Typer,
    words: list[str],
    host: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: Any,
    caplog: Any,
) -> None:
    """So that its token is in no argument, which every process of the machine can read."""
    asked: list[str] = []

    def connected(remote: str) -> None:
        asked.append(remote)
        raise SessionError("no server here")

    monkeypatch.setenv("SPARK_REMOTE", f"sc://elsewhere/;token={TOKEN}")
    monkeypatch.setattr(session, "_connected", connected)
    monkeypatch.setattr(local_jvm, "begin", lambda *_, **__: pytest.fail("a JVM began here"))
    assert "no server here" in refused(run, words, capfd, caplog, command)
    assert [connect_server(url).host for url in asked] == [host]


def test_an_empty_variable_names_no_server(
    run: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any, caplog: Any
) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "")
    said = refused(run, [], capfd, caplog)
    assert "--remote or SPARK_REMOTE: expected sc://host:port" in said


def test_a_master_in_the_environment_is_refused_without_the_servers_token(
    run: Path, server: str, monkeypatch: pytest.MonkeyPatch, capfd: Any, caplog: Any
) -> None:
    """PySpark's own error names both."""
    monkeypatch.setenv("MASTER", "local[2]")
    said = refused(run, ["--remote", f"sc://{server}/;token={TOKEN}"], capfd, caplog)
    assert PySparkRuntimeError.__name__ in said
    assert "no MASTER in the environment" in said


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("sc://h", "h", 15002),
        ("sc://h:1/", "h", 1),
        ("sc://[::1]:1/;token=a%3D%3D;use_ssl=true", "[::1]", 1),
        ("sc://h/;x-key=", "h", 15002),
    ],
)
def test_a_url_names_its_server_and_may_have_options(url: str, host: str, port: int) -> None:
    found = connect_server(url)
    assert (found.host, found.port) == (host, port)
    assert without_options(url) == url.partition("/")[0] + "//" + url.split("/")[2]


def test_an_option_that_can_not_be_read_is_told_how_it_is_written() -> None:
    with pytest.raises(SessionError, match=r"%3D for =, %2F for /"):
        connect_server("sc://h/;token=a==")


def test_a_verdict_says_where_it_was_found_without_options() -> None:
    conf = {"spark.master": f"sc://h:1/;token={TOKEN}", "spark.app.id": "app-1"}
    found = placement_of(AtServer(conf))
    assert found is not None
    assert found.master == "sc://h:1"
    assert without_options("spark://a:1,b:2") == "spark://a:1,b:2"

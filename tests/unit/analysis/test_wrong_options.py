"""A wrong option of where Spark runs is a usage error, and leaves the run's folder as it is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer

from zonequake_analysis import cli
from zonequake_analysis.jvm import local_jvm
from zonequake_analysis.many_runs import trend_command
from zonequake_chaos.analysis_pods.command import app as analyze_here_or_in_the_cluster

EARLIER = ("verdict.json", "report.html", "summary.md", "junit.xml", "tables/keys.parquet")
CLUSTER = ("--master", "spark://127.0.0.1:7077")


@pytest.fixture
def judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run with the results of an earlier analysis, and no variable that chooses a Spark."""
    for name in ("SPARK_REMOTE", "PYSPARK_GATEWAY_PORT", "HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    run = tmp_path / "run"
    (run / "history").mkdir(parents=True)
    (run / "history" / "load-0.jsonl").write_text("{}\n")
    (run / "tables").mkdir()
    for name in EARLIER:
        (run / name).write_text("earlier")
    return run


@pytest.mark.parametrize("command", [cli.app, analyze_here_or_in_the_cluster])
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--master", "sparc://x"], "found sparc://x, expected local,"),
        (["--master", "local[0]"], "found local[0], expected local, local[4] (threads: 1 or more)"),
        (["--master", ""], "found an empty one, expected local,"),
        (["--master", "spark://x:99999"], "found spark://x:99999, expected spark://host:port"),
        (["--master", "k8s://ftp://a"], "expected k8s://https://host:port"),
        (["--master", "yarn"], "found neither HADOOP_CONF_DIR nor YARN_CONF_DIR"),
        (["--remote", "spark://a:1"], "expected sc://host:port"),
        (["--remote", "sc://a:99999"], "expected sc://host:port"),
        (["--remote", "sc://a:1", "--master", "local"], "found --master beside --remote"),
        ([*CLUSTER, "--archives", "missing.tar.gz"], "found no file missing.tar.gz"),
        (["--archives", "missing.tar.gz"], "expected --master of a cluster"),
        ([*CLUSTER, "--driver-host", "10.255.255.1"], "10.255.255.1: this process can't listen"),
        ([*CLUSTER, "--driver-host", ""], "this process can't listen"),
    ],
)  # fmt: skip
def test_a_wrong_option_is_a_usage_error_and_the_folder_is_left_as_it_is(
    command: typer.Typer,
    words: list[str],
    told: str,
    judged: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: Any,
) -> None:
    monkeypatch.setattr(local_jvm, "begin", lambda *_, **__: pytest.fail("a JVM began"))
    monkeypatch.setattr(cli, "AnalysisLock", lambda _: pytest.fail("a lock was made"))
    assert command([str(judged), *words], standalone_mode=False) == 254
    assert told in capfd.readouterr().err
    assert {(judged / name).read_text() for name in EARLIER} == {"earlier"}
    assert not (judged / "logs").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--master", "sparc://x"], "found sparc://x, expected local,"),
        (["--master", "local[0]"], "found local[0], expected local, local[4]"),
        (["--archives", "missing.tar.gz"], "expected --master of a cluster"),
        ([*CLUSTER, "--driver-host", ""], "this process can't listen"),
    ],
)
def test_a_trend_refuses_a_wrong_option_before_it_looks_for_runs(
    words: list[str], told: str, judged: Path
) -> None:
    with pytest.raises(typer.BadParameter, match=re.escape(told)):
        trend_command.app([str(judged), *words], standalone_mode=False)


@pytest.mark.parametrize("command", [cli.app, analyze_here_or_in_the_cluster])
def test_a_prometheus_that_there_can_not_be_leaves_the_folder_as_it_is(
    command: typer.Typer, judged: Path
) -> None:
    with pytest.raises(typer.BadParameter, match="--prometheus: found 'here'"):
        command([str(judged), "--prometheus", "here"], standalone_mode=False)
    assert {(judged / name).read_text() for name in EARLIER} == {"earlier"}

"""`analyze --in-cluster` beside a made-up API server: log, exit code, causes, nothing left."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from typing import Any, Self, cast

import pytest
import yaml

from tests.unit.analysis_pods.test_pods_of_an_analysis import TEMPLATE, URI
from zonequake_analysis.pods.last_line import last_line
from zonequake_analysis.storage.location import Location
from zonequake_analysis.verdict import EXIT_CODES, Verdict
from zonequake_chaos.analysis_pods import launch
from zonequake_chaos.analysis_pods.launch import InCluster, analyze_in_cluster
from zonequake_ctl.context import ReleasePlace
from zonequake_kube.errors import ClusterError, HarnessError, NotFound, UsageError, WaitExpired

STARTING = {"waiting": {"reason": "ContainerCreating"}}
RUNNING: dict[str, Any] = {"running": {}}
TOLD = "analyze run-1: violated; report: s3://runs/a/run-1/report.html"
SETTINGS = {"zq-analysis": {"driver.yaml": yaml.safe_dump(TEMPLATE)}}


class Cluster:
    """An API server with a release, whose one pod has the next of `states` at each look."""

    def __init__(self, *states: dict[str, Any], namespace: str = "zonequake-analysis") -> None:
        self._states = list(states)
        self._maps = {**SETTINGS, "zq-harness": {"analysisNamespace": namespace}}
        self.namespace = "zonequake"
        self.pods: list[str] = []
        self.created: list[dict[str, Any]] = []
        self.breaks = 0
        """So many times the log breaks after its first line."""
        self.last = TOLD
        """The last line of the log."""

    async def connect(self) -> Self:
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    @property
    def release(self) -> str:
        return "zq"

    def in_namespace(self, namespace: str) -> Self:
        self.namespace = namespace
        return self

    async def create(self, pod: dict[str, Any]) -> None:
        self.created.append(pod)
        self.pods.append(pod["metadata"]["name"])

    async def delete(self, kind: str, name: str) -> None:
        assert kind == "Pod"
        self.pods.remove(name)

    async def get(self, kind: str, name: str) -> dict[str, Any]:
        if kind == "ConfigMap":
            if name not in self._maps:
                raise NotFound(name)
            return {"data": self._maps[name]}
        if not self._states:
            raise NotFound(name)
        state = self._states.pop(0) if len(self._states) > 1 else self._states[0]
        phase = "Failed" if "terminated" in state else "Running"
        statuses = [{"name": "spark-kubernetes-driver", "image": "an/image:1", "state": state}]
        return {
            "metadata": {"name": name},
            "status": {"phase": phase, "containerStatuses": statuses},
        }

    async def follow_logs(self, pod: str, container: str) -> AsyncIterator[bytes]:
        assert (pod, container) == (self.pods[0], "spark-kubernetes-driver")
        yield b"first \x1b[31mline"
        if self.breaks:
            self.breaks -= 1
            raise ClusterError("the log broke")
        yield self.last.encode()


def ended(code: int, reason: str = "Error") -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason}}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "_POLL_S", 0.001)
    monkeypatch.setattr(launch, "_PAUSE_S", 0.001)


def analyzed(cluster: Cluster, run: str = URI) -> tuple[int, list[str]]:
    """Exit code and what was said."""
    said: list[str] = []
    where = InCluster(release=cast("ReleasePlace", cluster), secret="mine")
    return analyze_in_cluster(run, where, said.append), said


def test_the_log_is_shown_once_the_exit_code_is_the_analyses_and_the_pod_goes() -> None:
    cluster = Cluster(STARTING, RUNNING, RUNNING, ended(1))
    cluster.breaks = 1
    code, said = analyzed(cluster)
    assert code == 1
    assert said[1:] == ["first ⟨U+001B⟩[31mline", TOLD]
    (pod,) = cluster.created
    assert pod["spec"]["containers"][0]["args"] == ["analyze", URI]
    assert cluster.namespace == "zonequake-analysis"
    assert cluster.pods == []


@pytest.mark.parametrize("code", [0, 1, 2, 3, 4])
@pytest.mark.parametrize(
    "last",
    [
        "Could not reserve enough space for object heap",
        "analyze run-2: {verdict}; report: s3://runs/a/run-2/report.html",
        f"analyze run-1: harness-failed: x: {TOLD}",
        "analyze run-1: harness-failed; report: s3://runs/a/run-1/report.html",
    ],
    ids=["a JVM that can't start", "another run", "in a summary", "another verdict"],
)
def test_a_verdicts_exit_code_without_its_word_in_the_log_is_a_failed_harness(
    code: int, last: str
) -> None:
    """A JVM, and Python itself, end with 1 when they can't begin."""
    verdict = {code: verdict for verdict, code in EXIT_CODES.items()}[code]
    cluster = Cluster(RUNNING, ended(code))
    cluster.last = last.format(verdict=verdict)
    with pytest.raises(HarnessError, match=f"ended with {code} .*expected {verdict}: nothing is"):
        analyzed(cluster)
    assert cluster.pods == []


@pytest.mark.parametrize("verdict", list(Verdict))
def test_each_verdict_is_believed_if_the_log_tells_it(verdict: Verdict) -> None:
    cluster = Cluster(RUNNING, ended(EXIT_CODES[verdict]))
    cluster.last = last_line(Location.of(URI), verdict)
    assert analyzed(cluster)[0] == EXIT_CODES[verdict]


def test_a_log_that_breaks_after_the_pods_end_is_asked_for_again() -> None:
    cluster = Cluster(RUNNING, ended(1))
    cluster.breaks = 3
    assert analyzed(cluster)[0] == 1


def test_a_log_that_never_comes_whole_tells_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "_LAST_WORDS_S", 0.05)
    cluster = Cluster(RUNNING, ended(1))
    cluster.breaks = 1_000_000
    with pytest.raises(HarnessError, match="its log tells no verdict"):
        analyzed(cluster)


@pytest.mark.parametrize(
    ("states", "kind", "told"),
    [
        ((STARTING,), WaitExpired, "didn't start within"),
        (
            ({"waiting": {"reason": "ErrImagePull", "message": "no such image"}},),
            HarnessError,
            "an/image:1 .* can't be pulled: ErrImagePull .no such image.",
        ),
        (
            (RUNNING, ended(137, "OOMKilled")),
            HarnessError,
            "137 .OOMKilled.; raise analysis.driver",
        ),
        ((), HarnessError, "was deleted before its analysis had ended"),
    ],
)
def test_a_driver_that_fails_is_told_with_its_cause_and_removed(
    states: tuple[dict[str, Any], ...],
    kind: type[HarnessError],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if kind is WaitExpired:
        monkeypatch.setattr(launch, "START_S", 0.1)
    cluster = Cluster(*states)
    with pytest.raises(kind, match=told) as caught:
        analyzed(cluster)
    assert type(caught.value) is kind, "only what may still change is waited for"
    assert len(cluster.created) == 1
    assert cluster.pods == []


def test_a_release_without_the_analysis_and_a_run_of_this_machine_are_wrong_usage() -> None:
    for cluster, run, told in (
        (Cluster(namespace=""), URI, "analysis.enabled=true"),
        (Cluster(), "runs/x", "pods can't reach"),
    ):
        with pytest.raises(UsageError, match=told):
            analyzed(cluster, run)
        assert cluster.created == []


def test_sigterm_deletes_the_pod_and_is_told_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(STARTING, RUNNING, RUNNING, ended(0))
    caught: list[int] = []

    async def logs(pod: str, container: str) -> AsyncIterator[bytes]:
        yield b"first"
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(cluster, "follow_logs", logs)
    before = signal.signal(signal.SIGTERM, lambda number, _: caught.append(number))
    try:
        with pytest.raises(HarnessError, match="SIGTERM ended the analysis; its pods are deleted"):
            analyzed(cluster)
        assert cluster.pods == []
        assert caught == []
        os.kill(os.getpid(), signal.SIGTERM)
        assert caught == [signal.SIGTERM], "what was done before is done again"
    finally:
        signal.signal(signal.SIGTERM, before)

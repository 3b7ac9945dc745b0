"""What pods find on the embedded node: an image from a file, names, volumes, quick restarts."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE_S
from zonequake_cluster.embedded import EmbeddedCluster
from zonequake_cluster.supply.image_import import program_archive
from zonequake_cluster.supply.toolchain import find_go
from zonequake_cluster.supply.tools import kubectl_path

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

HERE = Path(__file__).parent
IMAGE = "localhost/zonequake/probe:test"
POLL_S = 0.5
"""Asking by kubectl takes a fifth of a second of a processor, which the node needs."""


class Probes:
    """The two probe pods of `probe.yaml`."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._kubectl = [str(kubectl_path()), "--kubeconfig", str(cluster.kubeconfig)]

    def kubectl(self, *words: str) -> str:
        done = subprocess.run([*self._kubectl, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def pod(self, name: str) -> dict[str, Any]:
        words = ("get", "pod", name, "--namespace", "probes", "--output", "json")
        answer: dict[str, Any] = json.loads(self.kubectl(*words))
        return answer

    def ask(self, name: str, path: str) -> str:
        base = f"/api/v1/namespaces/probes/pods/{name}:8080/proxy"
        return self.kubectl("get", "--raw", f"{base}/{path}").strip()

    def delete_by_force(self, name: str) -> str:
        """Returns the uid of the pod that was deleted."""
        uid: str = self.pod(name)["metadata"]["uid"]
        self.kubectl("delete", "pod", name, "--namespace", "probes", "--grace-period=0", "--force")
        return uid

    def wait_until_ready(self) -> None:
        words = ("rollout", "status", "statefulset/probe", "--namespace", "probes")
        self.kubectl(*words, "--timeout=120s")


def until(condition: Callable[[], bool], timeout_s: float = PATIENCE_S) -> float:
    """Seconds until the condition held; an assertion in it counts as not yet."""
    started_s = time.monotonic()
    while True:
        try:
            if condition():
                return time.monotonic() - started_s
        except AssertionError:
            if time.monotonic() - started_s > timeout_s:
                raise
        assert time.monotonic() - started_s <= timeout_s, "the condition never held"
        time.sleep(POLL_S)


@pytest.fixture(scope="module")
def probes(
    embedded_cluster: EmbeddedCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Probes]:
    folder = tmp_path_factory.mktemp("probe")
    subprocess.run(
        [find_go(print), "build", "-ldflags=-s -w", "-o", str(folder / "probe"), "."],
        cwd=HERE / "probe",
        env={**os.environ, "CGO_ENABLED": "0"},
        check=True,
    )
    archive = folder / "probe.tar"
    program = (folder / "probe").read_bytes()
    archive.write_bytes(program_archive(program, image=IMAGE, machine=platform.machine()))
    assert embedded_cluster.load_image(archive) == IMAGE
    found = Probes(embedded_cluster)
    found.kubectl("apply", "--filename", str(HERE / "probe.yaml"))
    found.wait_until_ready()
    yield found
    found.kubectl("delete", "namespace", "probes", "--timeout=120s")


def test_a_loaded_image_is_listed_by_its_name(
    embedded_cluster: EmbeddedCluster, probes: Probes
) -> None:
    assert IMAGE in embedded_cluster.images()


def test_the_node_says_that_it_is_ready_and_what_runs(embedded_cluster: EmbeddedCluster) -> None:
    status = embedded_cluster.status()
    assert status.ready, status.detail
    assert len(status.components) == 9
    for component in status.components:
        assert Path("/proc", str(component.pid), "cmdline").read_bytes(), component
        assert component.log.is_file()
    assert status.memory_bytes is not None
    assert 50 * 2**20 < status.memory_bytes < 1.5 * 2**30


def test_a_restricted_pod_runs_as_its_own_user(probes: Probes) -> None:
    assert probes.ask("probe-0", "user") == "65532"


def test_a_pod_that_is_not_restricted_is_refused(probes: Probes) -> None:
    with pytest.raises(AssertionError, match="violates PodSecurity"):
        probes.kubectl("run", "root", "--namespace", "probes", "--image", IMAGE)


def test_a_volume_is_kept_when_its_pod_is_deleted(probes: Probes) -> None:
    probes.ask("probe-0", "append?line=before")
    deleted = probes.delete_by_force("probe-0")
    until(lambda: probes.pod("probe-0")["metadata"]["uid"] != deleted)
    probes.wait_until_ready()
    assert "before" in probes.ask("probe-0", "read").splitlines()


def test_a_pod_deleted_by_force_is_found_under_its_name_at_once(probes: Probes) -> None:
    name = "lookup?name=probe-0.peers.probes.svc"
    probes.wait_until_ready()
    assert (
        until(lambda: probes.ask("probe-1", name) == probes.pod("probe-0")["status"]["podIP"]) < 5
    )
    deleted = probes.delete_by_force("probe-0")
    took_s = until(
        lambda: (
            (pod := probes.pod("probe-0"))["metadata"]["uid"] != deleted
            and probes.ask("probe-1", name) == pod["status"].get("podIP")
        )
    )
    assert took_s < 15


def test_a_service_is_reached_by_its_name_and_other_names_do_not_exist(probes: Probes) -> None:
    assert probes.ask("probe-1", "fetch?url=http://probes.probes/user") == "65532"
    with pytest.raises(AssertionError, match="no such host"):
        probes.ask("probe-1", "fetch?url=http://example.org")


def test_a_container_that_ends_again_and_again_is_back_within_seconds(probes: Probes) -> None:
    took_s = 0.0
    for _ in range(4):
        before = _restarts(probes)
        with pytest.raises(AssertionError):
            probes.ask("probe-1", "exit")
        until(lambda before=before: _restarts(probes) > before)  # type: ignore[misc]
        took_s += until(lambda: probes.ask("probe-1", "user") == "65532")
    assert took_s < 60, "the kubelet's own pauses alone would be 70 s: 10, 20 and 40"


def _restarts(probes: Probes) -> int:
    statuses = probes.pod("probe-1")["status"]["containerStatuses"]
    return int(statuses[0]["restartCount"])

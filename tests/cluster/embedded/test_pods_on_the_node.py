"""What pods find on the embedded node: an image from a file, names, volumes, quick restarts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.embedded.probes import HERE, IMAGE, Probes, until
from zonequake_cluster.embedded import EmbeddedCluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

TRIES = 3


class OfOneSet(Probes):
    """The two probe pods of `probe.yaml`."""

    def delete_by_force(self, name: str) -> str:
        """Returns the uid of the pod that was deleted."""
        uid: str = self.pod(name)["metadata"]["uid"]
        self.kubectl("delete", "pod", name, "--namespace", "probes", "--grace-period=0", "--force")
        return uid

    def wait_until_ready(self) -> None:
        words = ("rollout", "status", "statefulset/probe", "--namespace", "probes")
        self.kubectl(*words, "--timeout=120s")


@pytest.fixture(scope="module")
def probes(embedded_cluster: EmbeddedCluster, probe_image: str) -> Iterator[OfOneSet]:
    assert probe_image == IMAGE
    found = OfOneSet(embedded_cluster, "probes")
    found.kubectl("apply", "--filename", str(HERE / "probe.yaml"))
    found.wait_until_ready()
    yield found
    found.kubectl("delete", "namespace", "probes", "--timeout=120s")


def test_a_loaded_image_is_listed_by_its_name(
    embedded_cluster: EmbeddedCluster, probes: OfOneSet
) -> None:
    assert IMAGE in embedded_cluster.images()


def test_the_node_says_that_it_is_ready_and_what_runs(embedded_cluster: EmbeddedCluster) -> None:
    status = embedded_cluster.status()
    assert status.ready, status.detail
    assert len(status.components) == 10
    for component in status.components:
        assert Path("/proc", str(component.pid), "cmdline").read_bytes(), component
        assert component.log.is_file()
    assert status.memory_bytes is not None
    assert 50 * 2**20 < status.memory_bytes < 1.5 * 2**30


def test_a_restricted_pod_runs_as_its_own_user(probes: OfOneSet) -> None:
    assert probes.ask("probe-0", "user") == "65532"


def test_a_pod_that_is_not_restricted_is_refused(probes: OfOneSet) -> None:
    with pytest.raises(AssertionError, match="violates PodSecurity"):
        probes.kubectl("run", "root", "--namespace", "probes", "--image", IMAGE)


def test_a_volume_is_kept_when_its_pod_is_deleted(probes: OfOneSet) -> None:
    probes.ask("probe-0", "append?line=before")
    deleted = probes.delete_by_force("probe-0")
    until(lambda: probes.pod("probe-0")["metadata"]["uid"] != deleted)
    probes.wait_until_ready()
    assert "before" in probes.ask("probe-0", "read").splitlines()


def test_a_pod_deleted_by_force_is_found_under_its_name_at_once(probes: OfOneSet) -> None:
    took_s: list[tuple[float, float]] = []
    while not any(ready_s < 5 and again_s < 15 for ready_s, again_s in took_s):
        assert len(took_s) < TRIES, took_s
        took_s.append(times_until_found(probes))


def times_until_found(probes: OfOneSet) -> tuple[float, float]:
    """Seconds until a pod that is ready is found under its name, and after it was deleted; longer
    where the machine stands still meanwhile."""
    name = "lookup?name=probe-0.peers.probes.svc"
    probes.wait_until_ready()
    ready_s = until(lambda: probes.ask("probe-1", name) == probes.pod("probe-0")["status"]["podIP"])
    deleted = probes.delete_by_force("probe-0")
    again_s = until(
        lambda: (
            (pod := probes.pod("probe-0"))["metadata"]["uid"] != deleted
            and probes.ask("probe-1", name) == pod["status"].get("podIP")
        )
    )
    return ready_s, again_s


def test_a_service_is_reached_by_its_name_and_other_names_do_not_exist(probes: OfOneSet) -> None:
    assert probes.ask("probe-1", "fetch?url=http://probes.probes/user") == "65532"
    with pytest.raises(AssertionError, match="no such host"):
        probes.ask("probe-1", "fetch?url=http://example.org")


def test_a_container_that_ends_again_and_again_is_back_within_seconds(probes: OfOneSet) -> None:
    took_s = 0.0
    for _ in range(4):
        before = _restarts(probes)
        with pytest.raises(AssertionError):
            probes.ask("probe-1", "exit")
        until(lambda before=before: _restarts(probes) > before)  # type: ignore[misc]
        took_s += until(lambda: probes.ask("probe-1", "user") == "65532")
    assert took_s < 60, "the kubelet's own pauses alone would be 70 s: 10, 20 and 40"


def _restarts(probes: OfOneSet) -> int:
    statuses = probes.pod("probe-1")["status"]["containerStatuses"]
    return int(statuses[0]["restartCount"])

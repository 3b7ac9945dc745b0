"""What people do with an installed release: helm test, kubectl zq, the alerts' page."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from tests.patience import PATIENCE_S
from zonequake_cluster.embedded import EmbeddedCluster
from zonequake_cluster.supply import tools
from zonequake_cluster.supply.image_import import program_archive
from zonequake_ctl.release.install import install_release

if TYPE_CHECKING:
    from tests.cluster.scenarios.conftest import Release

pytestmark = pytest.mark.cluster

ZONE = {
    "apiVersion": "zonequake.io/v1alpha1",
    "kind": "DistributionZone",
    "metadata": {"name": "seen"},
    "spec": {"partitions": 4, "replicas": 2},
}


class Words:
    """Commands as a user types them."""

    def __init__(self, release: Release) -> None:
        place = release.place
        self.environment = {**os.environ, "KUBECONFIG": str(place.kubeconfig), "COLUMNS": "160"}
        self.namespace = place.namespace

    def run(self, *command: str, stdin: str = "") -> str:
        done = subprocess.run(
            command,
            input=stdin,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=2 * PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def kubectl(self, *words: str, stdin: str = "") -> str:
        return self.run(str(tools.kubectl_path()), "-n", self.namespace, *words, stdin=stdin)

    def zq(self, *words: str) -> str:
        """By kubectl, which finds its plugins on the PATH."""
        where = self.environment
        self.environment = {**where, "PATH": f"{Path(sys.executable).parent}:{where['PATH']}"}
        try:
            return self.run(str(tools.kubectl_path()), "zq", *words, "-n", self.namespace)
        finally:
            self.environment = where

    def query(self, path: str) -> Any:
        raw = f"/api/v1/namespaces/{self.namespace}/services/zq-prometheus:9090/proxy/api/v1/{path}"
        return json.loads(self.kubectl("get", "--raw", raw))["data"]


@pytest.fixture
def words(release: Release) -> Iterator[Words]:
    release.plant("")
    found = Words(release)
    found.kubectl("apply", "--filename", "-", stdin=json.dumps(ZONE))
    try:
        found.kubectl("wait", "dz/seen", "--for=condition=Synced", "--timeout=120s")
        yield found
    finally:
        found.kubectl("delete", "dz", "seen", "--timeout=120s")


def test_an_installed_release_can_be_tested_seen_foretold_and_reported(
    words: Words, tmp_path: Path
) -> None:
    words.run(str(tools.helm_path()), "test", "zq", "-n", words.namespace, "--timeout=120s")
    deadline_s = time.monotonic() + PATIENCE_S
    while "all 4 partitions are served" not in (seen := words.zq("status", "seen")):
        assert time.monotonic() < deadline_s, seen
        time.sleep(1)
    assert "No operator" not in seen
    manifest = tmp_path / "zone.yaml"
    wanted = {**ZONE, "spec": {"partitions": 4, "replicas": 3}}
    manifest.write_text(json.dumps(wanted))
    assert "4 of 4 partitions would move, 4 copies" in words.zq("plan", "-f", str(manifest))
    assert "is paused" in words.zq("pause", "seen")
    assert "PAUSED" in words.zq("status", "seen")
    assert "is resumed" in words.zq("resume", "seen")
    report = tmp_path / "report.zip"
    words.zq("report", "-o", str(report))
    with zipfile.ZipFile(report) as packed:
        assert packed.read("report/missing.txt") == b""
        names = packed.namelist()
    assert "report/pods/zq-default-0/log.txt" in names


def test_the_releases_prometheus_has_the_alerts_and_what_they_look_at(words: Words) -> None:
    rules = [rule for group in words.query("rules")["groups"] for rule in group["rules"]]
    assert len(rules) >= 16
    assert {rule["health"] for rule in rules} <= {"ok", "unknown"}
    for metric in (
        'zonequake_operator_zone_condition{zone="seen",namespace="zonequake"}',
        "zonequake_operator_resets_total",
        "zonequake_store_catch_up_bytes_total",
        "zonequake_store_writes_answered_total",
        "zonequake_store_replica_role",
    ):
        deadline_s = time.monotonic() + PATIENCE_S
        while not words.query(f"query?query={quote(metric)}")["result"]:
            assert time.monotonic() < deadline_s, metric
            time.sleep(1)


ORDER = """
import ssl, urllib.request
context = ssl.create_default_context(cafile="/tls/ca.crt")
context.load_cert_chain("/tls/tls.crt", "/tls/tls.key")
context.check_hostname = False
url = "https://zq-default-0.zq-store:7003/admin/v1/orders"
request = urllib.request.Request(url, data=b'{"orders":[]}', method="POST")
print(urllib.request.urlopen(request, context=context, timeout=10).read())
"""


@pytest.mark.parametrize(("role", "may"), [("load", False), ("operator", True)])
def test_an_order_is_taken_from_the_operators_certificate_and_from_no_other(
    words: Words, role: str, may: bool
) -> None:
    image = words.kubectl("get", "pod/zq-default-0", "-o=jsonpath={.spec.containers[0].image}")
    name = f"orders-as-{role}"
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65532,
                "fsGroup": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "order",
                    "image": image,
                    "imagePullPolicy": "Never",
                    "args": ["python", "-c", ORDER],
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                    },
                    "volumeMounts": [{"name": "tls", "mountPath": "/tls"}],
                }
            ],
            "volumes": [
                {"name": "tls", "secret": {"secretName": f"zq-tls-{role}", "defaultMode": 0o440}}
            ],
        },
    }
    words.kubectl("apply", "--filename", "-", stdin=json.dumps(pod))
    try:
        wanted = "Succeeded" if may else "Failed"
        phase = f"--for=jsonpath={{.status.phase}}={wanted}"
        words.kubectl("wait", f"pod/{name}", phase, "--timeout=120s")
        assert ("process_incarnation" in words.kubectl("logs", name)) is may
    finally:
        words.kubectl("delete", "pod", name)
    if not may:
        log = words.kubectl("logs", "zq-default-0", "--since=600s")
        assert "is not allowed: found load.zq.zonequake.zonequake.internal" in log


ZONEQUAKE = str(Path(sys.executable).parent / "zonequake")


def test_versions_and_images_of_the_release_are_told(words: Words, release: Release) -> None:
    where = ("--kubeconfig", str(release.place.kubeconfig), "--namespace", words.namespace)
    # A pod isn't ready for a moment while a zone's groups begin or end: the gate of its replicas.
    deadline_s = time.monotonic() + PATIENCE_S
    ready = f"{release.images['store']}, 3 of 3 ready"
    while ready not in (told := words.run(ZONEQUAKE, "version", *where)):
        assert time.monotonic() < deadline_s, told
        time.sleep(1)
    assert f"client         {version('zonequake')}, Python" in told
    assert f"release        {version('zonequake')}: zq in namespace {words.namespace}\n" in told
    assert "resources      v1alpha1\n" in told


@pytest.mark.long
def test_an_image_that_is_not_there_ends_a_run_at_once_and_can_be_loaded(
    words: Words, release: Release, embedded_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    absent = "docker.io/zonequake/absent:1"
    try:
        values = [f"images.load={absent}"]
        asyncio.run(install_release(release.place, images=release.images, values=values))
        run = [ZONEQUAKE, "run", "leader-kill", "--out", str(tmp_path / "run")]
        begin_s = time.monotonic()
        done = subprocess.run(
            [*run, "--kubeconfig", str(release.place.kubeconfig), "--no-analyze"],
            env={**words.environment, "COLUMNS": "300"},
            capture_output=True,
            text=True,
            timeout=170,
            check=False,
        )
        took_s = time.monotonic() - begin_s
        said = done.stdout + done.stderr
        assert done.returncode == 255, said
        assert f"image {absent} of pod " in said, said
        assert "ImagePull" in said, said
        assert took_s < 90, "it does not wait for the end of the set-up"
    finally:
        release.installed_by_another_tool()
    archive = tmp_path / "absent.tar"
    archive.write_bytes(
        program_archive(b"none", image=absent, machine=platform.machine(), path="program")
    )
    assert f"loaded {absent}" in words.run(
        ZONEQUAKE, "cluster", "load", "--name", embedded_cluster.name, str(archive)
    )

"""Volumes whose size the kernel enforces: made once, and free again when their claim is gone."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S
from zonequake_cluster.embedded import EmbeddedCluster
from zonequake_cluster.instance import INSIDE
from zonequake_cluster.supply.tools import kubectl_path

pytestmark = pytest.mark.cluster

GONE = {"namespace": "default", "name": "gone", "uid": "6d1f3b0e-0000-4000-8000-000000000000"}
"""The claim that a volume is bound to, and that is there no more."""


def kubectl(cluster: EmbeddedCluster, *words: str) -> str:
    command = [str(kubectl_path()), "--kubeconfig", str(cluster.kubeconfig), *words]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def wait_for(cluster: EmbeddedCluster, wanted: str) -> None:
    is_wanted = f"--for=jsonpath={{.status.phase}}={wanted}"
    kubectl(cluster, "wait", "pv/limited-0", is_wanted, f"--timeout={PATIENCE_S:.0f}s")


def test_a_volume_whose_claim_is_gone_is_emptied_and_free_again(
    embedded_cluster: EmbeddedCluster,
) -> None:
    """Else the second run of `disk-full` finds no volume, and its pod waits for one."""
    cluster = embedded_cluster
    cluster.limit_volumes(count=1, mebibytes=512)
    wait_for(cluster, "Available")
    init = cluster._running_init()
    left = Path("/proc", str(init), "root", *INSIDE.parts[1:], "limited", "0", "left")
    left.write_text("of a run before")
    bound = json.dumps({"spec": {"claimRef": GONE}})
    kubectl(cluster, "patch", "pv", "limited-0", "--type=merge", f"--patch={bound}")
    wait_for(cluster, "Released")
    cluster.limit_volumes(count=1, mebibytes=512)
    wait_for(cluster, "Available")
    assert not left.exists()

"""Pods that answer over HTTP what they see, on the session's node."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE_S
from zonequake_cluster.embedded import EmbeddedCluster
from zonequake_cluster.supply.tools import kubectl_path

HERE = Path(__file__).parent
IMAGE = "localhost/zonequake/probe:test"
POLL_S = 0.5
"""Asking by kubectl takes a fifth of a second of a processor, which the node needs."""


class Probes:
    """Probe pods of one namespace, and kubectl."""

    def __init__(self, cluster: EmbeddedCluster, namespace: str) -> None:
        self._kubectl = [str(kubectl_path()), "--kubeconfig", str(cluster.kubeconfig)]
        self.namespace = namespace

    def kubectl(self, *words: str, stdin: str = "") -> str:
        done = subprocess.run(
            [*self._kubectl, *words], input=stdin, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def pod(self, name: str) -> dict[str, Any]:
        words = ("get", "pod", name, "--namespace", self.namespace, "--output", "json")
        answer: dict[str, Any] = json.loads(self.kubectl(*words))
        return answer

    def ask(self, name: str, path: str) -> str:
        base = f"/api/v1/namespaces/{self.namespace}/pods/{name}:8080/proxy"
        return self.kubectl("get", "--raw", f"{base}/{path}").strip()


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

"""The few calls of a provider to an API server, made with kubectl.

It uses kubectl, because the kubeconfig of a foreign cluster may name a login program.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zonequake_cluster.errors import ProviderError


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """An API server; `context` None is the kubeconfig's current one."""

    kubectl: Path
    kubeconfig: Path
    context: str | None

    def ready_nodes(self) -> tuple[int, int]:
        """Returns (number of Ready nodes, of all nodes). Raises ProviderError without an answer."""
        nodes = self._get("nodes")
        ready = [
            node
            for node in nodes
            if any(
                condition["type"] == "Ready" and condition["status"] == "True"
                for condition in node.get("status", {}).get("conditions", ())
            )
        ]
        return len(ready), len(nodes)

    def node_images(self) -> list[str]:
        """Returns the image names that the nodes report, without digests; a node reports its 50
        largest."""
        return sorted(
            {
                name
                for node in self._get("nodes")
                for image in node.get("status", {}).get("images", ())
                for name in image.get("names") or ()
                if "@sha256:" not in name
            }
        )

    def apply(self, manifests: Path) -> None:
        """Creates or updates the objects of a file. Raises ProviderError."""
        self._kubectl("apply", "--filename", str(manifests))

    def exists(self, kind: str, name: str, namespace: str) -> bool:
        """Returns whether there is such an object. Raises ProviderError."""
        words = ("get", kind, name, "--namespace", namespace, "--ignore-not-found")
        return bool(self._kubectl(*words, "--output", "name").strip())

    def released_volumes(self, storage_class: str) -> list[str]:
        """Returns the names of volumes of this class whose claim is gone: Kubernetes binds them to
        no other claim. Raises ProviderError."""
        return [
            volume["metadata"]["name"]
            for volume in self._get("persistentvolumes")
            if volume["spec"].get("storageClassName") == storage_class
            and (volume.get("status") or {}).get("phase") == "Released"
        ]

    def delete(self, kind: str, name: str) -> None:
        """Deletes an object of the cluster, and waits until it is gone. Raises ProviderError."""
        self._kubectl("delete", kind, name, "--timeout", "10s")

    def _get(self, kind: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = json.loads(self._kubectl("get", kind, "--output", "json"))[
            "items"
        ]
        return items

    def _kubectl(self, *words: str) -> str:
        where = ["--kubeconfig", str(self.kubeconfig), "--request-timeout", "10s"]
        if self.context is not None:
            where += ["--context", self.context]
        try:
            done = subprocess.run(
                [str(self.kubectl), *where, *words], check=False, capture_output=True, text=True
            )
        except FileNotFoundError as error:
            raise ProviderError(
                f"{self.kubectl} is not built: run `zonequake cluster up`, which builds it"
            ) from error
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise ProviderError(f"`kubectl {words[0]}` with {self.kubeconfig} failed: {last}")
        return done.stdout

"""What is in the cluster and on its node, seen without the harness: kubectl, /proc, nsenter.

Two inspections of the same cluster, with nothing going on, are equal; what a killed run left, and
what `zonequake clean` did too much or too little, makes them differ.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LEFT_OUT = {
    "events",
    "events.events.k8s.io",
    "endpoints",
    "endpointslices.discovery.k8s.io",
    "componentstatuses",
    "controllerrevisions.apps",
    "pods.metrics.k8s.io",
    "nodes.metrics.k8s.io",
}
"""Kinds that change by themselves, or follow from others that are looked at."""

_POLL_S = 0.5


@dataclass(frozen=True, kw_only=True)
class Inspector:
    """One cluster, by its administrator's kubeconfig; its node's processes are this machine's."""

    kubectl: Path
    kubeconfig: Path
    namespace: str

    def _kubectl(self, *words: str) -> str:
        done = subprocess.run(
            [str(self.kubectl), "--kubeconfig", str(self.kubeconfig), *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, f"kubectl {words[0]}: {done.stderr[-500:]}"
        return done.stdout

    def kinds(self) -> str:
        """All that can be listed, joined for `kubectl get`."""
        named = self._kubectl("api-resources", "--verbs=list", "-o", "name").split()
        return ",".join(sorted(set(named) - LEFT_OUT))

    def look(self, kinds: str) -> dict[str, str]:
        """Everything, as words by what it is about."""
        found = json.loads(self._kubectl("get", kinds, "-A", "-o", "json", "--ignore-not-found"))
        seen = {}
        for item in found["items"]:
            metadata = item["metadata"]
            name = f"{item['kind']} {metadata.get('namespace', '')}/{metadata['name']}"
            seen[name] = json.dumps(_of_object(item), sort_keys=True)
        return seen | self._of_the_node()

    def _of_the_node(self) -> dict[str, str]:
        seen = {}
        networks: dict[int, int] = {}
        for pid in sorted(_processes_of(self.kubeconfig.parent)):  # the init first
            try:
                state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
                command = Path(f"/proc/{pid}/cmdline").read_bytes()[:80].replace(b"\0", b" ")
                networks.setdefault(os.stat(f"/proc/{pid}/ns/net").st_ino, pid)
            except (FileNotFoundError, ProcessLookupError):
                continue
            if state in "Tt":
                seen[f"process {pid}"] = f"stopped: {command.decode(errors='replace')}"
        for pid in networks.values():
            for line in _rules(pid):
                seen[f"network of process {pid}: {line}"] = "there"
        return seen

    def until_as(self, before: Mapping[str, str], kinds: str, *, within_s: float) -> list[str]:
        """Waits until all is as before; what differs at the end."""
        deadline_s = time.monotonic() + within_s
        while True:
            differences = list(differing(before, self.look(kinds)))
            if not differences or time.monotonic() >= deadline_s:
                return differences
            time.sleep(_POLL_S)


def differing(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    """What is there and was not, the other way round, and what is otherwise."""
    for name in sorted(set(before) | set(now)):
        if name not in before:
            yield f"new: {name} {now[name]}"
        elif name not in now:
            yield f"gone: {name}"
        elif before[name] != now[name]:
            yield f"changed: {name} from {before[name]} to {now[name]}"


def _of_object(item: dict[str, Any]) -> dict[str, Any]:
    metadata, spec = item["metadata"], item.get("spec")
    status = item.get("status")
    spec = spec if isinstance(spec, dict) else {}
    status = status if isinstance(status, dict) else {}
    kept: dict[str, Any] = {
        "labels": metadata.get("labels") or {},
        "annotations": sorted(metadata.get("annotations") or {}),
        "finalizers": metadata.get("finalizers") or [],
        "deleting": "deletionTimestamp" in metadata,
        "replicas": spec.get("replicas"),
    }
    if item["kind"] == "Pod":
        kept["ready"] = any(
            c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or []
        )
    return kept


def _processes_of(folder: Path) -> Iterator[int]:
    """The instance's processes, pods' too: those in the PID namespace of its init or below it."""
    mark = f"ZONEQUAKE_CLUSTER={folder}".encode()
    marked = {
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and mark in _read(entry / "environ").split(b"\0")
    }
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            words = _read(entry / "stat").decode(errors="replace").rpartition(")")[2].split()
            if words:
                parents[int(entry.name)] = int(words[1])
    for pid in parents:
        above, seen = pid, set()
        while above and above not in seen:
            if above in marked:
                yield pid
                break
            seen.add(above)
            above = parents.get(above, 0)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (OSError, ProcessLookupError):
        return b""


def _rules(pid: int) -> Iterator[str]:
    """Rules and queues in a network namespace that no node would have by itself."""
    for command in ("iptables-save", "ip6tables-save"):
        done = subprocess.run(
            ["nsenter", "--target", str(pid), "--net", "--", command],
            capture_output=True,
            text=True,
            check=False,
        )
        for line in done.stdout.splitlines():
            ours = "KUBE" not in line and "CNI" not in line
            chain = line.startswith(":") and not line.split()[1].startswith(("ACCEPT", "DROP"))
            if ours and (chain or line.startswith("-A")):
                yield f"{command}: {line.split(' [')[0]}"

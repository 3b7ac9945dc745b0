"""What is in the cluster and on its node, seen without the harness: kubectl, /proc, nsenter.

    objects ─ kubectl      processes ─ their states, tracers, and vDSO      networks ─ iptables-save
    mounts ─ fill files    machine ─ agents' programs and files that name a pod of this cluster

Two inspections of the same cluster, with nothing going on, are equal; what a killed run left, and
what `zonequake clean` did too much or too little, makes them differ.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
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
_FILL_FILE = ".zonequake-fill"
_FILES = (Path("/tmp"), Path("/run/zonequake-agent"))


@dataclass(frozen=True, kw_only=True)
class Inspector:
    """One cluster, by its administrator's kubeconfig; its node's processes are this machine's."""

    kubectl: Path
    kubeconfig: Path
    namespace: str
    uids: set[str] = field(default_factory=set)
    """Of all pods that were seen so far: what names one of them is this cluster's."""

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
            if item["kind"] == "Pod":
                self.uids.add(metadata["uid"])
        return seen | self._of_the_node() | self._of_the_machine()

    def _of_the_machine(self) -> dict[str, str]:
        """What works for faults at this cluster's pods from outside its namespaces."""
        seen = {}
        for entry in Path("/proc").iterdir():
            words = _read(entry / "cmdline") if entry.name.isdigit() else b""
            if b"zonequake" in words and any(uid.encode() in words for uid in self.uids):
                command = words[:200].replace(b"\0", b" ").decode(errors="replace")
                seen[f"process {entry.name} on the machine"] = command
        for file in (file for folder in _FILES if folder.is_dir() for file in folder.iterdir()):
            if file.name.startswith(("zonequake", "ZQ-")) and any(
                u in file.name for u in self.uids
            ):
                seen[f"file {file}"] = "there"
        return seen

    def _of_the_node(self) -> dict[str, str]:
        seen = {}
        networks: dict[int, int] = {}
        mounts: dict[int, int] = {}
        # What is behind the kernel's code is out of reach.
        code = _vdso("self").rstrip(b"\0")
        for pid in sorted(_processes_of(self.kubeconfig.parent)):  # the init first
            try:
                state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
                command = Path(f"/proc/{pid}/cmdline").read_bytes()[:80].replace(b"\0", b" ")
                networks.setdefault(os.stat(f"/proc/{pid}/ns/net").st_ino, pid)
                mounts.setdefault(os.stat(f"/proc/{pid}/ns/mnt").st_ino, pid)
                tracer = (
                    Path(f"/proc/{pid}/status").read_text().partition("TracerPid:")[2].split()[0]
                )
                vdso = _vdso(pid)
            except (FileNotFoundError, ProcessLookupError):
                continue
            what = command.decode(errors="replace")
            if state in "Tt":
                seen[f"process {pid}"] = f"stopped: {what}"
            if tracer != "0":
                seen[f"tracer of process {pid}"] = f"process {tracer} traces {what}"
            if vdso and not vdso.startswith(code):
                seen[f"vDSO of process {pid}"] = f"not the kernel's: {what}"
        for pid in networks.values():
            for line in _rules(pid):
                seen[f"network of process {pid}: {line}"] = "there"
        for pid in mounts.values():
            for path in _fill_files(pid):
                seen[f"file {path} of process {pid}"] = "there"
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


def _vdso(pid: int | str) -> bytes:
    """The code that the kernel lends to a process; nothing for one that has none."""
    for line in _read(Path(f"/proc/{pid}/maps")).decode().splitlines():
        if line.endswith("[vdso]"):
            begin, end = (int(word, 16) for word in line.split()[0].split("-"))
            try:
                with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
                    memory.seek(begin)
                    return memory.read(end - begin)
            except OSError:
                return b""  # it ends just now
    return b""


def _fill_files(pid: int) -> Iterator[str]:
    for line in _read(Path(f"/proc/{pid}/mountinfo")).decode().splitlines():
        path = line.split()[4]
        if os.path.lexists(f"/proc/{pid}/root{path}/{_FILL_FILE}"):
            yield path


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

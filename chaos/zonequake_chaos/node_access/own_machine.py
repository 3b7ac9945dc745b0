"""The embedded cluster's node from outside: for faults that no pod and no API call can make.

The node's processes must be this machine's: the harness then finds each pod's processes by their
cgroup, which names the pod. All functions here are repeatable, also by another process.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from zonequake_agent import pods
from zonequake_chaos.errors import FaultFailed
from zonequake_chaos.node_access.own_cluster_proof import proven_instance
from zonequake_chaos.node_access.shell import RUN_TIMEOUT_S, PodOnNode, to_its_end
from zonequake_cluster.instance import MARK, Instance
from zonequake_cluster.machine import processes
from zonequake_kube.execution import ExecResult


@dataclass(frozen=True, slots=True)
class OwnMachine:
    """The node of the embedded cluster `instance`, which runs on this machine."""

    instance: Instance

    @classmethod
    def of(cls, kubeconfig: Path | None, context: str | None = None) -> OwnMachine | None:
        """Returns the node that the context is proven to lead to; None without an embedded
        cluster."""
        found = proven_instance(kubeconfig, context)
        return cls(found) if found is not None else None

    @property
    def agent(self) -> Sequence[str]:
        return (sys.executable, "-m", "zonequake_agent")

    async def run(
        self, pod: PodOnNode, argv: Sequence[str], *, timeout_s: float = RUN_TIMEOUT_S
    ) -> ExecResult:
        """Runs a command on this machine, which carries every pod of its cluster (see
        `NodeShell`).
        """
        try:
            done = await to_its_end(
                asyncio.to_thread(
                    subprocess.run,
                    list(argv),
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    check=False,
                    timeout=timeout_s,
                )
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise FaultFailed(f"{' '.join(argv[:6])}, for pod {pod.name}: {error}") from error
        return ExecResult(code=done.returncode, stdout=done.stdout, stderr=done.stderr)

    def processes(self, pod_uid: str) -> list[int]:
        """Returns the pod's processes by this machine's PIDs; none if all have ended."""
        return _pids(pod_uid)

    def pause(self, component: str) -> int:
        """Stops a component of the node; returns its PID. Raises FaultFailed if it does not run."""
        pid = self._signal(component, signal.SIGSTOP)
        if pid == 0:
            raise FaultFailed(f"{component} does not run on the node {self.instance.name}")
        return pid

    def kill(self, component: str) -> int:
        """Kills a component of the node; returns its PID, 0 if it is not running now."""
        return self._signal(component, signal.SIGKILL)

    def resume(self, component: str) -> None:
        """Resumes the component if it is stopped."""
        self._signal(component, signal.SIGCONT)

    def stopped_components(self) -> list[str]:
        """Returns the node's components that are stopped now."""
        names = [component.name for component in self.instance.read_components()]
        return [name for name in names if is_stopped(self._pid(name))]

    def stopped_processes(self, pod_uid: str) -> list[int]:
        """Returns the pod's processes that are stopped now."""
        return [pid for pid in _pids(pod_uid) if is_stopped(pid)]

    def _signal(self, component: str, number: signal.Signals) -> int:
        """Signals the component; returns its PID, 0 if it is not running or has just ended."""
        pid = self._pid(component)
        try:
            if pid:
                os.kill(pid, number)
        except ProcessLookupError:
            return 0
        return pid

    def _pid(self, component: str) -> int:
        init = _init(self.instance)
        inner = [c.pid for c in self.instance.read_components() if c.name == component and c.pid]
        return processes.host_pid(init, inner[0]) if init is not None and inner else 0


def is_stopped(pid: int) -> bool:
    """Returns whether a signal stopped the process; False if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in ("T", "t")
    except (FileNotFoundError, ProcessLookupError):
        return False


def _pids(pod_uid: str) -> list[int]:
    return [process.pid for process in pods.processes(pod_uid)]


def _init(instance: Instance) -> int | None:
    return processes.find_init(MARK, str(instance.folder))

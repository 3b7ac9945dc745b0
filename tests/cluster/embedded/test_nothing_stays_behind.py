"""`down` removes every trace of an instance, wherever its `up` was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S
from zonequake_cluster.embedded import EmbeddedCluster
from zonequake_cluster.instance import MARK, find_instance
from zonequake_cluster.machine import cgroups, processes

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """What an instance has on the machine, seen without what the instance recorded."""

    processes: tuple[int, ...]
    node_processes: tuple[str, ...]
    mounts: tuple[str, ...]
    interfaces: tuple[str, ...]
    rules: tuple[str, ...]
    cgroups: tuple[Path, ...]
    folder: bool


def leftovers(name: str) -> Traces:
    instance = find_instance(name)
    folder = str(instance.folder)
    node = f"zonequake-{instance.key}"
    links = (each.name for each in Path("/sys/class/net").iterdir())
    running = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            if node in (each / "cgroup").read_text():
                running.append((each / "comm").read_text())
        except OSError:
            continue
    return Traces(
        processes=tuple(each.pid for each in processes.find_marked(MARK, folder)),
        node_processes=tuple(running),
        mounts=tuple(
            line for line in Path("/proc/self/mountinfo").read_text().splitlines() if folder in line
        ),
        interfaces=tuple(link for link in links if link == instance.interface),
        rules=tuple(
            line
            for program in ("iptables-save", "iptables-legacy-save")
            for line in subprocess.run(
                [program], capture_output=True, text=True
            ).stdout.splitlines()
            if "KUBE-" in line
        ),
        cgroups=tuple(cgroups.find(instance.cgroup)),
        folder=instance.folder.exists(),
    )


def _output(program: str) -> str:
    return subprocess.run([program], capture_output=True, text=True, check=True).stdout


NOTHING = Traces(
    processes=(),
    node_processes=(),
    mounts=(),
    interfaces=(),
    rules=(),
    cgroups=(),
    folder=False,
)


@pytest.fixture
def name() -> Iterator[str]:
    chosen = f"traces-{os.getpid()}"
    yield chosen
    EmbeddedCluster(chosen).down()


def test_a_running_node_is_gone_after_down_and_down_may_be_repeated(name: str) -> None:
    kernel = _kernel_settings()
    cluster = EmbeddedCluster(name)
    cluster.up()
    up = leftovers(name)
    assert up.processes
    assert up.interfaces
    assert up.cgroups
    assert up.folder
    assert not up.mounts, "mounts are the node's own, also while it runs"
    assert not up.rules, "rules are the node's own, also while it runs"
    cluster.up()
    cluster.down()
    assert leftovers(name) == NOTHING
    assert _kernel_settings() == kernel
    cluster.down()
    assert leftovers(name) == NOTHING


@pytest.mark.parametrize(
    "killed_after_s",
    [*(pytest.param(s, marks=pytest.mark.long) for s in (0.4, 0.9, 1.5, 6.0)), 3.0],
)
def test_down_removes_what_an_up_left_that_was_killed(name: str, killed_after_s: float) -> None:
    up = subprocess.Popen(
        [sys.executable, "-m", "zonequake_cluster.cli", "up", "--name", name],
        stdout=subprocess.DEVNULL,
    )
    time.sleep(killed_after_s)
    while killed_after_s > 1 and up.poll() is None and not leftovers(name).processes:
        time.sleep(0.1)  # on a busy machine it has only begun
    up.send_signal(signal.SIGKILL)
    assert up.wait() == -signal.SIGKILL, "`up` was ready before it was killed"
    assert killed_after_s < 1 or leftovers(name).processes, (
        "nothing was left that `down` could miss"
    )
    EmbeddedCluster(name).down()
    assert leftovers(name) == NOTHING


@pytest.mark.long
def test_two_instances_run_at_once_and_the_end_of_one_leaves_the_other(
    embedded_cluster: EmbeddedCluster, name: str
) -> None:
    other = EmbeddedCluster(name)
    other.up()
    assert other.status().ready
    assert other.kubeconfig.read_text() != embedded_cluster.kubeconfig.read_text()
    other.down()
    assert leftovers(name) == NOTHING
    assert embedded_cluster.status().ready


def test_a_component_that_is_killed_is_started_again(embedded_cluster: EmbeddedCluster) -> None:
    before = {each.name: each for each in embedded_cluster.status().components}
    os.kill(before["kube-scheduler"].pid, signal.SIGKILL)
    deadline = time.monotonic() + PATIENCE_S
    while True:
        now = {each.name: each for each in embedded_cluster.status().components}
        if now["kube-scheduler"].restarts == before["kube-scheduler"].restarts + 1:
            break
        assert time.monotonic() < deadline, now["kube-scheduler"]
        time.sleep(0.1)
    assert now["kube-scheduler"].pid not in (0, before["kube-scheduler"].pid)


def _kernel_settings() -> list[str]:
    names = ("kernel/panic", "kernel/panic_on_oops", "vm/overcommit_memory", "net/ipv4/ip_forward")
    return [Path("/proc/sys", name).read_text() for name in names]

"""Power losses of volumes that are file systems of their own, on loop devices of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import pytest

from tests.patience import PATIENCE_S
from zonequake_agent import leftovers, pods
from zonequake_agent.disk import mounts, power
from zonequake_agent.disk.power_plan import Unsuited, Volume

MOUNTED_IN_POD = "/mnt"
KINDS = ["ext4", pytest.param("xfs", marks=pytest.mark.long)]
"""Of the second one `mkfs.xfs` comes with Debian's package `xfsprogs`."""

NODE = """
set -eu
folder=$1 pod=$2
truncate -s 320M "$folder/disk.img"  # no xfs is smaller
mkfs.{kind} -q "$folder/disk.img"
mkdir -p "$folder/base" "$pod"
mount -o loop "$folder/disk.img" "$folder/base"
mount --bind "$folder/base" "$pod"
echo here
sleep 600
"""
"""A node: namespaces of its own, with a volume that the kubelet mounted for a pod."""

CONTAINER = """
set -eu
mount --bind "$2" /mnt
umount "$2" "$1/base"
exec {python} -c '{code}'
"""
"""A container: it has the volume, and not the mounts of the node that it was made from."""

WRITES = """
import os, time
log = os.open("/mnt/log", os.O_RDWR | os.O_CREAT | os.O_APPEND)
os.write(log, b"s" * 10000)
os.fsync(log)
os.fsync(os.open("/mnt", os.O_RDONLY))
os.write(log, b"u" * 10000)
print("written", flush=True)
while True:
    time.sleep(600)
"""


def said_by(process: subprocess.Popen[str]) -> IO[str]:
    assert process.stdout is not None
    return process.stdout


@dataclass(kw_only=True)
class OneNode:
    """A node with the volume of one pod; `running`: the pod's processes."""

    folder: Path
    pid: int
    uid: str
    processes: ExitStack
    running: list[int] = field(default_factory=list)

    @property
    def kubelets(self) -> str:
        """Where the kubelet mounted the volume for the pod."""
        return str(self.folder / "pods" / self.uid / "volumes" / "disk")

    def start(self, code: str = WRITES) -> subprocess.Popen[str]:
        """Starts a container of the pod, as the kubelet does; returns its process."""
        script = CONTAINER.format(python="/usr/bin/python3", code=code)
        process = self.processes.enter_context(
            subprocess.Popen(
                [
                    *("nsenter", "--target", str(self.pid), "--mount", "--"),
                    *("unshare", "--mount", "sh", "-c", script, "sh"),
                    *(str(self.folder), self.kubelets),
                ],
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        self.processes.callback(process.kill)
        assert said_by(process).readline() == "written\n"
        self.running.append(process.pid)
        return process

    @property
    def seen(self) -> Path:
        """The volume as the node sees it."""
        return Path(f"/proc/{self.pid}/root{self.folder}/base")

    def content(self) -> bytes:
        return (self.seen / "log").read_bytes()

    def mounted(self) -> list[str]:
        """The mount points of the volume on the node."""
        found = mounts.parse(Path(f"/proc/{self.pid}/mountinfo").read_text())
        return [each.point for each in found if str(self.folder) in each.point]


@contextmanager
def a_node(folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str = "ext4") -> Iterator[OneNode]:
    uid = str(uuid.uuid4())
    with ExitStack() as processes:
        kubelets = folder / "pods" / uid / "volumes" / "disk"
        script = NODE.replace("{kind}", kind)
        made = processes.enter_context(
            subprocess.Popen(
                [
                    *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"),
                    *("sh", "-c", script, "sh", str(folder), str(kubelets)),
                ],
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        processes.callback(made.kill)
        assert said_by(made).readline() == "here\n"
        children = Path(f"/proc/{made.pid}/task/{made.pid}/children").read_text().split()
        node = OneNode(folder=folder, pid=int(children[0]), uid=uid, processes=processes)
        _be_pods(monkeypatch, node)
        yield node


def _be_pods(monkeypatch: pytest.MonkeyPatch, *nodes: OneNode) -> None:
    """Makes each node's containers the processes of its pod, for all that ask."""

    def processes(uid: str) -> list[pods.PodProcess]:
        return [
            pods.PodProcess(pid=pid, name="python3", container="c")
            for node in nodes
            for pid in node.running
            if node.uid == uid
        ]

    monkeypatch.setattr(pods, "processes", processes)
    monkeypatch.setattr(pods, "workers", lambda uid: [each.pid for each in processes(uid)])
    monkeypatch.setattr(pods, "is_of_a_pod", lambda pid: any(pid in n.running for n in nodes))


def loop_devices(folder: Path) -> list[str]:
    listed = subprocess.run(["losetup", "--list"], capture_output=True, text=True, check=True)
    return [line for line in listed.stdout.splitlines() if str(folder) in line]


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_synced_stays_and_what_was_not_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    with a_node(tmp_path, monkeypatch, kind) as node:
        victim = node.start()
        assert node.content() == b"s" * 10000 + b"u" * 10000
        before = node.mounted()
        volume = power.look(node.uid, MOUNTED_IN_POD)
        power.mark(node.uid, MOUNTED_IN_POD)
        (node.seen / "never-synced").touch()
        (lost,) = power.lose([(node.uid, MOUNTED_IN_POD)])
        assert lost == power.PowerLoss(killed=[victim.pid], synced_bytes=4096, unsynced_bytes=0)
        assert victim.wait(PATIENCE_S) == -signal.SIGKILL
        assert node.content() == b"s" * 10000
        assert not (node.seen / "never-synced").exists()
        assert node.mounted() == before
        node.running.clear()
        node.start()  # it writes to a file system that is alive
        assert node.content() == b"s" * 20000 + b"u" * 10000
        assert leftovers.left(node.uid) == [f"volume {volume.source}, with a marker"]
        for _ in range(2):
            power.restore(node.uid, volume)
            power.forget(volume)
        assert leftovers.left(node.uid) == []
    deadline_s = time.monotonic() + PATIENCE_S
    while loop_devices(tmp_path):  # it goes with the node's namespaces
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


def test_a_namespace_is_looked_at_by_its_oldest_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One with a lower number may be younger, and gone a moment later."""
    for pid, started in ((700, 90), (31_000, 20), (31_001, 50)):
        (tmp_path / str(pid) / "ns").mkdir(parents=True)
        fields = ["S", *["0"] * 18, str(started), "0"]
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (a) b) {' '.join(fields)}\n")
        if pid == 700:
            (tmp_path / "700" / "ns" / "mnt").touch()
        else:
            (tmp_path / str(pid) / "ns" / "mnt").hardlink_to(tmp_path / "700" / "ns" / "mnt")
    monkeypatch.setattr(pods, "PROC", tmp_path)
    assert list(power._namespaces().values()) == [[31_000, 31_001, 700]]


def test_a_kill_alone_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the loss above would prove nothing."""
    with a_node(tmp_path, monkeypatch) as node:
        node.start().kill()
        assert node.content() == b"s" * 10000 + b"u" * 10000


def test_volumes_of_several_pods_lose_their_power_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    with (
        a_node(tmp_path / "a", monkeypatch) as first,
        a_node(tmp_path / "b", monkeypatch) as second,
    ):
        _be_pods(monkeypatch, first, second)
        victims = [first.start(), second.start()]
        volumes = [(node.uid, MOUNTED_IN_POD) for node in (first, second)]
        for uid, path in volumes:
            power.mark(uid, path)
        lost = power.lose(volumes)
        assert [each.killed for each in lost] == [[victim.pid] for victim in victims]
        assert [first.content(), second.content()] == [b"s" * 10000] * 2


def leave_shut_down(node: OneNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills an agent between the shutdown and the mount."""
    monkeypatch.setattr(power, "restore", _dies)
    power.mark(node.uid, MOUNTED_IN_POD)
    with pytest.raises(KeyboardInterrupt):
        power.lose([(node.uid, MOUNTED_IN_POD)])
    monkeypatch.undo()
    node.running.clear()
    _be_pods(monkeypatch, node)


def test_a_volume_that_was_left_shut_down_is_found_and_mounted_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent was killed between the shutdown and the mount, and a container has started."""
    with a_node(tmp_path, monkeypatch) as node:
        node.start()
        volume = power.look(node.uid, MOUNTED_IN_POD)
        leave_shut_down(node, monkeypatch)
        started = node.start('print("written", flush=True); import time; time.sleep(600)')
        assert leftovers.left(node.uid) == [f"volume {volume.source}, shut down"]
        leftovers.heal(node.uid)
        assert started.wait(PATIENCE_S) == -signal.SIGKILL, "it had the dead file system"
        node.running.clear()
        power.heal(node.uid)
        assert power.left(node.uid) == []
        assert node.content() == b"s" * 10000


@pytest.mark.long
def test_an_xfs_that_was_left_shut_down_is_found_and_mounted_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No container starts on it: not even its folder is read."""
    with a_node(tmp_path, monkeypatch, "xfs") as node:
        node.start()
        volume, before = power.look(node.uid, MOUNTED_IN_POD), node.mounted()
        leave_shut_down(node, monkeypatch)
        assert leftovers.left(node.uid) == [f"volume {volume.source}, shut down"]
        power.heal(node.uid)
        assert power.left(node.uid) == []
        assert node.mounted() == before
        assert node.content() == b"s" * 10000


def _dies(uid: str, volume: Volume) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("unmounted", ["base and pods", "pods"])
def test_an_agent_that_died_between_two_mounts_is_followed_by_one_that_ends_its_work(
    unmounted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with a_node(tmp_path, monkeypatch) as node:
        victim = node.start()
        volume, before = power.look(node.uid, MOUNTED_IN_POD), node.mounted()
        victim.kill()
        victim.wait(PATIENCE_S)
        node.running.clear()
        points = [node.kubelets, *([f"{tmp_path}/base"] if "base" in unmounted else [])]
        enter = ["nsenter", "--target", str(node.pid), "--mount", "--pid", "--", "umount"]
        subprocess.run([*enter, *points], check=True)
        power.restore(node.uid, volume)
        assert sorted(node.mounted()) == sorted(before)
        assert node.content() == b"s" * 10000 + b"u" * 10000


def test_a_volume_that_the_kubelet_gave_up_is_not_mounted_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with a_node(tmp_path, monkeypatch) as node:
        victim = node.start()
        volume = power.look(node.uid, MOUNTED_IN_POD)
        victim.kill()
        victim.wait(PATIENCE_S)
        node.running.clear()
        enter = ["nsenter", "--target", str(node.pid), "--mount", "--pid", "--"]
        subprocess.run([*enter, "umount", node.kubelets], check=True)
        subprocess.run([*enter, "rmdir", node.kubelets], check=True)
        power.restore(node.uid, volume)
        assert node.mounted() == [f"{tmp_path}/base"]


def test_a_volume_that_something_holds_is_told_with_its_mounts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with a_node(tmp_path, monkeypatch) as node:
        node.start()
        volume = power.look(node.uid, MOUNTED_IN_POD)
        power.mark(node.uid, MOUNTED_IN_POD)
        monkeypatch.setattr(power, "_TIMEOUT_S", 0.5)
        held = os.open(node.seen, os.O_RDONLY)
        try:
            with pytest.raises(power.NotMounted, match=r"disk\.img .* is shut down, mounted at"):
                power.lose([(node.uid, MOUNTED_IN_POD)])
        finally:
            os.close(held)
        monkeypatch.setattr(power, "_TIMEOUT_S", PATIENCE_S)
        node.running.clear()
        power.restore(node.uid, volume)
        assert node.content() == b"s" * 10000


def test_a_folder_of_the_nodes_own_disk_never_loses_its_power(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pods, "workers", lambda uid: [os.getpid()])
    with pytest.raises(mounts.SharedVolume, match="nothing is mounted"):
        power.look("uid", str(tmp_path))
    with pytest.raises(mounts.SharedVolume, match="root file system"):
        power.look("uid", "/")


def test_a_volume_in_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "mount -t tmpfs none /mnt && echo here && sleep 600"
    command = ["unshare", "--mount", "sh", "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        assert said_by(owner).readline() == "here\n"
        monkeypatch.setattr(pods, "workers", lambda uid: [owner.pid])
        with pytest.raises(Unsuited, match=r"type tmpfs, .* expected ext4 or xfs"):
            power.look("uid", "/mnt")
        owner.kill()

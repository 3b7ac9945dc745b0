"""Made-up pods: real network namespaces, each with a process whose cgroup names a pod."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[3]
PORT = 7001
ALONE = Path(tempfile.gettempdir()) / "zonequake-tests-of-links.lock"
_SERVER = """
import socket, sys, threading
def serve(connection):
    while data := connection.recv(65536):
        connection.sendall(data)
listening = socket.create_server(("0.0.0.0", int(sys.argv[1])), backlog=64)
print("ready", flush=True)
while True:
    threading.Thread(target=serve, args=(listening.accept()[0],), daemon=True).start()
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FakePod:
    """A namespace with one interface, a server on port 7001 inside, and the agent to act on it."""

    uid: str
    address: str
    namespace: str
    state: Path

    def agent(self, verb: str, *words: str, check: bool = True) -> Any:
        """What the agent's program answers; its words follow the pod's UID."""
        done = subprocess.run(
            [sys.executable, "-m", "zonequake_agent", verb, self.uid, *words],
            env={**os.environ, "ZQ_AGENT_STATE": str(self.state)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert not check or done.returncode == 0, done.stderr
        return json.loads(done.stdout) if done.stdout.strip() else None

    def apply(self, **order: object) -> str:
        """Puts a fault in; its name."""
        name = f"ZQ-{secrets.token_hex(4)}"
        self.agent("apply", json.dumps({"name": name, "seconds": 60, "ports": [PORT], **order}))
        return name

    def counts(self, name: str) -> dict[str, int]:
        found = self.agent("counts", name)
        assert isinstance(found, dict)
        return found

    def reaches(
        self, other: FakePod, count: int = 5, *, within_s: float = PATIENCE_S
    ) -> list[float | None]:
        """Round trips from here to the other's port."""
        found = self.agent("probe", other.address, str(PORT), str(count), str(within_s))
        assert isinstance(found, list)
        return found

    def is_cut_off_from(self, other: FakePod) -> bool:
        """Whether the next round trip from here to the other's port gets no answer."""
        return self.reaches(other, 1, within_s=1.5) == [None]

    def rules(self) -> str:
        words = ["ip", "netns", "exec", self.namespace, "iptables-save"]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[list[FakePod]]:
    """Three pods on one bridge, in a network of their own.

    Only for one test of the machine at a time: an agent that sweeps or ends undoes the faults of
    every pod that it finds on its node.
    """
    key = secrets.token_hex(3)
    with contextlib.ExitStack() as undo:
        alone = undo.enter_context(ALONE.open("w"))
        fcntl.flock(alone, fcntl.LOCK_EX)
        bridge = f"zq{key}"
        _ip("netns", "add", bridge)
        undo.callback(_ip, "netns", "delete", bridge)
        _ip("-n", bridge, "link", "add", "bridge", "type", "bridge")
        _ip("-n", bridge, "link", "set", "bridge", "up")
        yield [_pod(f"{bridge}p{n}", bridge, n, tmp_path, undo) for n in range(3)]


def _pod(
    namespace: str, bridge: str, number: int, state: Path, undo: contextlib.ExitStack
) -> FakePod:
    _ip("netns", "add", namespace)
    undo.callback(_ip, "netns", "delete", namespace)
    wire = f"w{number}"
    _ip("-n", bridge, "link", "add", wire, "type", "veth", "peer", "eth0", "netns", namespace)
    _ip("-n", bridge, "link", "set", wire, "master", "bridge", "up")
    address = f"10.199.0.{number + 1}"
    _ip("-n", namespace, "addr", "add", f"{address}/24", "dev", "eth0")
    for link in ("eth0", "lo"):
        _ip("-n", namespace, "link", "set", link, "up")
    server = undo.enter_context(
        subprocess.Popen(
            ["ip", "netns", "exec", namespace, sys.executable, "-c", _SERVER, str(PORT)],
            stdout=subprocess.PIPE,
            text=True,
        )
    )
    undo.callback(server.kill)
    assert server.stdout is not None
    assert server.stdout.readline() == "ready\n"
    uid = str(uuid.uuid4())
    group = _hierarchy() / f"pod{uid}"
    group.mkdir()
    undo.callback(group.rmdir)
    (group / "cgroup.procs").write_text(str(server.pid))
    undo.callback((_hierarchy() / "cgroup.procs").write_text, str(server.pid))
    return FakePod(uid=uid, address=address, namespace=namespace, state=state)


def _hierarchy() -> Path:
    """A folder of the machine's cgroups in which a group can be made, of version 1 or 2."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    names = {words[2]: Path(words[1]) for words in mounts if words[2] in ("cgroup", "cgroup2")}
    frozen = [Path(w[1]) for w in mounts if w[2] == "cgroup" and "freezer" in w[3].split(",")]
    return frozen[0] if frozen else names["cgroup2"]


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)

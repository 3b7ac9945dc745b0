"""Process 1 of an embedded node: sets up folders and addresses, then keeps its components running.

`up` starts it in separate namespaces (network, mounts, processes), so that everything it has
created ends with it. It writes `components.json` whenever a component starts or ends.
"""

from __future__ import annotations

import http.client
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec

from zonequake_cluster.components import API_PORT, Component, components
from zonequake_cluster.configuration import KERNEL_SETTINGS
from zonequake_cluster.instance import INSIDE, INSIDE_BIN, ComponentState, InstanceSpec
from zonequake_cluster.machine import cgroups
from zonequake_cluster.machine.network import NODE_INTERFACE
from zonequake_cluster.requirements import SEARCH_PATH
from zonequake_cluster.restarts import restart_delay_s

_POLL_S = 0.1
_PROBE_TIMEOUT_S = 2.0
#: The node mounts empty folders of its own over these: it must not see the machine's contents, and
#: its own writes must not stay on the machine.
_PRIVATE_FOLDERS = ("/tmp", "/run", "/var/lib", "/var/log")  # noqa: S108


@dataclass(slots=True, kw_only=True)
class _Supervised:
    component: Component
    pid: int = 0
    since_s: float = 0.0
    since_unix_ns: int = 0
    starts: int = 0
    quick_ends: int = 0
    not_before_s: float = 0.0
    ready: bool = False


def main() -> None:
    """Runs the supervisor; arguments: the instance's folder, the folder of the built programs."""
    folder, programs = Path(sys.argv[1]), Path(sys.argv[2])
    _mount_folders(folder, programs)
    spec = _wait_for_spec()
    _set_addresses(spec)
    group = f"zonequake-{spec.key}"
    cgroups.create(group)
    cgroups.share_out(group, cores=len(os.sched_getaffinity(0)))
    Supervisor(spec).run()


class Supervisor:
    """Starts due components and reaps ended ones, forever."""

    def __init__(self, spec: InstanceSpec) -> None:
        self._supervised = {
            component.name: _Supervised(component=component) for component in components(spec)
        }
        self._environment = {
            "PATH": SEARCH_PATH,
            "HOME": "/root",
            "LANG": "C.UTF-8",
        }

    def run(self) -> None:
        """Runs without end: the node ends when this process is killed."""
        while True:
            changed = self._reap()
            now_s = time.monotonic()
            for each in self._supervised.values():
                if each.pid == 0 and now_s >= each.not_before_s and self._is_due(each):
                    self._start(each, now_s)
                    changed = True
                elif each.pid != 0 and not each.ready:
                    each.ready = _is_ready(each.component)
            if changed:
                self._write_state()
            time.sleep(_POLL_S)

    def _is_due(self, each: _Supervised) -> bool:
        return all(self._supervised[name].ready for name in each.component.after)

    def _start(self, each: _Supervised, now_s: float) -> None:
        log = os.open(
            INSIDE / "logs" / f"{each.component.name}.log",
            os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC,
            0o600,
        )
        nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        command = each.component.command
        try:
            each.pid = os.posix_spawnp(
                command[0],
                command,
                self._environment,
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, nothing, 0),
                    (os.POSIX_SPAWN_DUP2, log, 1),
                    (os.POSIX_SPAWN_DUP2, log, 2),
                ],
                setsid=True,
                setsigdef=signal.valid_signals(),
            )
        finally:
            os.close(log)
            os.close(nothing)
        each.since_s, each.since_unix_ns = now_s, time.time_ns()
        each.starts += 1
        each.ready = False

    def _reap(self) -> bool:
        """Reaps ended components, and orphans that became this process's children."""
        by_pid = {each.pid: each for each in self._supervised.values() if each.pid != 0}
        changed = False
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return changed
            if pid == 0:
                return changed
            if (each := by_pid.get(pid)) is not None:
                now_s = time.monotonic()
                ran_s = now_s - each.since_s
                each.quick_ends, delay_s = restart_delay_s(each.quick_ends, ran_s)
                each.pid, each.ready, each.not_before_s = 0, False, now_s + delay_s
                code = os.waitstatus_to_exitcode(status)
                name = each.component.name
                _say(f"{name} ended with {code} after {ran_s:.1f} s, again in {delay_s:.1f} s")
                changed = True

    def _write_state(self) -> None:
        state = [
            ComponentState(
                name=each.component.name,
                pid=each.pid,
                since_unix_ns=each.since_unix_ns,
                restarts=max(0, each.starts - 1),
            )
            for each in self._supervised.values()
        ]
        written = INSIDE / "components.json.new"
        written.write_bytes(msgspec.json.encode(state))
        written.replace(INSIDE / "components.json")


def _mount_folders(folder: Path, programs: Path) -> None:
    # Descriptors, because the next mounts may cover the folders' paths.
    opened = {
        INSIDE: os.open(folder, os.O_PATH),
        INSIDE_BIN: os.open(programs, os.O_PATH),
    }
    for covered in _PRIVATE_FOLDERS:
        _run("mount", "-t", "tmpfs", "-o", "mode=1777", "zonequake", covered)
    for target, descriptor in opened.items():
        target.mkdir()
        source = f"/proc/{os.getpid()}/fd/{descriptor}"
        _run("mount", "--no-canonicalize", "--bind", source, str(target))
        os.close(descriptor)
    (INSIDE / "volumes").mkdir(exist_ok=True)
    (INSIDE / "logs").mkdir(exist_ok=True)
    settings = Path("/run/zonequake-sysctl")
    for name, value in KERNEL_SETTINGS.items():
        shown = settings / name
        shown.parent.mkdir(parents=True, exist_ok=True)
        shown.write_text(f"{value}\n")
        if Path("/proc/sys", name).exists():
            _run("mount", "--bind", str(shown), f"/proc/sys/{name}")
    # The kubelet hands mounts on to its containers, which needs a shared tree; it is shared below
    # this mount namespace only.
    _run("mount", "--make-rshared", "/")


def _wait_for_spec() -> InstanceSpec:
    """Waits for the specification, which `up` writes once it has connected the network."""
    path = INSIDE / "instance.json"
    while not path.exists():
        time.sleep(_POLL_S / 5)
    return msgspec.json.decode(path.read_bytes(), type=InstanceSpec)


def _set_addresses(spec: InstanceSpec) -> None:
    _run("ip", "link", "set", "lo", "up")
    _run("ip", "address", "add", f"{spec.dns_address}/32", "dev", "lo")
    address = f"{spec.node_address}/{spec.prefix_length}"
    _run("ip", "address", "add", address, "dev", NODE_INTERFACE)
    _run("ip", "link", "set", NODE_INTERFACE, "up")
    # The API server reads its own address from the default route; nothing answers there, as the
    # machine forwards nothing for the node.
    _run("ip", "route", "add", "default", "via", spec.host_address)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1\n")


def _is_ready(component: Component) -> bool:
    if component.socket is not None:
        return _accepts(socket.AF_UNIX, component.socket)
    if component.port is not None:
        return _accepts(socket.AF_INET, ("127.0.0.1", component.port))
    if component.health is not None:
        return _is_healthy(component.health)
    return True


def _accepts(family: socket.AddressFamily, address: str | tuple[str, int]) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PROBE_TIMEOUT_S)
        return probe.connect_ex(address) == 0


def _is_healthy(path: str) -> bool:
    trust = ssl.create_default_context(cafile=str(INSIDE / "pki" / "ca.crt"))
    connection = http.client.HTTPSConnection(
        "127.0.0.1", API_PORT, timeout=_PROBE_TIMEOUT_S, context=trust
    )
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _run(*command: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        _say(f"`{' '.join(command)}` failed: {done.stderr.strip()}")
        raise SystemExit(1)


def _say(text: str) -> None:
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    sys.stderr.write(f"{moment} {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    main()

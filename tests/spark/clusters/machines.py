"""Made-up machines on one wire, each with its own address, file system, name and processes.

A network is a namespace with a bridge, and an address on it, where the driver and the store run. A
machine is a network namespace on that bridge, and beside it a namespace of mounts, processes and
names for what runs there: its root is an empty folder in memory into which the C library, a few
programs, Java and Spark are put. There is no Python, no checkout, and no folder of anybody else.

All that was started ends with its test, and with the tests' own process, however that dies; after a
SIGKILL of that the empty network namespaces are left (`ip netns`). No address of this machine is
used, and no rule or route of it changes.
"""

from __future__ import annotations

import contextlib
import os
import platform
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

BEGIN_S = 300.0
SPARK = "/opt/spark"
"""Spark's place on each machine; elsewhere than the driver's."""
DATA = "/var/own"
"""A folder on disk that is a machine's own."""
_BRIDGE = "bridge"
_LIBRARIES = f"/usr/lib/{platform.machine()}-linux-gnu"
_PROGRAMS = ("bash", "cat", "chmod", "gzip", "ls", "rm", "sh", "tar")
_TO_ROOT = r"""
set -eu
root=$1 data=$2 spark=$3 java=$4 libraries=$5 name=$6 address=$7; programs=$8; shift 8
mount -t tmpfs -o size=64m own "$root"
cd "$root"
mkdir -p bin dev etc lib64 opt/spark proc tmp usr var/own ".$libraries" ".$java"
ln -s usr/lib lib
for program in $programs; do cp -L "$(command -v "$program")" bin/; done
cp -L /lib*/ld-linux-*.so.* lib64/ 2>/dev/null || cp -L /lib/ld-linux-*.so.* usr/lib/
mount --bind -o ro "$libraries" ".$libraries"
mount --bind -o ro "$java" ".$java"
for settings in /etc/java-*; do mkdir ".$settings" && mount --bind "$settings" ".$settings"; done
mount --bind -o ro "$spark" opt/spark
mkdir -p "$data/tmp"
mount --bind "$data" var/own
mount --bind "$data/tmp" tmp  # Spark unpacks archives there
for device in null zero random urandom; do
    touch "dev/$device" && mount --bind "/dev/$device" "dev/$device"
done
mount -t proc own proc
echo "root:x:0:0::/tmp:/bin/sh" > etc/passwd
echo "127.0.0.1 localhost\n$address $name" > etc/hosts
echo "$name" > /proc/sys/kernel/hostname
chroot=$(command -v chroot)
PATH=/bin
exec "$chroot" . "$@"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """`folder`: what the machine knows as `DATA`."""

    name: str
    address: str
    namespace: str
    folder: Path

    @contextlib.contextmanager
    def running(
        self, *command: str, environment: Mapping[str, str] | None = None
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Runs a program on it, in a file system that begins empty each time but for `DATA`.

        What it prints is in the file `log` of the folder. A SIGKILL to the yielded process ends all
        that the program has started, as if the machine were gone.
        """
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                self.command(*command),
                env={"PATH": os.environ["PATH"], **(environment or {})},
                stdout=log,
                stderr=log,
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def command(self, *command: str) -> list[str]:
        """What runs a program on it from anywhere."""
        root = self.folder.with_name(f"{self.folder.name}-root")
        root.mkdir(exist_ok=True)
        return [
            "setpriv", "--pdeathsig", "KILL", "ip", "netns", "exec", self.namespace,
            "unshare", "--mount", "--pid", "--fork", "--kill-child", "--uts",
            "sh", "-c", _TO_ROOT, "machine", str(root), str(self.folder), str(_own_spark()),
            str(_own_java()), _LIBRARIES, self.name, self.address, " ".join(_PROGRAMS), *command,
        ]  # fmt: skip

    def processes(self) -> dict[int, str]:
        """The command lines of all that runs on it, by the ids that they have here."""
        told = subprocess.run(
            ["ip", "netns", "pids", self.namespace], capture_output=True, text=True, check=True
        ).stdout
        found = {}
        for word in told.split():
            with contextlib.suppress(OSError):
                line = Path(f"/proc/{word}/cmdline").read_bytes()
                found[int(word)] = line.replace(b"\0", b" ").decode(errors="replace")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """`address`: that of the namespace with the bridge."""

    namespace: str
    address: str
    folder: Path
    undo: contextlib.ExitStack
    machines: list[Machine] = field(default_factory=list)

    @property
    def here(self) -> list[str]:
        """What comes before a command that runs at `address`, with this machine's files."""
        return ["setpriv", "--pdeathsig", "KILL", "ip", "netns", "exec", self.namespace]

    def machine(self, name: str) -> Machine:
        """One more machine on the wire."""
        number = len(self.machines)
        namespace, wire = f"{self.namespace}-{number}", f"wire{number}"
        _ip("netns", "add", namespace)
        self.undo.callback(_ip, "netns", "delete", namespace)
        _ip("-n", self.namespace, "link", "add", wire, "type", "veth",
            "peer", "eth0", "netns", namespace)  # fmt: skip
        _ip("-n", self.namespace, "link", "set", wire, "master", _BRIDGE, "up")
        address = f"10.199.1.{number + 11}"
        _ip("-n", namespace, "addr", "add", f"{address}/24", "dev", "eth0")
        for link in ("eth0", "lo"):
            _ip("-n", namespace, "link", "set", link, "up")
        folder = self.folder / name
        folder.mkdir(parents=True)
        machine = Machine(name=name, address=address, namespace=namespace, folder=folder)
        self.machines.append(machine)
        return machine

    def answers(self, url: str) -> bytes:
        """What an HTTP server on the network says. Raises CalledProcessError."""
        code = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=120).read())"
        told = subprocess.run(
            [*self.here, sys.executable, "-c", code.replace("print(", "sys.stdout.buffer.write("),
             url], capture_output=True, check=True,
        )  # fmt: skip
        return told.stdout


@contextlib.contextmanager
def network(folder: Path) -> Iterator[Network]:
    """A wire of its own, without machines yet."""
    with contextlib.ExitStack() as undo:
        namespace = f"zqw{secrets.token_hex(3)}"
        _ip("netns", "add", namespace)
        undo.callback(_ip, "netns", "delete", namespace)
        address = "10.199.1.1"
        _ip("-n", namespace, "link", "add", _BRIDGE, "type", "bridge")
        _ip("-n", namespace, "addr", "add", f"{address}/24", "dev", _BRIDGE)
        for link in (_BRIDGE, "lo"):
            _ip("-n", namespace, "link", "set", link, "up")
        yield Network(namespace=namespace, address=address, folder=folder, undo=undo)


def await_true(condition: Callable[[], bool], what: str, *, within_s: float = BEGIN_S) -> None:
    """Raises AssertionError if it doesn't become true in time."""
    ends_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < ends_s, f"{what} did not happen within {within_s:.0f} s"
        time.sleep(0.05)


def java_class(name: str, *arguments: str, options: Sequence[str] = ()) -> list[str]:
    """The command of one of Spark's programs, on a machine."""
    return [
        f"{_own_java()}/bin/java", "-XX:+UseSerialGC", "-Xmx256m", *options,
        "-cp", f"{SPARK}/jars/*", f"org.apache.spark.deploy.{name}", *arguments,
    ]  # fmt: skip


def spark_environment(machine: Machine) -> dict[str, str]:
    """What those programs need to know; nothing in it is the driver's."""
    return {
        "HOME": "/tmp",
        "JAVA_HOME": str(_own_java()),
        "SPARK_HOME": SPARK,
        "SPARK_SCALA_VERSION": _scala(),
        "SPARK_LOCAL_IP": machine.address,
        "SPARK_WORKER_DIR": f"{DATA}/work",
        "SPARK_LOCAL_DIRS": f"{DATA}/local",
    }


def _own_spark() -> Path:
    return Path(pyspark.__file__).parent


def _scala() -> str:
    (core,) = (_own_spark() / "jars").glob("spark-core_*.jar")
    return core.name.split("_")[1].split("-")[0]


def _own_java() -> Path:
    given = os.environ.get("JAVA_HOME")
    if given is not None:
        return Path(given).resolve()
    program = shutil.which("java")
    assert program is not None, "found no java, expected Java 17 on the PATH"
    return Path(program).resolve().parents[1]


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)

"""A PostgreSQL on loopback, with the schema of the target `patroni`, and standbys of it."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

import zonequake_target_patroni.image
from tests.patience import PATIENCE_S
from tests.processes.store.ports import free_ports

MISSING = "no PostgreSQL here (initdb)"


def programs() -> Path | None:
    """The folder of its programs: Debian has only some of them on the PATH."""
    found = max(Path("/usr/lib/postgresql").glob("*/bin/initdb"), default=shutil.which("initdb"))
    return Path(found).resolve().parent if found else None


class Postgres:
    """A server as a plain process; it refuses to run as root, and runs as `nobody` then."""

    def __init__(self, folder: Path, name: str) -> None:
        found = programs()
        assert found is not None
        self._programs, self._folder, self.name = found, folder, name
        self._user = "nobody" if os.geteuid() == 0 else None
        (self.port,) = free_ports(1)
        self.process: subprocess.Popen[bytes] | None = None

    def _run(self, program: str, *words: str) -> str:
        done = subprocess.run(
            [str(self._programs / program), *words],
            user=self._user,
            cwd=self._folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{program}: {done.stderr}"
        return done.stdout

    @property
    def data(self) -> str:
        return str(self._folder / self.name)

    def create(self) -> None:
        form = ("-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
        self._run("initdb", "-D", self.data, *form)
        self.start()
        self.query((files(zonequake_target_patroni.image) / "schema.sql").read_text())

    def copy(self, primary: Postgres) -> None:
        """Becomes a standby of `primary`."""
        source = ("-h", "127.0.0.1", "-p", str(primary.port), "-U", "postgres")
        self._run("pg_basebackup", "-D", self.data, "-R", "-c", "fast", "--no-sync", *source)
        self.start()

    def start(self) -> None:
        """Starts it, again if a killed one's children are not gone yet."""
        own = {"fsync": "off", "shared_buffers": "16MB", "zonequake.member": self.name}
        own |= {"listen_addresses": "127.0.0.1", "unix_socket_directories": str(self._folder)}
        command = [str(self._programs / "postgres"), "-D", self.data, "-p", str(self.port)]
        command += [word for name, value in own.items() for word in ("-c", f"{name}={value}")]
        give_up_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < give_up_s:
            with (self._folder / f"{self.name}.log").open("ab") as log:
                self.process = subprocess.Popen(
                    command, user=self._user, cwd=self._folder, stderr=log
                )
            while self.process.poll() is None and time.monotonic() < give_up_s:
                ready = [str(self._programs / "pg_isready"), "-q", *self._place]
                if subprocess.run(ready, check=False).returncode == 0:
                    return
                time.sleep(0.05)
        raise AssertionError(f"{self.name} has not started: see {self._folder}")

    @property
    def _place(self) -> tuple[str, ...]:
        return ("-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres")

    def query(self, statement: str) -> str:
        return self._run("psql", "-XAtq", "-v", "ON_ERROR_STOP=1", *self._place, "-c", statement)

    def promote(self) -> None:
        self._run("pg_ctl", "promote", "-w", "-D", self.data)

    def kill(self) -> None:
        """Kills all of its processes, as the end of a container does; returns when they have ended,
        so that no connection is open."""
        if self.process is None or self.process.poll() is not None:
            return
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        self.process.kill()
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)
        self.process.wait()
        while any(map(_runs, children)):
            time.sleep(0.01)


def _runs(pid: str) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    return False


@contextmanager
def postgres() -> Iterator[tuple[Postgres, Postgres]]:
    """A primary, which runs, and a standby, which doesn't yet."""
    folder = Path(tempfile.mkdtemp(prefix="patroni-", dir="/tmp"))  # open to its user
    folder.chmod(0o755)
    if os.geteuid() == 0:
        os.chown(folder, pwd.getpwnam("nobody").pw_uid, -1)
    both = Postgres(folder, "m0"), Postgres(folder, "m1")
    try:
        both[0].create()
        yield both
    finally:
        for one in both:
            one.kill()
        shutil.rmtree(folder, ignore_errors=True)

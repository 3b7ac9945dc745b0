"""One real data node as a process on loopback."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import dataclass, field
from pathlib import Path

import zonequake_store
from tests.warm_processes import WarmProcess


@dataclass
class Node:
    """One data node and its process, which may be dead."""

    name: str
    directory: Path
    peer_port: int
    client_port: int
    admin_port: int
    orders_port: int
    environment: dict[str, str] = field(default_factory=dict)
    program: tuple[str, ...] = ("-m", "zonequake_store")
    process: WarmProcess | None = None

    @property
    def admin_url(self) -> str:
        return f"http://127.0.0.1:{self.admin_port}"

    @property
    def orders_url(self) -> str:
        return f"https://127.0.0.1:{self.orders_port}"

    @property
    def peer_address(self) -> str:
        return f"127.0.0.1:{self.peer_port}"

    def spawn(self) -> None:
        assert self.process is None or self.process.poll() is not None
        environment = {
            "PATH": os.environ["PATH"],
            # The code that the test imports, also when that isn't the one that is installed.
            "PYTHONPATH": str(Path(zonequake_store.__file__).parents[1]),
            "ZQ_NODE": self.name,
            "ZQ_DATA_DIR": str(self.directory),
            "ZQ_BIND": "127.0.0.1",
            "ZQ_PEER_PORT": str(self.peer_port),
            "ZQ_CLIENT_PORT": str(self.client_port),
            "ZQ_ADMIN_PORT": str(self.admin_port),
            "ZQ_ORDERS_PORT": str(self.orders_port),
            "ZQ_ATTRIBUTES": json.dumps({"node": self.name}),
            "ZQ_LOG_MAP_BYTES": str(1 << 30),
            "ZQ_DATA_MAP_BYTES": str(1 << 30),
            **self.environment,
        }
        self.directory.mkdir(parents=True, exist_ok=True)
        log = self.directory.parent / f"{self.name}.log"
        self.process = WarmProcess(self.program, environment, log)

    def kill(self) -> None:
        """SIGKILL, and wait until it is dead."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def signal_stop(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)

    def pause(self) -> None:
        """SIGSTOP: alive, and answering nothing."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    @property
    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def cpu_s(self) -> float:
        """CPU time of the process, user and system."""
        assert self.process is not None
        text = Path(f"/proc/{self.process.pid}/stat").read_text()
        fields = text.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

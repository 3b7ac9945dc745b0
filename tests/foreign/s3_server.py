"""A real S3 server on loopback: versitygw, compiled once, over a folder of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.foreign.built_once import go_program
from tests.processes.store.ports import free_ports

ACCESS_KEY, SECRET_KEY = "an-access-key", "a-secret-that-nobody-may-read"
BUCKET = "runs"
_SOURCES = Path(__file__).parent / "versitygw"
_AWAIT = """
import socket, sys, time
ends_s = time.monotonic() + 180
while True:
    try:
        socket.create_connection((sys.argv[1], int(sys.argv[2])), 5).close()
        break
    except ConnectionRefusedError:
        if time.monotonic() > ends_s:
            raise
        time.sleep(0.1)
"""
_PROGRAM = "github.com/versity/versitygw/cmd/versitygw"


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Server:
    """The server; a bucket is a folder of `folder`, so that tests can look behind its back."""

    endpoint: str
    folder: Path
    process: subprocess.Popen[bytes]

    @property
    def bucket(self) -> Path:
        return self.folder / BUCKET

    def environment(self, endpoint: str | None = None) -> dict[str, str]:
        """What a process needs to speak to it, maybe through a relay; nothing of this machine's."""
        return {
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_ENDPOINT_URL": endpoint or self.endpoint,
            "AWS_REGION": "us-east-1",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
        }


def program() -> Path:
    """The compiled server."""
    return go_program(_SOURCES, _PROGRAM)


@contextmanager
def serving(
    folder: Path,
    *,
    tls: Mapping[str, Path] | None = None,
    host: str = "127.0.0.1",
    within: Sequence[str] = (),
    port: int | None = None,
) -> Iterator[S3Server]:
    """Runs a server with an empty bucket. `tls`: the files `cert` and `key`. `within`: the command
    that runs another one where `host` is an address; `port` is then free there. Default: any."""
    port = free_ports(1)[0] if port is None else port
    address = f"{host}:{port}"
    data, aside = folder / "data", folder / "aside"
    (data / BUCKET).mkdir(parents=True)
    aside.mkdir()
    options = [f"--{name}={file}" for name, file in (tls or {}).items()]
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(
            [*within, program(), f"--port={address}", *options, "--quiet",
             "posix", f"--sidecar={aside}", data],
            env={**os.environ, "ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY},
            stdout=log,
            stderr=log,
        )  # fmt: skip
    try:
        if within:
            subprocess.run([*within, sys.executable, "-c", _AWAIT, host, str(port)], check=True)
        else:
            _await_answer(f"http://{address}/", folder / "log")
        endpoint = f"{'https' if tls else 'http'}://{address}"
        yield S3Server(endpoint=endpoint, folder=data, process=server)
    finally:
        server.terminate()
        server.send_signal(signal.SIGCONT)  # a test may have stopped it
        server.wait(timeout=180)


def _await_answer(url: str, log: Path) -> None:
    deadline_s = time.monotonic() + 180
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except urllib.error.HTTPError:
            return  # it refuses a request without credentials
        except ConnectionRefusedError:
            pass
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ConnectionRefusedError):
                return
        except OSError:
            return  # a TLS port
        else:
            return
        assert time.monotonic() < deadline_s, log.read_text()
        time.sleep(0.1)

"""A server of Google's storage protocol on loopback: fake-gcs-server, compiled once.

It asks for no credentials, but Google's client wants some before it sends anything: those of a
service account, with which it signs its requests by itself.
"""

from __future__ import annotations

import json
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.foreign.built_once import go_program
from tests.processes.store.ports import free_ports

BUCKET = "runs"
_SOURCES = Path(__file__).parent / "fakegcs"
_PROGRAM = "github.com/fsouza/fake-gcs-server"
_KEY_BITS = 2048
_START_S = 180.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GcsServer:
    """The server. Its bucket is a folder of `folder`, whose files are the objects."""

    endpoint: str
    folder: Path
    account: Path

    def environment(self) -> dict[str, str]:
        """Returns what a process needs to speak to it."""
        return {
            "CLOUD_STORAGE_EMULATOR_ENDPOINT": self.endpoint,
            "GOOGLE_APPLICATION_CREDENTIALS": str(self.account),
        }


def program() -> Path:
    """Returns the compiled server."""
    return go_program(_SOURCES, _PROGRAM)


@contextmanager
def serving(folder: Path) -> Iterator[GcsServer]:
    """Runs a server with an empty bucket."""
    port = free_ports(1)[0]
    data = folder / "data"
    (data / BUCKET).mkdir(parents=True)
    endpoint = f"http://127.0.0.1:{port}"
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(
            [program(), "-scheme=http", "-host=127.0.0.1", f"-port={port}",
             f"-public-host=127.0.0.1:{port}", "-backend=filesystem", f"-filesystem-root={data}"],
            stdout=log,
            stderr=log,
        )  # fmt: skip
    try:
        _await_answer(f"{endpoint}/storage/v1/b/{BUCKET}", folder / "log")
        yield GcsServer(endpoint=endpoint, folder=data, account=_account(folder / "account.json"))
    finally:
        server.terminate()
        server.wait(timeout=180)


def _account(file: Path) -> Path:
    """Writes the credentials of a service account that nobody knows."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=_KEY_BITS)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    document = {
        "type": "service_account",
        "project_id": "zonequake",
        "private_key_id": "1",
        "private_key": pem.decode(),
        "client_email": "tests@zonequake.iam.gserviceaccount.com",
        "client_id": "1",
        "token_uri": "https://oauth2.googleapis.com/token",
    }
    file.write_text(json.dumps(document))
    return file


def _await_answer(url: str, log: Path) -> None:
    ends_s = time.monotonic() + _START_S
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except OSError:
            assert time.monotonic() < ends_s, log.read_text()
            time.sleep(0.1)
        else:
            return

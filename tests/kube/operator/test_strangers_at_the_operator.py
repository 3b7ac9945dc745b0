"""A stranger at the operator's port neither ends it nor fills it, nor sees anything secret."""

from __future__ import annotations

import random
import socket
import urllib.request
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

import pytest

from tests.kube.operator.api_server import wait_until
from tests.patience import PATIENCE_S
from tests.processes.store.ports import free_ports

if TYPE_CHECKING:
    from tests.kube.operator.machine import Machine

pytestmark = pytest.mark.kube


def test_garbage_and_silence_at_the_operators_port_do_no_harm(machine: Machine) -> None:
    (port,) = free_ports(1)
    operator = machine.run_operator("operator.log", ZQ_HTTP_PORT=str(port))
    log = machine.folder / "operator.log"
    chance = random.Random(1)
    try:
        wait_until(lambda: answers(port) is not None)
        things = [chance.randbytes(chance.randint(1, 2000)) for _ in range(100)]
        things += [b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n"]
        things += [b"POST /metrics HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n" + b"y" * 99]
        for data in things:
            with suppress(OSError), connected(port) as connection:
                connection.sendall(data)
        with ExitStack() as silent:
            for _ in range(400):
                silent.enter_context(connected(port))
            assert answers(port) is not None, "the silent ones keep no client out"
        assert operator.poll() is None
        assert log.read_text().count("Error handling request") <= 10, "no flood"
        assert "Traceback" not in log.read_text()
        assert machine.api.accounts["operator"] not in (answers(port, "/metrics") or "")
    finally:
        operator.kill()
        operator.wait()


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), PATIENCE_S)


def answers(port: int, path: str = "/healthz") -> str | None:
    """What it says, whatever the status; None if it says nothing."""
    with suppress(OSError):
        try:
            url = f"http://127.0.0.1:{port}{path}"
            with urllib.request.urlopen(url, timeout=PATIENCE_S) as response:
                return str(response.read(), "utf-8")
        except urllib.error.HTTPError as error:
            return str(error.read(), "utf-8")
    return None

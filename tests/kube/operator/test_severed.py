"""A line that is severed lets nothing through, whichever client was on the way in."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

from tests.kube.operator.severed import Line
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.kube


def echo(server: socket.socket) -> None:
    """Answers one connection with what it says."""
    near, _ = server.accept()
    with near:
        near.sendall(near.recv(100))


def answer(line: Line) -> bytes:
    host, _, port = line.url.rpartition("//")[2].rpartition(":")
    with socket.socket() as client:
        client.settimeout(PATIENCE_S)
        client.connect((host, int(port)))
        client.sendall(b"are you there?")
        try:
            return client.recv(100)
        except ConnectionResetError:
            return b""


def test_who_is_let_in_as_the_line_is_severed_gets_no_further(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    came, goes_on = threading.Event(), threading.Event()
    connect = socket.create_connection

    def slowly(target: Any) -> socket.socket:
        came.set()
        goes_on.wait()
        return connect(target)

    monkeypatch.setattr(socket, "create_connection", slowly)
    with socket.create_server(("127.0.0.1", 0)) as server:
        line = Line(f"http://127.0.0.1:{server.getsockname()[1]}")
        threading.Thread(target=echo, args=(server,), daemon=True).start()
        found: list[bytes] = []
        asking = threading.Thread(target=lambda: found.append(answer(line)))
        asking.start()
        came.wait()
        line.sever()
        goes_on.set()
        asking.join()
        assert found == [b""]
        line.mend()
        # The first answer went to who was cut off.
        threading.Thread(target=echo, args=(server,), daemon=True).start()
        assert answer(line) == b"are you there?"
        line.close()

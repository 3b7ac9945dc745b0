"""A line to the API server that can be cut: it passes bytes, and knows nothing of what they say."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from urllib.parse import urlsplit

from tests.processes.store.ports import free_ports


class Line:
    """`url` leads to `target`, until it is severed and after it is mended."""

    def __init__(self, target: str) -> None:
        parts = urlsplit(target)
        self._target = (parts.hostname, parts.port)
        self._is_severed = False
        self._flows = threading.Event()
        self._flows.set()
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        (port,) = free_ports(1)
        # Bound by its number, it stays bound from the end of listening until it begins again.
        self._listener = socket.create_server(("127.0.0.1", port))
        self.url = f"{parts.scheme}://127.0.0.1:{port}"
        self._listen()

    def sever(self) -> None:
        """No client is let in, and all connections end."""
        with self._lock:
            self._is_severed = True
            for connection in (self._listener, *self._open):
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def hang(self) -> None:
        """Every client is let in and connections stay, but nothing passes any more."""
        self._flows.clear()

    def mend(self) -> None:
        """As before."""
        self._is_severed = False
        self._listener.listen()
        self._listen()

    def close(self) -> None:
        """For good."""
        self._flows.set()
        self.sever()
        self._listener.close()

    def _listen(self) -> None:
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):  # severed
            while True:
                near, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        with near, suppress(OSError), socket.create_connection(self._target) as far:
            with self._lock:
                if self._is_severed:
                    return  # let in, and severed before it got to the other side
                self._open |= {near, far}
            back = threading.Thread(target=self._pass, args=(far, near), daemon=True)
            back.start()
            self._pass(near, far)
            back.join()
            with self._lock:
                self._open -= {near, far}

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self._flows.wait()
                sink.sendall(data)
        for connection in (source, sink):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

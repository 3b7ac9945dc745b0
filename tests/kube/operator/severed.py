"""A line to the API server that can be cut: it passes bytes, and knows nothing of what they say."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from urllib.parse import urlsplit

from ...processes.store.ports import free_ports


class Line:
    """`url` leads to `target`, until it is severed and after it is mended."""

    def __init__(self, target: str) -> None:
        parts = urlsplit(target)
        self._target = (parts.hostname, parts.port)
        self._severed = False
        self._flows = threading.Event()
        self._flows.set()
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        (port,) = free_ports(1)
        self._address = ("127.0.0.1", port)
        self._listener = socket.create_server(self._address)
        self.url = f"{parts.scheme}://127.0.0.1:{port}"
        self._listen()

    def sever(self) -> None:
        """Nobody is let in, and all connections end."""
        self._severed = True
        self._close_listener()
        with self._lock:
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def hang(self) -> None:
        """Everybody is let in and connections stay, but nothing passes any more."""
        self._flows.clear()

    def mend(self) -> None:
        """As before."""
        self._severed = False
        self._listener = socket.create_server(self._address)
        self._listen()

    def close(self) -> None:
        """For good."""
        self._flows.set()
        self.sever()

    def _close_listener(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes who accepts
        self._listener.close()

    def _listen(self) -> None:
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        while not self._severed:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        with near, socket.create_connection(self._target) as far:
            with self._lock:
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

"""The system under test: a store of one process, with nothing but Python's standard library.

It answers a write at once and puts it on disk a second later, so that a kill loses what was
acknowledged; with `--sync` it puts it on disk first.
"""

import argparse
import json
import os
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

VERSION = "1.0"


class Store:
    """All keys, each with its value and the number of its last write; a file of all writes.

    `name`: the member's own, by which its dump is known too: histories name it in each answer.
    """

    def __init__(self, folder: Path, *, name: str, sync: bool) -> None:
        self.name = name
        self.lock = threading.Lock()
        self.keys: dict[str, tuple[Any, int]] = {}
        self.writes = self.starts = 0
        self.identity = uuid.uuid4().hex
        self._sync = sync
        path = folder / "writes.jsonl"
        for line in path.read_bytes().splitlines() if path.exists() else ():
            entry = json.loads(line)
            if "starts" in entry:
                self.starts, self.identity = entry["starts"], entry["identity"]
            else:
                self.writes = entry["index"]
                self.keys[entry["key"]] = entry["value"], entry["index"]
        self.starts += 1
        self._file = path.open("ab", buffering=1 << 20)
        self._put({"starts": self.starts, "identity": self.identity})
        self.flush()

    def execute(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Carries one operation out; `index` is its place: that of the last write of any key."""
        with self.lock:
            held, _ = self.keys.get(asked["key"], (None, 0))
            applied = asked["f"] != "cas" or held == asked["expected"]
            if asked["f"] != "read" and applied:
                value = asked["value"]
                value = [*(held or []), value] if asked["f"] == "append" else value
                self.writes += 1
                self.keys[asked["key"]] = value, self.writes
                self._put({"key": asked["key"], "value": value, "index": self.writes})
                if self._sync:
                    self.flush()
            told = {"value": held, "applied": applied, "index": self.writes, "term": self.starts}
            return told | {"node": self.name}

    def flush(self) -> None:
        """Puts all writes on disk."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def status(self) -> dict[str, object]:
        facts = {"version": VERSION, "identity": self.identity, "node": self.name}
        return facts | {"index": self.writes, "term": self.starts}

    def _put(self, entry: dict[str, object]) -> None:
        self._file.write(json.dumps(entry).encode() + b"\n")


def handler_of(store: Store) -> type[BaseHTTPRequestHandler]:
    class ToyHandler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            with store.lock:
                answer = store.status()
                if self.path == "/dump":
                    answer["keys"] = sorted([k, v, index] for k, (v, index) in store.keys.items())
            self._answer(answer)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self._answer(store.execute(json.loads(body)))

        def _answer(self, answer: object) -> None:
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
            """Logs no request."""

    return ToyHandler


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--flush-seconds", type=float, default=1.0)
    parser.add_argument("--sync", action="store_true")
    options = parser.parse_args()
    store = Store(options.folder, name=options.name, sync=options.sync)

    def flush_for_ever() -> None:
        while True:
            time.sleep(options.flush_seconds)
            with store.lock:
                store.flush()

    threading.Thread(target=flush_for_ever, daemon=True).start()
    ThreadingHTTPServer(("", options.port), handler_of(store)).serve_forever()


if __name__ == "__main__":
    main()

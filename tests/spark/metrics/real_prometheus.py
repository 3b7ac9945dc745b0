"""A Prometheus of Debian's, as a process, with targets of our own in this process."""

from __future__ import annotations

import json
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.processes.store.ports import free_ports

SCRAPE_MS = 200
EVALUATION_MS = 500
LIMIT_S = 300.0


class Target:
    """A scraped process: `series` counters, each one more at every scrape."""

    def __init__(self, series: int) -> None:
        self.scrapes = 0
        target = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                target.scrapes += 1
                lines = [f'made_total{{number="{n}"}} {target.scrapes}\n' for n in range(series)]
                body = "".join(["# TYPE made_total counter\n", *lines]).encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def prometheus(
    folder: Path, targets: list[int], rules: Sequence[Mapping[str, object]] = ()
) -> Iterator[str]:
    """The base URL of a Prometheus that scrapes these ports of this machine, with these rules."""
    groups = [{"name": "made", "interval": f"{EVALUATION_MS}ms", "rules": list(rules)}]
    (folder / "rules.yml").write_text(json.dumps({"groups": groups}))
    config = {
        "global": {"scrape_interval": f"{SCRAPE_MS}ms", "scrape_timeout": f"{SCRAPE_MS}ms"},
        "rule_files": [str(folder / "rules.yml")] if rules else [],
        "scrape_configs": [
            {
                "job_name": "made",
                "static_configs": [{"targets": [f"127.0.0.1:{port}"]} for port in targets],
            }
        ],
    }
    (folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_until(lambda: answers(f"{url}/-/ready"), "Prometheus is ready")
        yield url
    finally:
        process.terminate()
        process.wait(LIMIT_S)


def wait_until(holds: object, what: str) -> None:
    """Waits for a condition. Raises TimeoutError."""
    assert callable(holds)
    end = time.monotonic() + LIMIT_S
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {LIMIT_S} s: {what}")
        time.sleep(0.05)


def answers(url: str) -> bool:
    """Whether the address answers with 200."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def value(url: str, query: str) -> list[float]:
    """An instant query's values."""
    return [float(row["value"][1]) for row in _rows(url, query)]


def labels(url: str, query: str) -> list[dict[str, str]]:
    """The labels of an instant query's series."""
    return [row["metric"] for row in _rows(url, query)]


def _rows(url: str, query: str) -> list[Any]:
    form = urllib.request.quote(query)  # type: ignore[attr-defined]
    with urllib.request.urlopen(f"{url}/api/v1/query?query={form}", timeout=60) as answer:
        return list(json.load(answer)["data"]["result"])

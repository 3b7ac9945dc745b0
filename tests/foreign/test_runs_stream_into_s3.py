"""A run's files go into a real S3 while it goes on: a kill takes the last seconds alone."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from tests.foreign.faulty_s3 import Fault, Relay, each_third, relayed
from tests.foreign.runs_for_a_store import contents, made, zonequake
from tests.foreign.s3_server import BUCKET, SECRET_KEY, S3Server
from tests.unit.chaos.runner.fake_cluster import FakeCluster
from zonequake_analysis.cli import analyze
from zonequake_analysis.storage import limits, streaming
from zonequake_analysis.storage.location import Location
from zonequake_chaos.record.upload import sent_to, upload_run
from zonequake_ctl.context import ReleasePlace

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

LINE = b'{"schema":1,"type":"invoke","f":"read","process":1,"op":"1-1"}\n'
BYTES_PER_S = 400_000
PIECE_BYTES = 400_000
LATE_S = 45
"""How old what is missing may be. A round of both takes seconds; the machine may be busy."""

HARNESS = f"""
import zonequake_analysis.storage.streaming as streaming
import zonequake_chaos.load.histories as histories
import zonequake_chaos.runner.runner as runner
runner.PIECE_BYTES = {PIECE_BYTES}
histories.FOLLOW_S = streaming.PAUSE_S = 0.5
from zonequake_chaos.commands.cli import main
main()
"""


class GrowingHistories(FakeCluster):
    """Load pods whose history grows by the clock, from the phase `load` to `done`."""

    began_s = ended_s = 0.0

    def size_bytes(self) -> int:
        grown_s = (self.ended_s or time.monotonic()) - self.began_s if self.began_s else 0.0
        return int(grown_s * BYTES_PER_S) // len(LINE) * len(LINE)

    async def _load(self, request: web.Request, pod: str, path: str) -> web.Response:
        if path == "phase":
            answer = await super()._load(request, pod, path)
            if self.phases[pod] == "load":
                self.began_s = time.monotonic()
            if self.phases[pod] == "done":
                self.ended_s = time.monotonic()
            return answer
        if path == "files":
            file = {"name": f"{pod}.jsonl", "size_bytes": self.size_bytes(), "open": True}
            return web.json_response({"files": [file]})
        if not path.startswith("files/"):
            return await super()._load(request, pod, path)
        wanted = re.fullmatch(r"bytes=(\d+)-", request.headers.get("Range", "bytes=0-"))
        assert wanted is not None
        start, size_bytes = int(wanted[1]), self.size_bytes()
        content = (LINE * (size_bytes // len(LINE)))[start:]
        return web.Response(status=206 if start else 200, body=content)


@pytest.fixture
def cluster_type() -> type[FakeCluster]:
    return GrowingHistories


def asked(release: ReleasePlace, uri: str, before_s: float) -> tuple[str, ...]:
    times = f"times={{beforeSeconds: {before_s}, afterSeconds: 0.2, quietSeconds: 0}}"
    return (
        *("run", "leader-kill", "--kubeconfig", str(release.kubeconfig), "--out", uri),
        *(
            "--set",
            times,
            "--set",
            "load={pods: 1, registerRate: 10}",
            "--seed",
            "1",
            "--no-analyze",
        ),
    )


def history(folder: Path) -> dict[str, bytes]:
    """The pieces of the history, by name."""
    return {file.name: file.read_bytes() for file in sorted((folder / "history").glob("*.jsonl"))}


async def test_what_was_recorded_until_a_kill_is_in_the_store_but_for_the_last_seconds(
    cluster: Any,
    release: ReleasePlace,
    server: S3Server,
    prefix: str,
    tmp_path: Path,
) -> None:
    uri, there = f"s3://{BUCKET}/{prefix}", server.bucket / prefix
    with relayed(server.endpoint, each_third) as relay:
        environment = server.environment(relay.endpoint)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", HARNESS, *asked(release, uri, 300)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=tmp_path,
            env={**os.environ, **environment, "COLUMNS": "300"},
        )
        ending = asyncio.ensure_future(process.communicate())
        deadline_s = time.monotonic() + 300
        while len(history(there)) < 4 and not ending.done():
            assert time.monotonic() < deadline_s, contents(there).keys()
            await asyncio.sleep(0.2)
        grown = cluster.size_bytes()
        process.send_signal(signal.SIGKILL)
        said, _ = await ending
    assert process.returncode == -9, said.decode()
    assert {Fault.SLOW_DOWN, Fault.RESET, Fault.RESET_DONE} <= set(relay.faults)
    missing = grown - sum(map(len, history(there).values()))
    assert missing / BYTES_PER_S < LATE_S
    assert b'"before"' in (there / "events.jsonl").read_bytes()
    assert (there / "cleanup.jsonl").stat().st_size > 0
    (spool,) = (tmp_path / "runs").iterdir()
    for name, content in contents(there).items():
        if name != ".upload.json":
            assert (spool / name).read_bytes()[: len(content)] == content

    assert not (there / "run.yaml").exists()
    before = contents(there)
    assert await asyncio.to_thread(analyze, uri) == 255
    assert contents(there) == before, "no verdict on what is not whole"
    code, told = await zonequake(
        "upload", spool.name, folder=tmp_path, environment=server.environment()
    )
    assert code == 0, told
    assert contents(there) == contents(spool)


def pieces_in_order(found: dict[str, bytes]) -> list[str]:
    first = min(found, key=len)
    return [first, *sorted(name for name in found if name != first)]


async def test_a_run_that_ends_sends_only_what_is_new_at_its_end(
    cluster: Any,
    release: ReleasePlace,
    server: S3Server,
    prefix: str,
    tmp_path: Path,
) -> None:
    uri, there = f"s3://{BUCKET}/{prefix}", server.bucket / prefix
    with relayed(server.endpoint, lambda *_: None) as relay:
        code, said = await zonequake(
            *asked(release, uri, 8),
            folder=tmp_path,
            environment=server.environment(relay.endpoint),
            program=("-c", HARNESS),
        )
    assert code == 2, said  # nothing was judged
    assert re.search(r"Uploaded: \d+ files, [\d.]+ MB \([\d.]+ s; \d+, [\d.]+ MB, while", said), (
        said
    )
    found = history(there)
    whole = b"".join(found[name] for name in pieces_in_order(found))
    assert whole == LINE * (cluster.size_bytes() // len(LINE))
    described = yaml.safe_load((there / "run.yaml").read_bytes())
    for name, size_bytes in described["files"].items():
        assert (there / name).stat().st_size == size_bytes
    assert not (there / ".upload.json").exists()
    assert list((tmp_path / "runs").iterdir()) == [], "the spool is gone"
    puts = [path for path, _ in written(relay)]
    last = max(n for n, path in enumerate(puts) if path.endswith("/run.yaml"))
    begun = max(n for n, path in enumerate(puts[:last]) if path.endswith("/.upload.json"))
    at_the_end = {path.rpartition("/")[2] for path in puts[begun:last]}
    sent = [(path.rpartition("/")[2], size_bytes) for path, size_bytes in written(relay)[:begun]]
    ended = {piece for piece, content in found.items() if (piece, len(content)) in sent}
    assert at_the_end.isdisjoint(ended), "pieces that ended are not sent again"
    assert ended
    for text in (said, *(text.decode(errors="replace") for text in contents(there).values())):
        assert SECRET_KEY not in text


def written(relay: Relay) -> list[tuple[str, int]]:
    """The objects that were written, in order, also in vain, and their sizes."""
    requests = zip(relay.requests, relay.sizes_bytes, strict=True)
    return [(path.partition("?")[0], size) for (method, path), size in requests if method == "PUT"]


def test_a_store_that_is_away_for_a_while_harms_no_run_and_gets_all_of_it(
    server: S3Server, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made(tmp_path / "runs" / "one-1", "one-1")
    monkeypatch.setattr(streaming, "PAUSE_S", 0.05)
    monkeypatch.setattr(limits, "SILENT_S", 3.0)
    monkeypatch.setattr(limits, "FIRST_ATTEMPTS", 2)
    away = threading.Event()
    turns = (Fault.SILENT, Fault.SLOW_DOWN, Fault.DENIED, Fault.RESET)

    def plan(number: int, _: str, __: str) -> Fault | None:
        return turns[number % len(turns)] if away.is_set() else None

    said: list[str] = []
    with relayed(server.endpoint, plan) as relay:
        monkeypatch.setenv("AWS_ENDPOINT_URL", relay.endpoint)
        place = Location.of(f"s3://{BUCKET}/{prefix}")
        with sent_to(folder, place, said.append):
            away.set()
            for _ in range(100):
                with (folder.path / "events.jsonl").open("a") as file:
                    file.write("{}\n")
                time.sleep(0.05)
            await_true(lambda: {Fault.SILENT, Fault.SLOW_DOWN} <= set(relay.faults))
            await_true(lambda: len(said) >= 1)
            away.clear()
            await_true(lambda: len(said) >= 2)
            with (folder.path / "events.jsonl").open("a") as file:
                file.write('{"last": true}\n')
        uploaded = upload_run(folder, place)
    assert uploaded.sent >= 2
    assert contents(server.bucket / prefix) == contents(folder.path)
    assert "tried again while the run goes on" in said[0]
    assert said[-1].endswith("takes files again")
    assert SECRET_KEY not in "".join(said)


def await_true(holds: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 300
    while not holds():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


def test_a_run_that_an_error_ends_leaves_its_place_free(
    server: S3Server, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made(tmp_path / "runs" / "one-1", "one-1")
    monkeypatch.setattr(streaming, "PAUSE_S", 0.05)
    place = Location.of(f"s3://{BUCKET}/{prefix}")

    def broken() -> None:
        with sent_to(folder, place, print):
            await_true(lambda: "history/load-0.jsonl" in folder.sent)
            raise OSError("as any error")

    with pytest.raises(OSError, match="as any error"):
        broken()
    assert contents(server.bucket / prefix) == {}
    assert (folder.path / "history" / "load-0.jsonl").exists()

"""A loop that ends right after an exec leaves no connection to the API server open."""

from __future__ import annotations

import asyncio
import gc
import json
import ssl
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import uvloop
import yaml
from aiohttp import web
from aiohttp.client_proto import ResponseHandler

from zonequake_cluster.supply.certificate_authority import Authority
from zonequake_kube.client import Kube

TIMES = 10
"""Whether the other side says goodbye before the loop ends is a race."""


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    """Of an API server, in a thread of its own, whose pods answer any command with success."""
    authority = Authority.made("test", datetime.now(UTC))
    served = authority.sign("server", hosts=["127.0.0.1"])
    for name, text in (("crt", served.certificate), ("key", served.key)):
        (tmp_path / f"server.{name}").write_bytes(text)
    (tmp_path / "ca.crt").write_bytes(authority.certificate)
    begun, ended, port = threading.Event(), threading.Event(), [0]

    async def execute(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
        await socket.prepare(request)
        await socket.send_bytes(b"\x03" + json.dumps({"status": "Success"}).encode())
        await socket.close()
        return socket

    async def serve() -> None:
        app = web.Application()
        app.router.add_get("/api/v1/namespaces/n/pods/p/exec", execute)
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        port[0] = runner.addresses[0][1]
        begun.set()
        await asyncio.to_thread(ended.wait)
        await runner.cleanup()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert begun.wait(120)
    cluster = {
        "server": f"https://127.0.0.1:{port[0]}",
        "certificate-authority": str(tmp_path / "ca.crt"),
    }
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "c", "user": {"token": "t"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        "current-context": "c",
    }
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    yield file
    ended.set()
    thread.join()


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_a_loop_that_ends_after_an_exec_leaves_no_connection_open(
    run: Callable[[Any], Any], kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def once() -> int:
        async with await Kube.open(kubeconfig=kubeconfig, context=None, namespace="n") as kube:
            return (await kube.execute("p", "c", ["true"])).code

    told: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda found: told.append(str(found.exc_value)))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        assert [run(once()) for _ in range(TIMES)] == [0] * TIMES
        gc.collect()
    assert told == []


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_a_connection_ends_though_one_of_an_exec_was_closed_twice(
    run: Callable[[Any], Any], kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[Any] = []
    close = ResponseHandler.close

    def noting(handler: ResponseHandler) -> None:
        closed.append(handler.transport)
        close(handler)

    async def once() -> None:
        async with await Kube.open(kubeconfig=kubeconfig, context=None, namespace="n") as kube:
            with monkeypatch.context() as patched:
                patched.setattr(ResponseHandler, "close", noting)
                assert (await kube.execute("p", "c", ["true"])).code == 0
            closed[0].close()

    # asyncio leaves open what it can't abort, until it is collected: here, and not in a later test.
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    run(once())
    assert len(closed) == 1
    closed.clear()
    gc.collect()

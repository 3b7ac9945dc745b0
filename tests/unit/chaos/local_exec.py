"""An API server that runs what is executed in its pods on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import yaml
from aiohttp import WSMsgType, web

from zonequake_kube.client import Kube


class LocalExec:
    """`started`: a process for each command that was executed, with the pod and container."""

    def __init__(self) -> None:
        self.started: list[tuple[str, str, asyncio.subprocess.Process]] = []

    @contextlib.asynccontextmanager
    async def serving(self, folder: Path) -> AsyncIterator[Kube]:
        """Yields a connection to it; its kubeconfig is in `folder`."""
        app = web.Application()
        app.router.add_get("/api/v1/namespaces/n/pods/{pod}/exec", self._exec)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "c", "cluster": {"server": f"http://127.0.0.1:{runner.addresses[0][1]}"}}
            ],
            "users": [{"name": "c", "user": {"token": "t"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
            "current-context": "c",
        }
        (folder / "kubeconfig").write_text(yaml.safe_dump(config))
        try:
            async with await Kube.open(
                kubeconfig=folder / "kubeconfig", context=None, namespace="n"
            ) as kube:
                yield kube
        finally:
            await runner.cleanup()

    async def _exec(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
        await socket.prepare(request)
        words = request.query.getall("command")
        process = await asyncio.create_subprocess_exec(
            *([sys.executable, *words[1:]] if words[0] == "python" else words),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        place = request.match_info["pod"], request.query["container"]
        self.started.append((*place, process))

        async def printed() -> None:
            assert process.stdout is not None
            with contextlib.suppress(ConnectionError):  # the other end may have gone
                while text := await process.stdout.read(1000):
                    await socket.send_bytes(b"\x01" + text)
            await socket.close()

        printing = asyncio.create_task(printed())
        assert process.stdin is not None
        async for message in socket:
            if message.type is WSMsgType.BINARY:
                process.stdin.write(message.data[1:])
        process.stdin.close()
        await process.wait()
        await printing
        return socket

"""The HTTP side of a load pod (docs/interfaces.md, "Load control")."""

from __future__ import annotations

from pathlib import Path

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest

from zonequake_load.errors import TargetError
from zonequake_load.pod.control import HistoryFile, HistoryFiles, OperationRequest, PhaseRequest
from zonequake_load.pod.history import SUFFIX
from zonequake_load.pod.load import LoadPod, PhaseRefusedError

_MAX_BODY_BYTES = 64 << 10
"""The largest request body: a phase's name, or one operation."""


def make_app(load: LoadPod, directory: Path, registry: CollectorRegistry) -> web.Application:
    """Makes the application that serves `load`; its history lies in `directory`."""

    async def status(_: web.Request) -> web.Response:
        return _json(load.status())

    async def phase(request: web.Request) -> web.Response:
        try:
            asked = msgspec.json.decode(await request.read(), type=PhaseRequest)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise web.HTTPBadRequest(text=f"{error}\n") from error
        try:
            load.enter(asked.phase)
        except PhaseRefusedError as error:
            raise web.HTTPConflict(text=f"{error}\n") from error
        return _json(load.status())

    async def operation(request: web.Request) -> web.Response:
        try:
            asked = msgspec.json.decode(await request.read(), type=OperationRequest)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise web.HTTPBadRequest(text=f"{error}\n") from error
        try:
            return _json(await load.ask(asked))
        except PhaseRefusedError as error:
            raise web.HTTPConflict(text=f"{error}\n") from error
        except TargetError as error:
            raise web.HTTPServiceUnavailable(text=f"{error}\n") from error

    async def files(_: web.Request) -> web.Response:
        written_now = {file.path.name for file in load.recorder.files if file.is_open}
        found = [
            HistoryFile(name=name, size_bytes=size_bytes, open=name in written_now)
            for name, size_bytes in _sizes(directory).items()
        ]
        return _json(HistoryFiles(files=found))

    async def file(request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        if name not in _sizes(directory):
            raise web.HTTPNotFound(text=f"found no history file {name!r}; GET /files lists them\n")
        return web.FileResponse(directory / name, headers={"Content-Type": "application/x-ndjson"})

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(
            body=generate_latest(registry),
            headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
        )

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    app = web.Application(client_max_size=_MAX_BODY_BYTES)
    app.add_routes(
        [
            web.get("/status", status),
            web.post("/phase", phase),
            web.post("/operation", operation),
            web.get("/files", files),
            web.get("/files/{name}", file),
            web.get("/metrics", metrics),
            web.get("/healthz", healthz),
        ]
    )
    return app


def _sizes(directory: Path) -> dict[str, int]:
    """Name -> size in bytes of each history file."""
    return {path.name: path.stat().st_size for path in sorted(directory.glob(f"*{SUFFIX}"))}


def _json(value: msgspec.Struct) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")

"""`zonequake kv`, as a process: directly, and through the port-forward of a Kubernetes API."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiohttp import WSMsgType, web

from tests.processes.store.certificates import DOMAIN, Certificates
from tests.processes.store.local_nodes import MOSTLY_TLS
from tests.unit.load.reference_store import ZONE, ReferenceStore
from zonequake_tls.identity import TlsRole

pytestmark = pytest.mark.processes


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    error: str


async def kv(*words: str) -> Answer:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "from zonequake_chaos.commands.cli import main; main()",
        "kv",
        *words,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, error = await process.communicate()
    assert process.returncode is not None
    return Answer(process.returncode, out.decode().strip(), error.decode())


class PortForwardApi:
    """As much of a Kubernetes API as a port-forward needs, over the websocket protocol v4.

    Each channel of a port begins with the port's number; even channels carry data.
    """

    def __init__(self, store: ReferenceStore, certificates: Certificates | None) -> None:
        self._store = store
        self._certificates = certificates
        self.forwarded: list[str] = []
        self.url = ""

    async def start(self) -> web.AppRunner:
        app = web.Application()
        app.router.add_get("/api/v1/namespaces/zonequake/pods", self._pods)
        base = "/api/v1/namespaces/zonequake"
        app.router.add_get(f"{base}/configmaps/zq-harness", self._harness)
        app.router.add_get(f"{base}/secrets/zq-tls-harness", self._secret)
        app.router.add_get("/api/v1/namespaces/zonequake/pods/{pod}/portforward", self._forward)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        return runner

    async def _harness(self, _: web.Request) -> web.Response:
        data = {
            "release": "zq",
            "tlsDomain": "" if self._certificates is None else DOMAIN,
            "tlsRenewSeconds": "300",
            "tlsAuthorities": "",
            "tlsAuthoritiesKey": "",
        }
        return web.json_response({"kind": "ConfigMap", "apiVersion": "v1", "data": data})

    async def _secret(self, _: web.Request) -> web.Response:
        if self._certificates is None:
            raise web.HTTPForbidden
        folder = self._certificates.directory / "harness"
        data = {
            name: base64.b64encode((folder / name).read_bytes()).decode()
            for name in ("tls.crt", "tls.key", "ca.crt")
        }
        return web.json_response({"kind": "Secret", "apiVersion": "v1", "data": data})

    async def _pods(self, request: web.Request) -> web.Response:
        assert "component=store" in request.query["labelSelector"]
        items = [
            {"metadata": {"name": node.name}, "status": {"podIP": f"10.0.0.{node.number}"}}
            for node in self._store.nodes
        ]
        return web.json_response({"kind": "PodList", "apiVersion": "v1", "items": items})

    async def _forward(self, request: web.Request) -> web.WebSocketResponse:
        assert request.query["ports"] == "7002"
        pod = request.match_info["pod"]
        self.forwarded.append(pod)
        (node,) = [node for node in self._store.nodes if node.name == pod]
        socket = web.WebSocketResponse(protocols=["v4.channel.k8s.io"])
        await socket.prepare(request)
        for channel in (0, 1):
            await socket.send_bytes(bytes([channel]) + (7002).to_bytes(2, "little"))
        reader, writer = await asyncio.open_connection("127.0.0.1", node.port)

        async def back() -> None:
            while data := await reader.read(65_536):
                await socket.send_bytes(b"\x00" + data)

        going_back = asyncio.create_task(back())
        async for message in socket:
            if message.type is WSMsgType.BINARY:
                writer.write(message.data[1:])
        going_back.cancel()
        writer.close()
        return socket


@pytest.fixture
async def api(
    request: pytest.FixtureRequest, store: ReferenceStore, tmp_path: Path
) -> AsyncIterator[PortForwardApi]:
    certificates = None
    if getattr(request, "param", "tcp") == "tls":
        certificates = Certificates(tmp_path / "certificates")
        credentials = certificates.credentials(TlsRole.STORE)
        await store.stop()
        await store.start(credentials.for_accepting(TlsRole.HARNESS))
    served = PortForwardApi(store, certificates)
    runner = await served.start()
    (tmp_path / "kubeconfig").write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "c", "cluster": {"server": served.url}}],
                "users": [{"name": "u", "user": {}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )
    )
    yield served
    await runner.cleanup()


async def test_keys_are_put_read_compared_and_appended_directly(store: ReferenceStore) -> None:
    to = ("--zone", ZONE, "--address", store.addresses[0])
    absent = await kv("get", "colour", *to)
    assert (absent.code, absent.out) == (3, "")
    assert (await kv("put", "colour", "blue", *to)).code == 0
    assert (await kv("get", "colour", *to)).out == "blue"
    refused = await kv("cas", "colour", "red", "green", *to)
    assert refused.code == 3
    assert "found 'blue', expected 'red'" in refused.error
    assert (await kv("cas", "colour", "blue", "7", *to)).code == 0
    assert (await kv("get", "colour", *to)).out == "7"
    for element in ("1", "2"):
        assert (await kv("append", "list", element, *to)).code == 0
    assert (await kv("get", "list", *to)).out == "1\n2"


@pytest.mark.parametrize("api", MOSTLY_TLS, indirect=True)
async def test_keys_are_reached_through_the_kubernetes_api(
    store: ReferenceStore, api: PortForwardApi, tmp_path: Path
) -> None:
    to = ("--zone", ZONE, "--kubeconfig", str(tmp_path / "kubeconfig"))
    written = await kv("put", "colour", "blue", *to)
    assert written.code == 0, written.error
    leader = store.leader_of("colour").name
    assert leader in written.error
    assert leader in api.forwarded
    assert (await kv("get", "colour", *to)).out == "blue"


@pytest.mark.parametrize("api", ["tls"], indirect=True)
async def test_keys_are_reached_directly_with_the_harnesss_certificate_and_not_without(
    store: ReferenceStore, api: PortForwardApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    to = ("--zone", ZONE, "--address", store.addresses[0])
    assert (await kv("put", "colour", "blue", *to, "--timeout", "1")).code == 255
    assert store.nodes[0].requests == []
    monkeypatch.setenv("ZQ_TLS_DIR", str(tmp_path / "certificates" / "harness"))
    monkeypatch.setenv("ZQ_TLS_DOMAIN", DOMAIN)
    written = await kv("put", "colour", "blue", *to)
    assert written.code == 0, written.error
    monkeypatch.setenv("ZQ_TLS_DIR", str(tmp_path / "certificates" / "load"))
    stolen = await kv("put", "colour", "red", *to)
    assert stolen.code == 254
    assert "harness.zq.test.zonequake.internal" in stolen.error


async def test_an_unknown_zone_and_a_wrong_address_are_explained(store: ReferenceStore) -> None:
    to = ("--address", store.addresses[0], "--timeout", "1")
    lost = await kv("get", "k", "--zone", "nowhere", *to)
    assert lost.code == 255
    assert "nowhere" in lost.error
    wrong = await kv("get", "k", "--zone", ZONE, "--address", "somewhere")
    assert wrong.code == 254
    assert "host:port" in wrong.error

"""Who gets in, and who doesn't: real data nodes with mutual TLS on every port but the reports'."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import ssl
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from tests.patience import PATIENCE_S
from tests.processes.store.certificates import DOMAIN
from tests.processes.store.local_node import Node
from tests.processes.store.local_nodes import LocalNodes, until
from tests.processes.store.strangers import say, showing
from zonequake_cluster.supply.certificate_authority import Authority
from zonequake_protocol.client import Read, ReplyStatus, Request
from zonequake_tls.identity import TlsRole, identity_of

pytestmark = pytest.mark.processes

THREE = ["n0", "n1", "n2"]
ORDERS = b'{"orders":[]}'


def ports_of(node: Node) -> dict[str, int]:
    return {"peers": node.peer_port, "clients": node.client_port, "orders": node.orders_port}


def log_of(nodes: LocalNodes, node: str) -> str:
    return (nodes.directory / f"{node}.log").read_text()


async def test_every_port_refuses_clients_that_it_isnt_for_and_says_which_and_why(
    tls_nodes: LocalNodes,
) -> None:
    nodes, certificates = tls_nodes, tls_nodes.certificates
    assert certificates is not None
    await nodes.start("n0")
    zone = await nodes.create("z", on=["n0"])
    await nodes.client().write(zone.groups[0], "secret", 4711)
    another = Authority.made("another authority", datetime.now(UTC))
    past = Authority.read(certificates.authority.credential, datetime.now(UTC) - timedelta(days=9))
    for role in TlsRole:
        certificates.write(f"forged-{role}", identity=identity_of(role, DOMAIN), authority=another)
        certificates.write(
            f"expired-{role}",
            identity=identity_of(role, DOMAIN),
            authority=past,
            lifetime=timedelta(days=8),
        )
    certificates.write("other-release", identity="operator.zq2.test.zonequake.internal")
    for_whom = {"peers": {"store"}, "clients": {"load", "harness"}, "orders": {"operator"}}
    frame = encoded(Request(1, Read(zone.groups[0], "secret")))
    request = b"POST /admin/v1/orders HTTP/1.1\r\nHost: n0\r\nContent-Length: 13\r\n\r\n" + ORDERS
    for name, port in ports_of(nodes.nodes["n0"]).items():
        words = request if name == "orders" else frame
        strangers = [
            None,
            *(f"{kind}-{role}" for kind in ("forged", "expired") for role in TlsRole),
        ]
        strangers += ["other-release", *(role for role in TlsRole if role not in for_whom[name])]
        for folder in strangers:
            before = len(log_of(nodes, "n0"))
            context = showing(None if folder is None else certificates.directory / folder)
            assert await say(port, words, context=context, listen_s=10) == b"", (name, folder)
            why = {
                None: "it showed no certificate",
                "forged": "its certificate can't be trusted: unable to get local issuer",
                "expired": "its certificate can't be trusted: certificate has expired",
                "other": "its identity is not allowed: found operator.zq2.test.zonequake.internal",
            }.get(
                folder and folder.split("-")[0],
                f"its identity is not allowed: found {folder}.{DOMAIN}",
            )
            line = re.compile(rf"WARNING {name}: refused 127\.0\.0\.1:\d+: {why}")

            async def is_told(before: int = before, line: re.Pattern[str] = line) -> bool:
                return line.search(log_of(nodes, "n0")[before:]) is not None

            await until(is_told, f"{name} says why it refused {folder}")
        assert b"4711" not in await say(port, words, listen_s=10)
    # And no client did harm: an allowed one is served.
    assert (await nodes.client().read(zone.groups[0], "secret")).value == 4711
    metrics = await nodes.metrics("n0")
    assert 'zonequake_connections_refused_total{port="clients",reason="identity"} 3.0' in metrics
    assert (
        'zonequake_connections_refused_total{port="orders",reason="no-certificate"} 1.0' in metrics
    )


async def test_the_open_port_answers_questions_and_changes_nothing(tls_nodes: LocalNodes) -> None:
    nodes = tls_nodes
    await nodes.start("n0")
    zone = await nodes.create("z", on=["n0"])
    url = nodes.nodes["n0"].admin_url
    for path in ("orders", "drain"):
        async with nodes.session.post(f"{url}/admin/v1/{path}", data=ORDERS) as response:
            assert response.status == 403
            assert "orders port" in await response.text()
    assert (await nodes.report("n0")).node.draining is False
    dump = f"{url}/admin/v1/replicas/{zone.groups[0]}/dump"
    async with nodes.session.get(dump) as response:
        assert response.status == 403
        assert "a dump is the data" in await response.text()
    assert (await nodes.dump("n0", zone.groups[0]))[0].group == zone.groups[0]
    metrics = await nodes.metrics("n0")
    expiry = re.search(
        r'zonequake_certificate_expiry_timestamp_seconds\{identity="store\.[^"]+"\} (\S+)', metrics
    )
    assert expiry is not None
    left_s = float(expiry[1]) - datetime.now(UTC).timestamp()
    assert 0.9 * 86400 < left_s < 86400
    # The orders' port answers the same questions, so that the operator needs no other.
    assert nodes.certificates is not None
    async with nodes.session.get(
        f"{nodes.nodes['n0'].orders_url}/admin/v1/replicas",
        **nodes.certificates.to_store(TlsRole.OPERATOR),
    ) as response:
        assert response.status == 200


async def test_dumps_are_open_where_that_was_asked_for(tls_nodes: LocalNodes) -> None:
    await tls_nodes.start("n0", ZQ_OPEN_DUMPS="true")
    zone = await tls_nodes.create("z", on=["n0"])
    url = f"{tls_nodes.nodes['n0'].admin_url}/admin/v1/replicas/{zone.groups[0]}/dump"
    async with tls_nodes.session.get(url) as response:
        assert response.status == 200


async def test_a_client_that_leaves_at_any_moment_of_the_handshake_ends_no_node(
    tls_nodes: LocalNodes,
) -> None:
    nodes, certificates = tls_nodes, tls_nodes.certificates
    assert certificates is not None
    await nodes.start("n0")
    random_s = random.Random(5)
    for folder, name in (("load", "clients"), ("store", "peers"), ("operator", "orders")):
        context = showing(certificates.directory / folder)
        port = ports_of(nodes.nodes["n0"])[name]

        async def leave(context: ssl.SSLContext = context, port: int = port) -> None:
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(random_s.uniform(0, 0.03)):
                    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
                    writer.write(b"\xff" * 100)
                    writer.transport.abort()

        for _ in range(20):
            await asyncio.gather(*(leave() for _ in range(8)))
    assert nodes.nodes["n0"].is_alive
    zone = await nodes.create("z", on=["n0"])
    assert (await nodes.client().write(zone.groups[0], "k", 1)).status is ReplyStatus.OK


async def test_a_node_that_shows_no_certificate_of_its_own_doesnt_start(
    tls_nodes: LocalNodes,
) -> None:
    nodes, certificates = tls_nodes, tls_nodes.certificates
    assert certificates is not None
    for folder, why in (
        ("load", "store.zq.test.zonequake.internal"),
        ("nowhere", "No such file or directory"),
    ):
        node = nodes.prepare(f"with-{folder}", ZQ_TLS_DIR=str(certificates.directory / folder))
        node.spawn()
        assert node.process is not None
        assert await asyncio.to_thread(node.process.wait, PATIENCE_S) == 254
        assert why in log_of(nodes, node.name)


def encoded(request: Request) -> bytes:
    frame = msgspec.msgpack.encode(request)
    return len(frame).to_bytes(4, "big") + frame

"""The operator's own client at a real data node's orders port: who it is, and whom it trusts."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S
from tests.processes.store.certificates import Certificates
from tests.processes.store.local_node import Node
from tests.processes.store.local_nodes import LocalNodes, Zone, until
from tests.processes.store.strangers import refused
from zonequake_operator.errors import NodeUnreachable
from zonequake_operator.fleet import store_client
from zonequake_operator.fleet.store_client import StoreClient
from zonequake_protocol.admin import OrderStatus, StartReplica
from zonequake_tls.identity import TlsRole

pytestmark = pytest.mark.processes

HERE = "127.0.0.1"


@pytest.fixture(autouse=True)
def _patiently(monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator takes a node for silent after a second, which a busy machine's may be."""
    monkeypatch.setattr(store_client, "REPORT_TIMEOUT_S", PATIENCE_S)
    monkeypatch.setattr(store_client, "ORDERS_TIMEOUT_S", PATIENCE_S)


@pytest.fixture
async def node(tls_nodes: LocalNodes) -> Node:
    await tls_nodes.start("n0")
    return tls_nodes.nodes["n0"]


@asynccontextmanager
async def client_of(
    certificates: Certificates, role: TlsRole, port: int
) -> AsyncIterator[StoreClient]:
    client = StoreClient(certificates.credentials(role), port=port)
    try:
        yield client
    finally:
        await client.close()


def an_order(nodes: LocalNodes) -> StartReplica:
    zone = Zone("z", 1, ["z.00000000.0"], 1, ["n0"], {})
    return nodes.start_order(zone, 0)


async def test_the_operator_reads_and_orders_also_after_its_certificate_was_replaced(
    tls_nodes: LocalNodes, node: Node
) -> None:
    certificates = tls_nodes.certificates
    assert certificates is not None
    async with client_of(certificates, TlsRole.OPERATOR, node.orders_port) as operator:
        empty = await operator.replicas(HERE)
        assert (empty.node.name, empty.replicas) == ("n0", [])
        (reply,) = (await operator.send(HERE, [an_order(tls_nodes)])).replies
        assert reply.status is OrderStatus.RECEIVED
        certificates.write(TlsRole.OPERATOR, lifetime=timedelta(days=2))
        await asyncio.sleep(1.1)  # files are looked at once a second
        (found,) = (await operator.replicas(HERE)).replicas
        assert found.group == "z.00000000.0"


async def test_a_client_with_another_certificate_than_the_operators_learns_and_orders_nothing(
    tls_nodes: LocalNodes, node: Node
) -> None:
    certificates = tls_nodes.certificates
    assert certificates is not None
    others = [role for role in TlsRole if role is not TlsRole.OPERATOR]
    for role in others:
        async with client_of(certificates, role, node.orders_port) as impostor:
            with pytest.raises(NodeUnreachable, match="GET https://"):
                await impostor.replicas(HERE)
            with pytest.raises(NodeUnreachable, match="POST https://"):
                await impostor.send(HERE, [an_order(tls_nodes)])
    assert (await tls_nodes.report("n0")).replicas == []

    async def are_told() -> bool:
        counts, log = await refused(tls_nodes, "n0"), (tls_nodes.directory / "n0.log").read_text()
        return counts.get(("orders", "identity"), 0) >= 2 * len(others) and all(
            f"found {role}.zq.test.zonequake.internal, expected operator.zq.test" in log
            for role in others
        )

    await until(are_told, "every impostor is counted and named")


async def test_the_operator_trusts_no_node_of_another_authority_and_none_without_tls(
    tls_nodes: LocalNodes, node: Node, tmp_path: Path
) -> None:
    elsewhere = Certificates(tmp_path / "elsewhere")
    for port, why in (
        (node.orders_port, "certificate verify failed"),
        (node.admin_port, "SSL"),
    ):
        async with client_of(elsewhere, TlsRole.OPERATOR, port) as operator:
            with pytest.raises(NodeUnreachable, match=why):
                await operator.send(HERE, [an_order(tls_nodes)])
    assert (await tls_nodes.report("n0")).replicas == []


async def test_the_operator_takes_no_impostor_for_a_data_node(tls_nodes: LocalNodes) -> None:
    """Its own side: the load's certificate doesn't make a data node of a thief."""
    certificates = tls_nodes.certificates
    assert certificates is not None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    stolen = certificates.directory / TlsRole.LOAD
    context.load_cert_chain(stolen / "tls.crt", stolen / "tls.key")
    heard = bytearray()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.extend(await reader.read())
        writer.close()

    server = await asyncio.start_server(listen, HERE, 0, ssl=context)
    async with server:
        port = server.sockets[0].getsockname()[1]
        async with client_of(certificates, TlsRole.OPERATOR, port) as operator:
            with pytest.raises(NodeUnreachable, match="store"):
                await operator.send(HERE, [an_order(tls_nodes)])
    assert heard == b"", "no byte of the order left"

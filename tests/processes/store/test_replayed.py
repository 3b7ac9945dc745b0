"""What was recorded at a node's ports is said again, later, to every node: nothing comes of it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.patience import PATIENCE_S
from tests.processes.store.local_nodes import MOSTLY_TLS, LocalNodes, Zone, until
from tests.processes.store.strangers import OPENS, by_hand, framed, harmless, opening, refused, say
from zonequake_protocol.admin import (
    Bootstrap,
    CancelChangePeers,
    ChangePeers,
    Order,
    OrderStatus,
    ResetPeers,
    StopReplica,
)
from zonequake_protocol.client import Append, ReplyStatus, Request, RequestId

pytestmark = pytest.mark.processes

NAMES = ["n0", "n1", "n2"]
RECORDING = (str(Path(__file__).with_name("recording_node.py")),)


async def recorded(nodes: LocalNodes, tmp_path: Path) -> Zone:
    for name in NAMES:
        nodes.prepare(name, ZQ_RECORD=str(tmp_path / "recorded" / name)).program = RECORDING
    await nodes.start(*NAMES)
    return await nodes.create("z", on=NAMES)


async def told(nodes: LocalNodes, zone: Zone, begin: int) -> None:
    """Writes of every kind, none of which is idempotent by its nature."""
    client, group = nodes.client(f"client-{begin}"), zone.groups[0]
    for number in range(begin, begin + 20):
        assert (await client.append(group, "list", number)).status is ReplyStatus.OK
        assert (await client.write(group, "register", number)).status is ReplyStatus.OK


@pytest.mark.parametrize("nodes", MOSTLY_TLS, indirect=True)
async def test_recorded_sessions_change_nothing_when_they_are_said_again(
    nodes: LocalNodes, tmp_path: Path
) -> None:
    zone = await recorded(nodes, tmp_path)
    group = zone.groups[0]
    await told(nodes, zone, 0)
    await nodes.until_equal(group, NAMES)  # so that all have been spoken to
    sessions = {
        port: [
            path.read_bytes()
            for path in sorted((tmp_path / "recorded").rglob(f"{port}-*"))
            if path.stat().st_size
        ]
        for port in ("client", "peer")
    }
    assert len(sessions["client"]) >= 1
    assert len(sessions["peer"]) >= 4
    # Terms and a process go on, so that what was recorded is of the past.
    first = await nodes.leader(group)
    nodes.nodes[first].kill()
    await nodes.leader(group, among=[name for name in NAMES if name != first])
    await nodes.restart(zone, first)
    await told(nodes, zone, 20)
    before = await nodes.until_equal(group, NAMES)
    leader = await nodes.leader(group)
    was = await nodes.status(leader, group)
    assert was is not None
    # With TLS by clients with stolen certificates, since no other client is heard.
    client_context, peer_context = opening(nodes, "client_port"), opening(nodes, "peer_port")
    async with harmless(nodes):
        for name in NAMES:
            node = nodes.nodes[name]
            for session in sessions["client"]:
                await say(node.client_port, session, listen_s=0.3, context=client_context)
            for session in sessions["peer"]:
                await say(node.peer_port, session, listen_s=0.1, context=peer_context)
    client = nodes.client()
    assert (await client.read(group, "list")).value == list(range(40))
    assert (await client.read(group, "register")).value == 39
    after = await nodes.until_equal(group, NAMES)
    assert {header.digest for header in after} == {header.digest for header in before}
    found = await nodes.status(await nodes.leader(group), group)
    assert found is not None
    assert found.configuration == was.configuration


@pytest.mark.parametrize("nodes", MOSTLY_TLS, indirect=True)
async def test_old_orders_are_stale_or_true_already_and_change_nothing(nodes: LocalNodes) -> None:
    await nodes.start(*NAMES, "n3")
    zone = await nodes.create("z", on=NAMES)
    group = zone.groups[0]
    await told(nodes, zone, 0)
    leader = await nodes.leader(group)
    before = await nodes.status(leader, group)
    assert before is not None
    peers = await nodes.peers(group, NAMES)
    start = nodes.start_order(zone, 0)
    old: list[Order] = [
        start,
        Bootstrap(group=group, token=1, peers=peers[:1]),
        ChangePeers(
            group=group, term=before.term, token=1, peers=peers[:1], addresses=nodes.addresses()
        ),
        CancelChangePeers(group=group, term=before.term, token=1),
        ResetPeers(group=group, term=before.term, token=1, peers=peers[:1]),
        *(StopReplica(group=group, token=1, incarnation=peer.incarnation) for peer in peers),
    ]
    await nodes.change(zone, ["n0", "n1", "n3"])
    await nodes.finish_change(zone, ["n0", "n1", "n3"])
    now = ["n0", "n1", "n3"]
    for name in now:
        # A node that has the present token knows which orders are of before it.
        await nodes.order(name, nodes.start_order(zone, 0))
    await nodes.until_equal(group, now)
    async with harmless(nodes):
        for name in now:
            replies = await nodes.order(name, *old)
            received = [r for r in replies if r.status is OrderStatus.RECEIVED]
            stops = replies[5:]
            assert OrderStatus.RECEIVED not in {r.status for r in stops}, (name, stops)
            assert len(received) <= 2, (name, received)
    found = await nodes.status(await nodes.leader(group), group)
    assert found is not None
    assert found.configuration is not None
    assert {peer.node for peer in found.configuration.peers} == set(now)
    client = nodes.client()
    assert (await client.read(group, "list")).value == list(range(20))
    await nodes.until_equal(group, now)


async def test_what_was_recorded_of_tls_is_not_understood_a_second_time(
    tls_nodes: LocalNodes,
) -> None:
    """The very bytes of a client and of the operator, as a listener on the way has them."""
    nodes = tls_nodes
    await nodes.start("n0")
    zone = await nodes.create("z", on=["n0"])
    node, group = nodes.nodes["n0"], zone.groups[0]
    append = Append(group, "list", 1, RequestId("recorded", 1, 0))
    words = {
        "client_port": framed(msgspec.msgpack.encode(Request(1, append))),
        "orders_port": b"POST /admin/v1/orders HTTP/1.1\r\nHost: n0\r\nContent-Length: 13\r\n\r\n"
        b'{"orders":[]}',
    }
    for port, spoken in words.items():
        context = opening(nodes, port)
        assert context is not None
        said, understood = await by_hand(getattr(node, port), context, spoken)
        assert len(said) > len(spoken) + 300, "a hello, a certificate, and the words"
        assert understood, f"{OPENS[port]} was answered"
        before = await refused(nodes, "n0")
        async with harmless(nodes):
            for _ in range(20):
                await say(getattr(node, port), said, listen_s=PATIENCE_S)

        async def are_counted(before: dict[tuple[str, str], int] = before) -> bool:
            return sum((await refused(nodes, "n0")).values()) - sum(before.values()) >= 20

        await until(are_counted, "each of them is counted as refused")
        after = await refused(nodes, "n0")
        assert sum(after.values()) - sum(before.values()) == 20, after
    assert (await nodes.client().read(group, "list")).value == [1]

"""Whoever isn't let in costs nothing, ends nothing, and is told of in a few lines: garbage without
TLS, damaged handshakes, wrong certificates by the hundred, and crowds that never shake hands."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from tests.patience import PATIENCE_S
from tests.processes.store.certificates import DOMAIN, Certificates
from tests.processes.store.local_node import Node
from tests.processes.store.local_nodes import LocalNodes, until
from tests.processes.store.strangers import (
    OPENS,
    by_hand,
    framed,
    harmless,
    log_of,
    opened,
    opening,
    refusals_in,
    refused,
    say,
    say_all,
    showing,
)
from tests.processes.store.test_strangers import SAID, mutated
from zonequake_cluster.supply.certificate_authority import Authority
from zonequake_operator.errors import NodeUnreachable
from zonequake_operator.fleet.store_client import StoreClient
from zonequake_protocol.client import Append, ReplyStatus, Request, RequestId
from zonequake_tls.identity import TlsRole, identity_of
from zonequake_tls.listener import HANDSHAKE_TIMEOUT_S

pytestmark = pytest.mark.processes

NAMES = {"peer_port": "peers", "client_port": "clients", "orders_port": "orders"}
LINES_A_MINUTE = 50
"""Of one port."""
LINE_BYTES = 250
MINUTES = 4
"""More than any of these tests takes on a busy machine."""
MOST_CROWDS = 10
"""A busy machine may accept one so slowly that the first ones' time is up before a port is full."""


@pytest.fixture
async def node(tls_nodes: LocalNodes) -> AsyncIterator[Node]:
    """One that holds a zone of one partition, in which 4711 is written."""
    await tls_nodes.start("n0")
    zone = await tls_nodes.create("z", on=["n0"])
    await tls_nodes.client().write(zone.groups[0], "k", 4711)
    yield tls_nodes.nodes["n0"]
    # Whatever was said in between: who may come in is served, and nothing was written.
    assert (await tls_nodes.client().read(zone.groups[0], "k")).value == 4711
    assert (await tls_nodes.client().read(zone.groups[0], "list")).value in (None, [])


def append() -> bytes:
    """What would be there afterwards, if a process listened."""
    body = Append("z.00000000.0", "list", 1, RequestId("stranger", 1, 0))
    return framed(msgspec.msgpack.encode(Request(1, body)))


def strangers(certificates: Certificates, port: str) -> dict[str, str]:
    """Folders of certificates that this port refuses, and the reason that is counted."""
    another = Authority.made("another authority", datetime.now(UTC))
    past = Authority.read(certificates.authority.credential, datetime.now(UTC) - timedelta(days=9))
    own = identity_of(OPENS[port], DOMAIN)
    certificates.write(f"forged-{port}", identity=own, authority=another)
    certificates.write(f"expired-{port}", identity=own, authority=past, lifetime=timedelta(days=8))
    certificates.write(f"other-{port}", identity=own.replace(".zq.", ".zq2."))
    wrong = {"peer_port": "load", "client_port": "store", "orders_port": "store"}[port]
    return {
        f"forged-{port}": "certificate",
        f"expired-{port}": "expired",
        f"other-{port}": "identity",
        wrong: "identity",
    }


@pytest.mark.parametrize("port", NAMES)
async def test_frames_of_those_who_are_not_let_in_are_not_even_read(
    tls_nodes: LocalNodes, node: Node, port: str
) -> None:
    nodes, number, chance = tls_nodes, getattr(node, port), random.Random(port)
    assert nodes.certificates is not None
    whole = [append(), *SAID[port]("z.00000000.0")]
    things = whole + [mutated(chance, chance.choice(whole)) for _ in range(40)]
    wrong = strangers(nodes.certificates, port)
    log = log_of(node)
    before = len(log.read_text())
    begun_s = time.monotonic()
    async with harmless(nodes, logged_bytes=MINUTES * LINES_A_MINUTE * LINE_BYTES):
        await say_all(number, things)
        # Until they are cut: who leaves sooner may not have been looked at yet.
        await say_all(number, things, context=showing(None), listen_s=PATIENCE_S)
        for folder in wrong:
            context = showing(nodes.certificates.directory / folder)
            await say_all(number, things, context=context, listen_s=PATIENCE_S)
    expected = {"no-certificate": 1, "certificate": 1, "expired": 1, "identity": 2}
    counts: dict[tuple[str, str], int] = {}

    async def are_counted() -> bool:
        nonlocal counts
        counts = await refused(nodes, "n0")
        return all(
            counts.get((NAMES[port], reason), 0) >= kinds * len(things)
            for reason, kinds in expected.items()
        )

    await until(are_counted, "all of them are counted as refused")
    for reason, kinds in expected.items():
        assert counts[NAMES[port], reason] == kinds * len(things), counts
    lines = refusals_in(log.read_text()[before:])
    assert 0 < len(lines) <= LINES_A_MINUTE * minutes_since(begun_s)
    assert sum(counts.values()) > LINES_A_MINUTE


def minutes_since(begun_s: float) -> int:
    """How many may have begun until now."""
    return 1 + math.ceil((time.monotonic() - begun_s) / 60)


async def test_damaged_handshakes_are_refused_at_every_flight(
    tls_nodes: LocalNodes, node: Node
) -> None:
    nodes, chance = tls_nodes, random.Random(2)
    number, context = node.client_port, opening(nodes, "client_port")
    assert context is not None
    said, understood = await by_hand(number, context, append()[:-1], listen_s=1)
    assert said, "nothing is wrong with it, but that its frame is never whole"
    assert understood == b""
    hello = said[: 5 + int.from_bytes(said[3:5], "big")]
    assert hello[0] == 0x16, "a record of a handshake"
    things = [hello[:many] for many in (1, 5, 6, 40, len(hello) - 1)]
    things += [bytes([kind]) + b"\x03\x03\xff\xff" + b"\x00" * 70_000 for kind in range(20, 25)]
    things += [hello * 30, hello + b"\x15\x03\x03\x00\x02\x01\x00", hello[:5] + hello]
    things += [mutated(chance, hello) for _ in range(60)]
    async with harmless(nodes, logged_bytes=LINES_A_MINUTE * LINE_BYTES):
        await say_all(number, things)
        for flight in (1, 2):
            for _ in range(30):
                await by_hand(
                    number,
                    context,
                    append(),
                    flight=flight,
                    listen_s=1,
                    changed=lambda spoken: flipped(chance, spoken),
                )
    reasons = {reason for _, reason in await refused(nodes, "n0")}
    assert reasons >= {"no-tls", "no-handshake"}, reasons


def flipped(chance: random.Random, spoken: bytes) -> bytes:
    """With one bit of what is sealed turned over, which no seal survives."""
    at = chance.randrange(5, len(spoken))
    return spoken[:at] + bytes([spoken[at] ^ 1 << chance.randrange(8)]) + spoken[at + 1 :]


@pytest.mark.long
async def test_thousands_of_connections_without_a_handshake_keep_no_client_out_and_are_closed(
    tls_nodes: LocalNodes, node: Node
) -> None:
    nodes = tls_nodes
    assert nodes.certificates is not None
    operator = StoreClient(nodes.certificates.credentials(TlsRole.OPERATOR), port=node.orders_port)
    # All lines together would be four times as long.
    lines = MINUTES * 3 * LINES_A_MINUTE * LINE_BYTES
    async with AsyncExitStack() as held, harmless(nodes, logged_bytes=lines):
        held.push_async_callback(operator.close)
        for number in range(MOST_CROWDS):
            crowd: list[asyncio.StreamWriter] = []
            for port in NAMES:
                crowd += await opened(getattr(node, port), 1100)
            assert len(crowd) > 3200
            begun_s = time.monotonic()
            newcomer = nodes.client(f"newcomer-{number}")
            assert (await newcomer.write("z.00000000.0", "new", 1)).status is ReplyStatus.OK
            try:
                assert (await operator.replicas("127.0.0.1")).node.name == "n0"
                took_s = time.monotonic() - begun_s
            except NodeUnreachable:  # it has no patience with a machine that stands still
                took_s = HANDSHAKE_TIMEOUT_S
            for writer in crowd:
                writer.transport.abort()
            counts = await refused(nodes, "n0")
            is_full = all(counts.get((name, "busy"), 0) > 100 for name in NAMES.values())
            # Sooner than the silent ones' time is up.
            if number >= 2 and is_full and took_s < HANDSHAKE_TIMEOUT_S:
                return
    pytest.fail(f"a port was never full, or kept newcomers out: {took_s} s, {counts}")


async def test_a_stranger_who_comes_again_and_again_fills_no_log(
    tls_nodes: LocalNodes, node: Node
) -> None:
    nodes, log = tls_nodes, log_of(node)
    before = len(log.read_text())
    begun_s = time.monotonic()
    async with harmless(nodes, logged_bytes=MINUTES * LINES_A_MINUTE * LINE_BYTES):
        for _ in range(3):
            await say_all(node.orders_port, [b"\x00"] * 100)
            await asyncio.sleep(0.7)

        async def are_counted() -> bool:
            return sum((await refused(nodes, "n0")).values()) >= 300

        await until(are_counted, "all of them are counted as refused")
    counts = await refused(nodes, "n0")
    assert sum(counts.values()) == 300, counts
    lines = len(refusals_in(log.read_text()[before:]))
    assert LINES_A_MINUTE <= lines <= LINES_A_MINUTE * minutes_since(begun_s)
    assert lines < 300
    # Those at another port are told of as before.
    await say(node.client_port, b"\x00" * 100, listen_s=2)

    async def is_told() -> bool:
        return "WARNING clients: refused 127.0.0.1:" in log.read_text()[before:]

    await until(is_told, "the client port's strangers are told of")

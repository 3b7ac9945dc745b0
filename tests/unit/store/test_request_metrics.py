"""What a node tells Prometheus of its clients' requests: how long they took, and how many wait."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from tests.unit.store.one_node import GROUP, OneNode, until
from zonequake_protocol.client import Read, Request, Write
from zonequake_store.serving.client_server import ClientConnection
from zonequake_store.serving.durations import Durations
from zonequake_store.serving.metrics import NodeCollector
from zonequake_tls.connection_limits import ConnectionLimits


def told(node: OneNode) -> dict[str, float]:
    """Sample by name and `le`, as Prometheus reads them."""
    registry = CollectorRegistry()
    registry.register(NodeCollector(node.host, list))
    lines = generate_latest(registry).decode().splitlines()
    pairs = [line.rsplit(" ", 1) for line in lines if not line.startswith("#")]
    return {name.removeprefix("zonequake_store_"): float(value) for name, value in pairs}


def client(node: OneNode, *, answer_delay_s: float = 0.0) -> ClientConnection:
    loop = asyncio.get_running_loop()
    return ClientConnection(
        node.host,
        set(),
        ConnectionLimits("clients", most=1),
        answer_delay_s=answer_delay_s,
        delayed_until_s=loop.time() + 3600,
    )


def ask(connection: ClientConnection, body: Read | Write) -> None:
    connection.frame_received(memoryview(msgspec.msgpack.encode(Request(1, body))))


async def answered(node: OneNode, times: int) -> dict[str, float]:
    """What is told once so many requests were answered."""
    await until(lambda: told(node)["request_seconds_count"] == times)
    return told(node)


def test_durations_are_counted_up_to_each_bound() -> None:
    times = Durations()
    for took_s in (0.0004, 0.0005, 0.02, 99.0):
        times.add(took_s)
    counted = dict(times.buckets)
    assert (counted["0.0005"], counted["0.01"], counted["0.025"]) == (2, 2, 3)
    assert (counted["10.0"], counted["+Inf"]) == (3, 4)
    assert times.sum_s == pytest.approx(99.0209)


async def test_a_request_counts_from_its_frame_to_its_answer_however_late(tmp_path: Path) -> None:
    async with OneNode(tmp_path) as node:
        await node.lead()
        assert told(node)["request_seconds_count"] == 0
        prompt, late = client(node), client(node, answer_delay_s=0.06)
        ask(prompt, Read("another-group", "k"))
        assert told(node)["request_seconds_count"] == 1, "a refusal is an answer"
        ask(prompt, Write(GROUP, "k", 1))
        ask(late, Write(GROUP, "k", 2))
        found = await answered(node, 3)
        assert found['request_seconds_bucket{le="+Inf"}'] == 3
        assert found['request_seconds_bucket{le="0.05"}'] <= 2, "one was answered 60 ms late"
        assert found["request_seconds_sum"] >= 0.06


async def test_requests_wait_until_they_are_answered(tmp_path: Path) -> None:
    async with OneNode(tmp_path) as node:
        await node.lead()
        assert told(node)["requests_waiting"] == 0
        connection = client(node)
        ask(connection, Write(GROUP, "k", 1))
        ask(connection, Read(GROUP, "k"))
        assert told(node)["requests_waiting"] == 2
        assert (await answered(node, 2))["requests_waiting"] == 0


async def test_a_request_that_is_held_until_the_leader_is_known_waits(tmp_path: Path) -> None:
    async with OneNode(tmp_path) as node:
        replica = await node.start()
        replica._handover.begin()
        ask(client(node), Read(GROUP, "k"))
        assert told(node)["requests_waiting"] == 1
        replica.stop()
        found = told(node)
        assert (found["requests_waiting"], found["request_seconds_count"]) == (0, 1)

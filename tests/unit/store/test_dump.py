"""A dump of a large state does not keep the loop from the other replicas."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client import CollectorRegistry

from tests.unit.made_up_nodes import node_identity
from tests.unit.store.one_node import GROUP, OneNode
from zonequake_protocol.admin import DumpEntry, DumpHeader
from zonequake_store.serving import admin_api
from zonequake_store.serving.admin_api import AdminApi
from zonequake_store.state.partition import Cell, decode_cell, digest

KEYS = 1_200


@pytest.mark.parametrize("volatile", [False, True])
async def test_a_dump_is_read_and_encoded_beside_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, volatile: bool
) -> None:
    threads: set[int] = set()

    def digested(cells: Iterable[tuple[str, bytes]]) -> str:
        threads.add(threading.get_ident())
        return digest(cells)

    def decoded(cell: bytes) -> Cell:
        threads.add(threading.get_ident())
        return decode_cell(cell)

    monkeypatch.setattr(admin_api, "digest", digested)
    monkeypatch.setattr(admin_api, "decode_cell", decoded)
    async with OneNode(tmp_path) as node:
        replica = await node.lead(volatile=volatile)
        for number in range(KEYS):
            last = node.offer(replica, f"k{number}", number)
        await last
        api = AdminApi(
            node.host,
            node.orders,
            identity=node_identity(
                "n0", process_incarnation="00", storage_incarnation="00", pod_uid=""
            ),
            registry=CollectorRegistry(),
            guarded=False,
        )
        async with TestClient(TestServer(api.application)) as client:
            response = await client.get(f"/admin/v1/replicas/{GROUP}/dump")
            header, *lines = (await response.read()).splitlines()
    found = [msgspec.json.decode(line, type=DumpEntry) for line in lines]
    assert msgspec.json.decode(header, type=DumpHeader).keys == KEYS
    assert {entry.key: entry.value for entry in found} == {f"k{n}": n for n in range(KEYS)}
    assert [entry.key for entry in found] == sorted(entry.key for entry in found)
    assert threads
    assert threading.get_ident() not in threads

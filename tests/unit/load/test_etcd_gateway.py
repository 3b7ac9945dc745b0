"""etcd's JSON gateway: what is asked, and what its answers and errors mean."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import pytest

from zonequake_target_etcd.client.protocol.errors import EtcdError, answered
from zonequake_target_etcd.interface.gateway import PAGE_KEYS, EtcdApi, prefix_end


def text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


class Gateway:
    """Answers as the gateway does, one after another, and keeps what it was asked."""

    def __init__(self, *answers: Mapping[str, Any]) -> None:
        self.asked: list[tuple[str, Mapping[str, object]]] = []
        self._answers = list(answers)

    async def __call__(self, path: str, body: Mapping[str, object]) -> Mapping[str, Any]:
        self.asked.append((path, body))
        return self._answers.pop(0)


HEADER = {"cluster_id": "9", "member_id": "13668033151171901709", "revision": "7", "raft_term": "2"}


async def test_numbers_are_read_from_text_and_what_is_left_out_is_zero() -> None:
    api = EtcdApi(Gateway({"header": HEADER, "raftIndex": "8", "raftTerm": "2"}))
    status = await api.status()
    assert status.header.member_id == 13668033151171901709
    assert (status.raft_index, status.leader, status.leads) == (8, 0, False)


@pytest.mark.parametrize(
    ("message", "certain"),
    [
        ("etcdserver: no leader", True),
        ("raft proposal dropped", True),
        ("etcdserver: too many requests", True),
        ("etcdserver: request is too large", True),
        ("etcdserver: request timed out", False),
        ("etcdserver: request timed out, possibly due to previous leader failure", False),
        ("etcdserver: server stopped", False),
        ("etcdserver: leader changed", False),
        ("context deadline exceeded", False),
        ("connection error: desc = transport is closing", False),
        # Raised behind the entry's application, too: the write may have happened.
        ("etcdserver: mvcc: database space exceeded", False),
    ],
)
def test_only_an_error_before_the_proposal_is_certain(message: str, certain: bool) -> None:
    assert answered(14, message).certain is certain


async def test_an_error_is_told_in_etcds_own_words() -> None:
    gateway = Gateway({"code": 14, "message": "etcdserver: no leader", "details": []})
    with pytest.raises(EtcdError, match="etcdserver: no leader"):
        await EtcdApi(gateway).status()


async def test_an_answer_that_is_none_of_etcds_is_an_error() -> None:
    with pytest.raises(EtcdError, match="isn't etcd's"):
        await EtcdApi(Gateway({"kind": "Status"})).status()


def status(applied: int, revision: int = 7) -> Mapping[str, Any]:
    return {
        "header": {**HEADER, "revision": str(revision)},
        "raftIndex": "41",
        "raftAppliedIndex": str(applied),
    }


@pytest.mark.parametrize(
    ("before", "after", "log_index"),
    [
        (status(40), status(40), 40),
        (status(40), status(41), None),
        (status(40, revision=6), status(40), None),
        (status(40, revision=8), status(40, revision=8), None),
    ],
)
async def test_a_dump_stands_at_a_log_index_only_if_nothing_was_applied_meanwhile(
    before: Mapping[str, Any], after: Mapping[str, Any], log_index: int | None
) -> None:
    hashed = {"header": HEADER, "hash": 77, "hash_revision": "7"}
    gateway = Gateway(before, {"header": HEADER, "kvs": []}, hashed, after)
    assert (await EtcdApi(gateway).dump(b"z/")).log_index == log_index


NOT_THERE = {"code": 5, "message": "Not Found", "details": []}


async def test_a_hash_that_the_gateway_has_not_is_asked_at_the_peers_port() -> None:
    asked = []

    async def ask_peer(revision: int) -> Mapping[str, Any]:
        asked.append(revision)
        return {"header": {"revision": 7}, "hash": 77, "compact_revision": -1}

    gateway = Gateway(status(40), {"header": HEADER, "kvs": []}, NOT_THERE, status(40))
    dump = await EtcdApi(gateway, ask_peer=ask_peer).dump(b"z/")
    assert asked == [7]
    assert (dump.hash, dump.revision, dump.log_index) == (77, 7, 40)
    assert dump.member_id == 13668033151171901709, "that answer has none"


async def test_a_gateway_that_has_the_hash_is_believed_in_whatever_it_says() -> None:
    async def ask_peer(revision: int) -> Mapping[str, Any]:
        raise AssertionError(revision)

    compacted = {"code": 11, "message": "etcdserver: mvcc: required revision has been compacted"}
    with pytest.raises(EtcdError, match="compacted"):
        await EtcdApi(Gateway(compacted), ask_peer=ask_peer).hash_kv(3)


async def test_without_the_peers_port_a_missing_hash_is_an_error() -> None:
    with pytest.raises(EtcdError, match="Not Found"):
        await EtcdApi(Gateway(NOT_THERE)).hash_kv(3)


async def test_a_dump_asks_page_by_page_at_the_revision_of_the_first() -> None:
    def page(first: int, count: int, *, more: bool) -> Mapping[str, Any]:
        keys = [f"z/{number:04}".encode() for number in range(first, first + count)]
        kvs = [{"key": text(key), "value": text(b"1"), "mod_revision": "3"} for key in keys]
        return {"header": HEADER, "kvs": kvs, "more": more}

    gateway = Gateway(
        status(40),
        page(0, PAGE_KEYS, more=True),
        page(PAGE_KEYS, 2, more=False),
        {"header": HEADER, "hash": 77, "compact_revision": "2", "hash_revision": "7"},
        status(40),
    )
    dump = await EtcdApi(gateway).dump(b"z/")
    assert (len(dump.kvs), dump.revision, dump.hash) == (PAGE_KEYS + 2, 7, 77)
    _, first, second, hashed, _ = (body for _, body in gateway.asked)
    assert "revision" not in first
    assert second["revision"] == hashed["revision"] == "7"
    assert second["key"] == text(f"z/{PAGE_KEYS - 1:04}".encode() + b"\0")
    assert first["serializable"], "a dump says what this member holds"


def test_the_end_of_a_prefix_is_the_first_key_behind_it() -> None:
    assert prefix_end(b"z1/") == b"z10"
    assert prefix_end(b"a\xff") == b"b"

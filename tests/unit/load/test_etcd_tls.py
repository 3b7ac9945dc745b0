"""The client of an etcd whose members speak TLS: what a refused connection is called, and why.

A connection that a certificate prevents carries nothing: an operation is certainly not done.
"""

from __future__ import annotations

import random
import socket
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.unit.load.reference_etcd import ReferenceEtcd
from tests.unit.load.test_etcd_target import is_connected, limits, until, write
from zonequake_cluster.supply.certificate_authority import Authority
from zonequake_load.errors import NotSent, TargetError
from zonequake_load.operation import Type
from zonequake_load.pod.control import ReadsAt
from zonequake_load.targets.context import ClientContext
from zonequake_target_etcd.client import connect
from zonequake_target_etcd.client.protocol.messages import RANGE
from zonequake_target_etcd.client.target import EtcdTarget
from zonequake_target_etcd.client.tls import ClientTls
from zonequake_target_etcd.client.wire import EtcdWire

EXPIRED = timedelta(hours=-1)
A_DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def _patiently(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or nothing is sent because this process had no turn."""
    monkeypatch.setattr("zonequake_target_etcd.client.wire.CONNECT_TIMEOUT_S", 30.0)
    monkeypatch.setattr("zonequake_load.targets.member_client.OPEN_TIMEOUT_S", 60.0)
    monkeypatch.setattr("zonequake_load.targets.member_client.CHECK_TIMEOUT_S", 30.0)


@pytest.fixture
def authority() -> Authority:
    return Authority.made("a test's", datetime.now(UTC))


def shown(
    authority: Authority,
    *,
    hosts: Sequence[str] = ("127.0.0.1",),
    lifetime: timedelta = A_DAY,
    demands: bool = True,
) -> grpc.ServerCredentials:
    """What a member shows, and whether it demands a certificate of the same authority."""
    signed = authority.sign("etcd", hosts=hosts, lifetime=lifetime)
    return grpc.ssl_server_credentials(
        [(signed.key, signed.certificate)],
        authority.certificate if demands else None,
        require_client_auth=demands,
    )


def secret(folder: Path, authority: Authority, *, lifetime: timedelta | None = A_DAY) -> Path:
    """The client's files as the load pods have them; without `lifetime` only the authority."""
    folder.mkdir()
    (folder / "ca.crt").write_bytes(authority.certificate)
    if lifetime is not None:
        signed = authority.sign("load", lifetime=lifetime)
        (folder / "tls.crt").write_bytes(signed.certificate)
        (folder / "tls.key").write_bytes(signed.key)
    return folder


def client(etcd: ReferenceEtcd, folder: Path) -> EtcdTarget:
    return connect(
        ClientContext(
            zone="z",
            seeds=etcd.seeds,
            reads_at=ReadsAt.LEADER,
            rng=random.Random(1),
            secret=folder,
        )
    )


@pytest.fixture
async def etcd(authority: Authority) -> AsyncIterator[ReferenceEtcd]:
    reference = ReferenceEtcd(endpoints=1, tls=shown(authority))
    await reference.start()
    yield reference
    await reference.stop()


async def begins_again(etcd: ReferenceEtcd, tls: grpc.ServerCredentials | None) -> None:
    (endpoint,) = etcd.endpoints
    await etcd.stop_one(endpoint)
    etcd.tls = tls
    await etcd.start_one(endpoint)


async def test_both_ends_show_a_certificate_and_answers_come(
    etcd: ReferenceEtcd, authority: Authority, tmp_path: Path
) -> None:
    target = client(etcd, secret(tmp_path / "secret", authority))
    await target.open()
    outcome = await target.execute(write(7), limits())
    assert (outcome.type, etcd.value("z/k/k")) == (Type.OK, "7")
    await target.close()


@pytest.mark.parametrize(
    ("which", "words"),
    [
        ("another authority", "unable to get local issuer certificate"),
        ("expired", "certificate has expired"),
        ("another name", "127.0.0.1"),
        ("plain", "WRONG_VERSION_NUMBER"),
    ],
)
async def test_a_member_whose_certificate_does_not_hold_is_sent_nothing(
    etcd: ReferenceEtcd, authority: Authority, tmp_path: Path, which: str, words: str
) -> None:
    target = client(etcd, secret(tmp_path / "secret", authority))
    await target.open()
    other = Authority.made("a test's", datetime.now(UTC))
    shows = {
        "another authority": shown(other),
        "expired": shown(authority, lifetime=EXPIRED),
        "another name": shown(authority, hosts=["m1.etcd.svc"]),
        "plain": None,
    }[which]
    await begins_again(etcd, shows)
    (endpoint,) = etcd.endpoints
    # What is sent on a connection whose end has not been noticed yet may have arrived.
    await until(lambda: not is_connected(target, endpoint))
    before = len(endpoint.seen)
    outcome = await target.execute(write(7), limits(retry=False))
    assert (outcome.type, outcome.attempts) == (Type.FAIL, 0), outcome
    assert "by TLS as 127.0.0.1: " in (outcome.error or "")
    assert words in (outcome.error or "")
    assert len(endpoint.seen) == before
    await target.close()


@pytest.mark.parametrize(
    ("lifetime", "words"),
    [
        (None, "the client shows no certificate, as its Secret has no tls.crt"),
        (EXPIRED, "check the dates and the authority of the client's tls.crt"),
    ],
)
async def test_a_client_that_a_member_refuses_is_told_what_to_check(
    etcd: ReferenceEtcd,
    authority: Authority,
    tmp_path: Path,
    lifetime: timedelta | None,
    words: str,
) -> None:
    tls = ClientTls.read(secret(tmp_path / "secret", authority, lifetime=lifetime))
    assert words in await tls.refusal(etcd.endpoints[0].address, "127.0.0.1", 30.0)
    assert etcd.endpoints[0].seen == []


async def test_a_member_that_takes_the_certificate_by_now_is_not_said_to_refuse_it(
    etcd: ReferenceEtcd, authority: Authority, tmp_path: Path
) -> None:
    tls = ClientTls.read(secret(tmp_path / "secret", authority))
    why = await tls.refusal(etcd.endpoints[0].address, "127.0.0.1", 30.0)
    assert why == "refused at first, and taken when asked again"


async def test_a_member_that_falls_silent_does_not_hide_why_it_refused_before(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect_timeout = "zonequake_target_etcd.client.wire.CONNECT_TIMEOUT_S"
    monkeypatch.setattr(connect_timeout, 30.0)  # for which gRPC doesn't connect again, either
    tls = ClientTls.read(secret(tmp_path / "secret", authority))
    with socket.socket() as member:
        member.bind(("127.0.0.1", 0))
        wire = EtcdWire(tls, lambda _: "127.0.0.1")
        address = f"127.0.0.1:{member.getsockname()[1]}"
        refused = await not_sent(wire, address)
        assert "by TLS as 127.0.0.1: [Errno 111]" in refused
        member.listen()  # and accepts nothing
        monkeypatch.setattr(connect_timeout, 0.5)
        silent = await not_sent(wire, address)
        before = refused.partition("127.0.0.1: ")[2]
        assert silent == refused.replace(before, f"no answer within 500 ms, before: {before}")
        await wire.close()


async def not_sent(wire: EtcdWire, address: str) -> str:
    with pytest.raises(NotSent) as raised:
        await wire.ask(address, RANGE, RANGE.request(), timeout_s=30.0, needs_leader=True)
    return str(raised.value)


async def test_a_member_that_demands_no_certificate_is_reached_without_one(
    etcd: ReferenceEtcd, authority: Authority, tmp_path: Path
) -> None:
    await begins_again(etcd, shown(authority, demands=False))
    target = client(etcd, secret(tmp_path / "secret", authority, lifetime=None))
    await target.open()
    assert (await target.execute(write(7), limits())).type is Type.OK
    await target.close()


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "ca.crt"),
        ({"ca.crt": "nothing"}, "can't be used"),
        ({"ca.crt": ""}, "can't be used"),
        ({"ca.crt": None, "tls.key": "nothing"}, "expected ca.crt, and if members demand"),
    ],
)
async def test_a_secret_that_can_not_be_used_is_refused_with_what_it_must_have(
    etcd: ReferenceEtcd,
    authority: Authority,
    tmp_path: Path,
    files: dict[str, str | None],
    words: str,
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(authority.certificate.decode() if text is None else text)
    target = client(etcd, tmp_path)
    with pytest.raises(TargetError) as refused:
        await target.open()
    assert words in str(refused.value)


async def test_authorities_may_have_words_between_them_in_any_language(
    etcd: ReferenceEtcd, authority: Authority, tmp_path: Path
) -> None:
    folder = secret(tmp_path / "secret", authority)
    (folder / "ca.crt").write_bytes("# Főtanúsítvány\n".encode() + authority.certificate)
    target = client(etcd, folder)
    await target.open()
    await target.close()


async def test_an_address_that_another_member_has_got_is_held_to_that_members_name(
    etcd: ReferenceEtcd, authority: Authority, tmp_path: Path
) -> None:
    await begins_again(etcd, shown(authority, hosts=["m1.etcd.svc"]))
    names = ["m0.etcd.svc", "m1.etcd.svc"]
    tls = ClientTls.read(secret(tmp_path / "secret", authority))
    wire = EtcdWire(tls, lambda _: names[0])

    async def ask() -> Any:
        request = RANGE.request(key=b"k")
        return await wire.ask(
            etcd.endpoints[0].address, RANGE, request, timeout_s=10.0, needs_leader=True
        )

    with pytest.raises(NotSent, match=r"by TLS as m0\.etcd\.svc: .*not valid for"):
        await ask()
    names.pop(0)
    assert (await ask()).header.revision == 1
    await wire.close()


async def test_a_certificate_must_have_the_name_of_the_seed_that_has_the_address(
    etcd: ReferenceEtcd, authority: Authority, tmp_path: Path
) -> None:
    """The address is a pod's, which no certificate can know."""
    await begins_again(etcd, shown(authority, hosts=["localhost"]))
    folder = secret(tmp_path / "secret", authority)
    port = etcd.endpoints[0].port
    target = EtcdTarget("z", [f"localhost:{port}"], rng=random.Random(1), secret=folder)
    await target.open()
    assert target.host_of(f"127.0.0.1:{port}") == "localhost"
    assert (await target.execute(write(7), limits())).type is Type.OK
    await target.close()

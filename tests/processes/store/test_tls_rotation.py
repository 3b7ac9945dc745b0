"""Certificates and authorities that are replaced while data nodes and a client go on."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import ssl
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from tests.patience import PATIENCE_S
from tests.processes.store.certificates import DOMAIN, Certificates
from tests.processes.store.local_nodes import LocalNodes, Zone, until
from tests.processes.store.stalls import stood_still
from tests.processes.store.strangers import framed
from zonequake_cluster.supply.certificate_authority import Authority
from zonequake_load.client.client import Client
from zonequake_load.client.connection import Connections, dialer
from zonequake_load.operation import Function, Limits, OnceId, Operation, Type
from zonequake_protocol.client import Request, Route
from zonequake_tls.identity import TlsRole, identity_of

pytestmark = pytest.mark.processes

THREE = ["n0", "n1", "n2"]
EXPIRY = "expiry_timestamp_seconds"
RENEW_S = 2
OVER_S = 2 * RENEW_S + 2
"""After so long no connection is left that began before."""
PATIENCE_NS = round(PATIENCE_S * 1e9)
KEYS = 8
"""Some in each partition."""


@contextlib.asynccontextmanager
async def released(directory: Path) -> AsyncIterator[tuple[LocalNodes, Certificates, Zone]]:
    certificates = Certificates(directory / "certificates", renew_s=RENEW_S)
    async with LocalNodes(directory, certificates) as nodes:
        await nodes.start(*THREE)
        yield nodes, certificates, await nodes.create("z", on=THREE, partitions=2)


class Load:
    """The load's own client library, one operation after the other; each must end well."""

    def __init__(self, nodes: LocalNodes, certificates: Certificates) -> None:
        self.credentials = certificates.credentials(TlsRole.LOAD)
        dial = dialer(self.credentials)
        self.client = Client(
            "z",
            [f"127.0.0.1:{node.client_port}" for node in nodes.nodes.values()],
            rng=random.Random(1),
            connections=Connections(dial, renew_s=certificates.renew_s),
        )
        self.done = 0
        self.failed: list[str] = []

    async def run(self) -> None:
        await self.client.open()
        number = 0
        try:
            while True:
                number += 1
                operation = Operation(f=Function.APPEND, key=f"k{number % KEYS}", value=number)
                # Without a retry, once the leaders are known: what a renewal breaks off would be
                # seen. A busy machine may take its time, though, without breaking anything off.
                deadline_ns = time.monotonic_ns() + PATIENCE_NS
                is_known = number > KEYS
                limits = Limits(deadline_ns=deadline_ns, attempt_ns=PATIENCE_NS, retry=not is_known)
                outcome = await self.client.execute(operation, limits, OnceId("load", number))
                if outcome.type is Type.OK:
                    self.done += 1
                else:
                    self.failed.append(f"{number}: {outcome.type}: {outcome.error}")
                await asyncio.sleep(0.002)
        finally:
            await self.client.close()


async def in_use(nodes: LocalNodes, load: Load, certificates: Certificates) -> None:
    """Wait until all nodes and the load use the files that are there now, by their expiry."""

    async def is_in_use() -> bool:
        found = {name: await told(nodes, EXPIRY, of=name) for name in THREE}
        of_load = load.credentials.expiry_s
        return of_load == certificates.credentials(TlsRole.LOAD).expiry_s and all(
            expiry_s == certificates.credentials(TlsRole.STORE).expiry_s
            for expiry_s in found.values()
        )

    await until(is_in_use, "the new files are in use")


async def told(nodes: LocalNodes, name: str, *, of: str = "n0") -> float:
    """A metric of a node's certificate."""
    metrics = await nodes.metrics(of)
    found = re.search(rf"zonequake_certificate_{name}\{{[^}}]*\}} (\S+)", metrics)
    assert found is not None
    return float(found[1])


@pytest.mark.long
async def test_leaves_and_then_the_authority_are_replaced_under_load_and_no_operation_fails(
    tmp_path: Path,
) -> None:
    async with released(tmp_path) as (nodes, certificates, zone):
        load = Load(nodes, certificates)
        running = asyncio.create_task(load.run())
        stolen = certificates.write("stolen", identity=identity_of(TlsRole.LOAD, DOMAIN))
        assert stolen.is_dir()
        old, before = certificates.authority, await told(nodes, EXPIRY)
        for role in TlsRole:
            certificates.write(role, lifetime=timedelta(days=2))
        await in_use(nodes, load, certificates)
        assert await told(nodes, EXPIRY) > before + 80_000
        await asyncio.sleep(OVER_S)
        # The next authority: trusted beside the old one, then in use, then alone.
        fresh = Authority.made("the next authority", datetime.now(UTC))
        certificates.trusted = old.certificate + fresh.certificate
        for role in TlsRole:
            certificates.write(role, lifetime=timedelta(days=3))
        await in_use(nodes, load, certificates)
        certificates.authority = fresh
        for role in TlsRole:
            certificates.write(role, lifetime=timedelta(days=4))
        await in_use(nodes, load, certificates)
        await asyncio.sleep(OVER_S)
        assert await gets_in(nodes, certificates, "stolen"), "during the overlap the old one counts"
        certificates.trusted = fresh.certificate
        for role in TlsRole:
            certificates.write(role)

        async def is_shut_out() -> bool:
            return not await gets_in(nodes, certificates, "stolen")

        await until(is_shut_out, "the old authority's certificate is refused")

        async def is_told() -> bool:
            return "its certificate can't be trusted" in (tmp_path / "n0.log").read_text()

        await until(is_told, "the old authority's certificate is refused aloud")
        await asyncio.sleep(OVER_S)
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        assert load.done > 100, "too few operations to meet each change"
        assert load.failed == []
        for group in zone.groups:
            await nodes.until_equal(group, THREE)
            assert await leaderships(nodes, group) == 1 or await stood_still(nodes), (
                "a link that was renewed cost a leader"
            )


async def gets_in(nodes: LocalNodes, certificates: Certificates, folder: str) -> bool:
    """Returns whether a data node answers a client with these files."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    there = certificates.directory / folder
    context.load_cert_chain(there / "tls.crt", there / "tls.key")
    try:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", nodes.nodes["n0"].client_port, ssl=context
        )
        writer.write(framed(msgspec.msgpack.encode(Request(1, Route("z")))))
        try:
            return await reader.read(1) != b""
        finally:
            writer.close()
    except OSError:
        return False


async def leaderships(nodes: LocalNodes, group: str) -> int:
    """How many leaders the group has had."""
    partition = int(group.rpartition(".")[2])
    terms = set()
    for node in THREE:
        for event in await nodes.events(node):
            if event.kind == "leader.change" and event.partition == partition:
                terms.add(event.data["term"])
    return len(terms)


async def test_files_that_cant_be_used_leave_the_old_certificate_in_use_and_are_told(
    tmp_path: Path,
) -> None:
    async with released(tmp_path) as (nodes, certificates, zone):
        before = await told(nodes, EXPIRY)
        another = Authority.made("nobody's", datetime.now(UTC))
        for wrong in (
            {"authority": another},
            {"identity": identity_of(TlsRole.LOAD, DOMAIN)},
        ):
            certificates.write(TlsRole.STORE, **wrong)

            async def is_told() -> bool:
                metrics = await nodes.metrics("n0")
                return (
                    re.search(r"zonequake_certificate_problem\{[^}]*\} 1\.0", metrics) is not None
                )

            await until(is_told, "the files are called unusable")
            assert await told(nodes, EXPIRY) == before
        assert "the certificate in use stays" in (tmp_path / "n0.log").read_text()
        await asyncio.sleep(OVER_S)  # every connection was opened again meanwhile
        await nodes.client().write(zone.groups[0], "k", 1)
        certificates.write(TlsRole.STORE)

        async def is_well() -> bool:
            return await told(nodes, "problem") == 0.0

        await until(is_well, "the next files are taken")


async def test_a_connection_that_is_not_renewed_is_ended_when_its_time_is_up(
    tmp_path: Path,
) -> None:
    """As of a client whose certificate has been withdrawn and who holds on to what it has."""
    async with released(tmp_path) as (nodes, certificates, _):
        words = certificates.to_store(TlsRole.LOAD)
        begun_s = time.monotonic()  # the node counts from when it lets the connection in
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", nodes.nodes["n0"].client_port, **words
        )
        async with asyncio.timeout(PATIENCE_S):
            assert await reader.read() == b""
        assert time.monotonic() - begun_s > RENEW_S, "it had time to be renewed"
        writer.close()

"""Mutual TLS while a node's wall clock stands a day back: who still gets in, and who does not."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S
from tests.processes.store.certificates import Certificates
from tests.processes.store.local_nodes import LocalNodes, until
from zonequake_agent import wall_clock
from zonequake_cluster.supply.certificate_authority import CLOCK_SLACK, Authority
from zonequake_protocol.client import Read, ReplyStatus
from zonequake_tls.identity import TlsRole

pytestmark = pytest.mark.processes

THREE = ["n0", "n1", "n2"]
BACK_S = -86_400 - 60
"""A day, by a clock that was a minute behind before."""


def set_clock(nodes: LocalNodes, node: str, off_s: int) -> None:
    process = nodes.nodes[node].process
    assert process is not None
    wall_clock.step(process.pid, off_s)


async def test_a_node_with_a_clock_a_day_back_makes_new_connections_both_ways(
    tls_nodes: LocalNodes,
) -> None:
    """Our own authority's certificates hold from a day before they were made."""
    nodes = tls_nodes
    await nodes.start(*THREE)
    zone = await nodes.create("z", on=THREE)
    group = zone.groups[0]
    set_clock(nodes, "n0", BACK_S)
    assert (await nodes.client().write(group, "k", 1)).status is ReplyStatus.OK
    # n1 comes back, so that they connect to each other again; n2 is gone, so that they must.
    nodes.nodes["n1"].kill()
    nodes.nodes["n2"].kill()
    await nodes.restart(zone, "n1")
    assert (await nodes.client().write(group, "k", 2)).status is ReplyStatus.OK
    assert await nodes.report("n0")
    assert "not yet valid" not in (nodes.directory / "n0.log").read_text()


async def test_where_certificates_hold_from_now_on_only_open_connections_outlive_the_step(
    tmp_path: Path,
) -> None:
    """As those that the chart makes: helm's functions write no other date."""
    certificates = Certificates(tmp_path / "certificates")
    certificates.authority = Authority.made("from now on", datetime.now(UTC) + CLOCK_SLACK)
    certificates.trusted = certificates.authority.certificate
    for role in TlsRole:
        certificates.write(role)
    async with LocalNodes(tmp_path, certificates) as nodes:
        await nodes.start("n0")
        zone = await nodes.create("z", on=["n0"])
        group, early, late = zone.groups[0], nodes.client(), nodes.client()
        await early.write(group, "k", 1)
        set_clock(nodes, "n0", BACK_S)
        assert (await early.write(group, "k", 2)).status is ReplyStatus.OK
        with pytest.raises((OSError, TimeoutError)):
            async with asyncio.timeout(PATIENCE_S):
                await late.once("n0", Read(group, "k"))

        async def is_told() -> bool:
            return "certificate is not yet valid" in (tmp_path / "n0.log").read_text()

        await until(is_told, "n0 says why")
        set_clock(nodes, "n0", 0)
        assert (await late.read(group, "k")).value == 2

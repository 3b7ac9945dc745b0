"""Settings that a scenario gives to Ignite's nodes, and TLS by them."""

from __future__ import annotations

import json
import random
import ssl
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.unit.targets.pretended_ignite import COUNT, ZONE, PretendedNode
from tests.unit.targets.secret_folder import secret_in
from tests.unit.targets.test_ignite_nodes import containers, members
from zonequake_chaos.scenario.run import RunTarget
from zonequake_cluster.supply.certificate_authority import Authority
from zonequake_load.errors import AttemptError, TargetError
from zonequake_load.operation import Function, Limits, Operation, Type
from zonequake_load.pod.control import ReadsAt
from zonequake_load.targets.context import ClientContext
from zonequake_target_ignite.client import connect
from zonequake_target_ignite.client.target import PARTITIONS, IgniteTarget
from zonequake_target_ignite.nodes import configuration
from zonequake_target_ignite.settings import KEPT, settings_of, unsuited_settings
from zonequake_target_ignite.status_server import WatchedNode

TLS = "ignite.clientConnector.ssl.enabled=true"
STORE = "ignite.clientConnector.ssl.keyStore"


def test_settings_stand_in_the_file_of_each_node_and_are_no_words_of_its_program() -> None:
    words = [
        *("ignite.raft.responseTimeoutMillis=5000", TLS, f"{STORE}.path=/tls/keystore.p12"),
        *(f"{STORE}.password=123456", "ignite.failureHandler.handler.type=noop"),
    ]
    settings = RunTarget(args=words)
    found = json.loads(configuration(members(settings=settings)))["ignite"]
    assert found["raft"] == {"fsync": True, "responseTimeoutMillis": 5000}
    store = {"path": "/tls/keystore.p12", "password": "123456"}
    assert found["clientConnector"] == {"port": 2379, "ssl": {"enabled": True, "keyStore": store}}
    assert found["failureHandler"] == {"handler": {"type": "noop"}}
    node, hands = containers(settings)
    assert node["args"][-2:] == ["--node-name", "$(POD)"]
    assert hands["args"][-1] == "--tls"
    _, hands = containers(RunTarget(args=[TLS.replace("true", "false")]))
    assert "--tls" not in hands["args"]


@pytest.mark.parametrize(
    ("args", "secret", "words"),
    [
        (["--config-path=/x"], None, "expected ignite.NAME=VALUE"),
        (["raft.fsync=true"], None, "expected ignite.NAME=VALUE"),
        (["ignite.raft"], None, "expected ignite.NAME=VALUE"),
        (["ignite..x=1"], None, "expected ignite.NAME=VALUE"),
        (["ignite.x=1", "ignite.x=2"], None, "has ignite.x twice"),
        (["ignite.x=1", "ignite.x.y=2"], None, "ignite.x and ignite.x.y: the first is a value"),
        (["ignite.x.y=2", "ignite.x=1"], None, "ignite.x and ignite.x.y: the first is a value"),
        (["ignite.failureHandler.handler.type.x=1"], None, "type is a value, and no group"),
        (["ignite.network=[]"], None, "ignite.network, and the run sets it itself"),
        ([STORE.replace(".keyStore", '={"enabled": true}')], None, "a group of settings: give"),
        (["ignite.rest.ssl.enabled=true"], None, "the harness ask every node by it"),
        ([TLS], None, "name a Secret with the authority of the nodes"),
        ([], "mine", "target.clientSecret is mine, and target.args has no ignite.clientC"),
        ([TLS.replace("true", "yes")], None, "ssl.enabled=yes: expected true or false"),
        ([TLS, "ignite.clientConnector.ssl.clientAuth=Require"], "mine", "no certificate"),
    ],
)
def test_a_setting_that_can_not_be_is_refused(
    args: list[str], secret: str | None, words: str
) -> None:
    found = list(unsuited_settings(RunTarget(args=args, client_secret=secret)))
    assert any(words in each for each in found), found


def test_each_kept_setting_is_refused_with_its_reason_and_others_are_not() -> None:
    for name, why in KEPT.items():
        for word in (f"ignite.{name}=1", f"ignite.{name}.below=1"):
            (problem,) = unsuited_settings(RunTarget(args=[word]))
            assert why in problem
    both = RunTarget(args=[TLS, "ignite.raft.fsyncs=1"], client_secret="mine")
    assert list(unsuited_settings(both)) == []


def test_a_value_is_json_or_else_text() -> None:
    words = ["ignite.a=1e5", "ignite.b=[1]", "ignite.c=NaN", "ignite.d=", 'ignite.e="1"']
    found = settings_of([*words, "ignite.f.password=1e5", 'ignite.g.path="/1"'])
    assert found == {
        "a": 1e5,
        "b": [1],
        "c": "NaN",
        "d": "",
        "e": "1",
        "f.password": "1e5",
        "g.path": "/1",
    }


@pytest.fixture
async def served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[PretendedNode, Authority]]:
    """A node that speaks TLS as `localhost`, and the authority of its certificate."""
    monkeypatch.setattr("zonequake_target_ignite.client.wire.TLS_CONNECT_TIMEOUT_S", 30.0)
    monkeypatch.setattr("zonequake_load.targets.member_client.OPEN_TIMEOUT_S", 2.0)
    monkeypatch.setattr("zonequake_load.targets.member_client.CHECK_TIMEOUT_S", 30.0)
    authority = Authority.made("ours", datetime.now(UTC))
    own = secret_in(tmp_path / "node", authority, authority.sign("node", hosts=["localhost"]))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(own / "tls.crt", own / "tls.key")
    node = PretendedNode()
    await node.start(tls)
    yield node, authority
    await node.stop()


def client_of(node: PretendedNode, host: str, secret: Path | None) -> IgniteTarget:
    seeds = [f"{host}:{node.address.rpartition(':')[2]}"]
    rng = random.Random(7)
    return connect(
        ClientContext(zone=ZONE, seeds=seeds, reads_at=ReadsAt.LEADER, rng=rng, secret=secret)
    )


async def test_a_client_speaks_tls_and_knows_the_node_by_its_name(
    served: tuple[PretendedNode, Authority], tmp_path: Path
) -> None:
    node, ours = served
    client = client_of(node, "localhost", secret_in(tmp_path / "a", ours))
    await client.open()
    long_ns = 30 * 10**9
    limits = Limits(deadline_ns=time.monotonic_ns() + long_ns, attempt_ns=long_ns, retry=True)
    written = await client.execute(Operation(f=Function.WRITE, key="k", value=1), limits)
    assert (written.type, node.rows) == (Type.OK, {"k": "1"})
    await client.close()
    others = Authority.made("others", datetime.now(UTC))
    for host, secret, why in (
        ("127.0.0.1", tmp_path / "a", "IP address mismatch"),
        ("localhost", secret_in(tmp_path / "b", others), "certificate verify failed"),
        ("localhost", None, "cannot connect"),
    ):
        refused = client_of(node, host, secret)
        with pytest.raises(TargetError, match=why):
            await refused.open()
        await refused.close()


async def test_a_secret_that_can_not_be_used_is_an_error_of_the_beginning(tmp_path: Path) -> None:
    client = client_of(PretendedNode(), "localhost", tmp_path)
    with pytest.raises(TargetError, match=r"can't be used: .*; expected ca\.crt"):
        client.connect()


@pytest.mark.parametrize("tls", [True, False])
async def test_the_program_beside_a_node_asks_it_by_tls_if_it_speaks_that(
    served: tuple[PretendedNode, Authority], tmp_path: Path, tls: bool
) -> None:
    node, _ = served
    log = tmp_path / "log"
    watched = WatchedNode(zone=ZONE, rest="", client=node.address, log=log, tls=tls)
    asking = watched.define(PARTITIONS, [ZONE], timeout_s=30.0)
    if tls:
        assert await asking == [[COUNT]]
        return
    with pytest.raises(AttemptError, match="cannot connect"):
        await asking

"""The target `patroni`: its client against a real PostgreSQL, its members by recorded answers."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import random
import subprocess
import sys
import time
import venv
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import asyncpg
import pytest

from tests.patience import PATIENCE_S
from tests.unit.installed import installed
from tests.unit.targets.postgres import MISSING, Postgres, postgres, programs
from tests.unit.targets.secret_folder import secret_in
from zonequake_chaos.kit.member_set import MemberSet, member_objects
from zonequake_chaos.kit.target_suitability import check_suited
from zonequake_chaos.scenario.alive_floor import check_plan
from zonequake_chaos.scenario.manifest import load
from zonequake_chaos.scenario.run import RunTarget
from zonequake_cluster.supply.certificate_authority import Authority
from zonequake_kube.client import Kube
from zonequake_kube.errors import ClusterError, UsageError
from zonequake_load.errors import TargetError
from zonequake_load.operation import (
    Function,
    Limits,
    Operation,
    Outcome,
    TransactionOperation,
    Type,
)
from zonequake_load.pod.control import ReadsAt
from zonequake_load.targets.context import ClientContext
from zonequake_protocol.admin import ReplicaRole
from zonequake_target_patroni import package
from zonequake_target_patroni.alteration import HOLDING
from zonequake_target_patroni.image import start
from zonequake_target_patroni.image.client import PatroniClient, connect

needs_postgres = pytest.mark.skipif(programs() is None, reason=MISSING)


@pytest.fixture(autouse=True)
def _patiently(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zonequake_target_patroni.image.client.CONNECT_TIMEOUT_S", 30.0)
    monkeypatch.setattr("zonequake_load.targets.member_client.OPEN_TIMEOUT_S", 60.0)


@pytest.fixture(name="pair")
def _pair() -> Iterator[tuple[Postgres, Postgres]]:
    with postgres() as both:
        yield both


@contextlib.asynccontextmanager
async def opened(
    *members: Postgres, host: str = "127.0.0.1", secret: Path | None = None
) -> AsyncIterator[PatroniClient]:
    seeds = [f"{host}:{one.port}" for one in members]
    rng = random.Random(1)
    client = connect(
        ClientContext(zone="z", seeds=seeds, reads_at=ReadsAt.LEADER, rng=rng, secret=secret)
    )
    await client.open()
    try:
        yield client
    finally:
        await client.close()


async def done(
    client: PatroniClient,
    operation: Operation | TransactionOperation,
    *,
    within_s: float = PATIENCE_S,
    retry: bool = True,
) -> Outcome:
    deadline_ns = time.monotonic_ns() + int(within_s * 1e9)
    limits = Limits(deadline_ns=deadline_ns, attempt_ns=int(within_s * 1e9), retry=retry)
    return await client.execute(operation, limits)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():  # noqa: ASYNC110 - no event tells it
            await asyncio.sleep(0.05)


def read(key: str, **more: Any) -> Operation:
    return Operation(f=Function.READ, key=key, **more)


def write(key: str, value: int) -> Operation:
    return Operation(f=Function.WRITE, key=key, value=value)


def cas(key: str, expected: int | None, value: int) -> Operation:
    return Operation(f=Function.CAS, key=key, expected=expected, value=value)


def append(key: str, value: int) -> Operation:
    return Operation(f=Function.APPEND, key=key, value=value, filler=b"f")


@needs_postgres
def test_each_operation_does_what_it_says_at_a_place_of_its_own(
    pair: tuple[Postgres, Postgres],
) -> None:
    asked = [
        *(read("k"), write("k", 1), cas("k", 1, 2), cas("k", 1, 3)),
        *(cas("n", None, 4), cas("n", None, 5), append("l", 6), append("l", 7), read("l")),
    ]

    async def story() -> list[Outcome]:
        async with opened(pair[0]) as client:
            return [await done(client, one) for one in asked]

    found = asyncio.run(story())
    assert {one.type for one in found} == {Type.OK}
    assert [one.applied for one in found] == [None, None, True, False, True, False, *[None] * 3]
    assert [one.value for one in found] == [None, None, None, 2, None, 4, None, None, [6, 7]]
    places = [one.index for one in found if one.index is not None]
    assert len(places) == len(found)
    assert places == sorted(set(places))
    assert {(one.lineage, one.term, one.node) for one in found} == {(0, 1, "m0")}


@needs_postgres
def test_steps_are_done_together_or_not_at_all(pair: tuple[Postgres, Postgres]) -> None:
    both = TransactionOperation(
        steps=(read("a"), write("a", 1), append("l", 2), append("l", 3), read("a"))
    )
    refused = TransactionOperation(steps=(write("a", 9), cas("b", 8, 7)))

    async def story() -> list[Outcome]:
        async with opened(pair[0]) as client:
            asked = (both, refused, read("a"), read("b"), read("l"))
            return [await done(client, one) for one in asked]

    carried, kept, *seen = asyncio.run(story())
    assert (carried.applied, carried.results) == (True, [None, None, None, None, 1])
    assert (kept.type, kept.applied, kept.value) == (Type.OK, False, None)
    assert [one.value for one in seen] == [1, None, [2, 3]]


@needs_postgres
def test_steps_that_are_refused_stand_before_a_write_that_waited_for_them(
    pair: tuple[Postgres, Postgres],
) -> None:
    primary, _ = pair
    steps = TransactionOperation(steps=(cas("k", 8, 7), read("z")))
    blocked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"

    async def story() -> list[Outcome]:
        async with opened(primary) as client:
            await done(client, write("k", 1))
            await done(client, write("z", 1))
            other = await asyncpg.connect(host="127.0.0.1", port=primary.port, user="postgres")
            await other.execute("BEGIN; UPDATE entries SET key = key WHERE key = 'z'")
            refused = asyncio.create_task(done(client, steps))
            await until(lambda: primary.query(blocked) == "1\n")
            written = asyncio.create_task(done(client, cas("k", 1, 2)))
            await until(lambda: primary.query(blocked) == "2\n")
            await other.execute("COMMIT")
            await other.close()
            return [await refused, await written]

    refused, written = asyncio.run(story())
    assert (refused.applied, refused.value, written.applied) == (False, 1, True)
    assert (refused.index or 0) < (written.index or 0)


@needs_postgres
def test_steps_that_are_refused_wait_for_a_standby_as_a_read_does(
    pair: tuple[Postgres, Postgres],
) -> None:
    primary, _ = pair
    refused = TransactionOperation(steps=(cas("k", 8, 7),))

    async def story() -> Outcome:
        async with opened(primary) as client:
            await done(client, write("k", 1))
            primary.query("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
            primary.query("SELECT pg_reload_conf()")
            await until(lambda: primary.query("SHOW synchronous_standby_names") == "nobody\n")
            return await done(client, refused, within_s=1.0, retry=False)

    assert asyncio.run(story()).type is Type.FAIL


@needs_postgres
def test_places_stand_in_the_order_in_which_writes_of_a_key_took_effect(
    pair: tuple[Postgres, Postgres],
) -> None:
    async def story() -> tuple[list[Outcome], list[Outcome], Outcome]:
        async with opened(pair[0]) as client:
            appends = [done(client, append("l", number)) for number in range(40)]
            reads = [done(client, read("l")) for _ in range(40)]
            mixed = [one for two in zip(appends, reads, strict=True) for one in two]
            found = await asyncio.gather(*mixed)
            return found[::2], found[1::2], await done(client, read("l"))

    appended, between, last = asyncio.run(story())
    places = sorted((one.index or 0, number) for number, one in enumerate(appended))
    assert last.value == [number for _, number in places]
    for one in between:
        assert (one.value or []) == [n for index, n in places if index < (one.index or 0)]


@needs_postgres
def test_a_commit_that_waits_for_a_standby_is_unknown_and_goes_on_waiting(
    pair: tuple[Postgres, Postgres],
) -> None:
    primary, _ = pair
    held = "SELECT value FROM entries WHERE key = 'k'"

    async def story() -> tuple[Outcome, str, Outcome]:
        async with opened(primary) as client:
            await done(client, write("k", 1))
            primary.query("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
            primary.query("SELECT pg_reload_conf()")
            await until(lambda: primary.query("SHOW synchronous_standby_names") == "nobody\n")
            waiting = await done(client, write("k", 2), within_s=1.0)
            # A cancelled wait would show the value by now, and no standby has it.
            await asyncio.sleep(0.5)
            meanwhile = primary.query(held)
            primary.query("ALTER SYSTEM RESET synchronous_standby_names")
            primary.query("SELECT pg_reload_conf()")
            return waiting, meanwhile, await done(client, read("k"))

    waiting, meanwhile, seen = asyncio.run(story())
    assert (waiting.type, waiting.attempts) == (Type.INFO, 1)
    assert meanwhile.strip() == "1"
    assert seen.value == 2


@needs_postgres
def test_what_a_killed_server_answered_is_there_and_what_failed_is_not(
    pair: tuple[Postgres, Postgres],
) -> None:
    primary, _ = pair

    async def story() -> tuple[list[tuple[int, Type]], list[int]]:
        async with opened(primary) as client:
            enough = asyncio.Event()
            outcomes: list[tuple[int, Type]] = []

            async def ask_on(first: int) -> None:
                for number in itertools.count(first, 8):
                    one = await done(client, append("l", number), retry=False)
                    outcomes.append((number, one.type))
                    if len(outcomes) >= 50:
                        enough.set()
                    if one.type is not Type.OK:
                        return

            asking = [asyncio.create_task(ask_on(first)) for first in range(8)]
            await enough.wait()
            primary.kill()
            await asyncio.gather(*asking)
            primary.start()
            seen = (await done(client, read("l"))).value
            assert isinstance(seen, list)
            return outcomes, seen

    outcomes, seen = asyncio.run(story())
    told = {each: {number for number, one in outcomes if one is each} for each in Type}
    assert told[Type.OK] <= set(seen)
    assert not told[Type.FAIL] & set(seen)
    assert told[Type.INFO], "the kill met no operation"


@needs_postgres
def test_a_standby_takes_no_write_and_a_promoted_one_begins_a_timeline(
    pair: tuple[Postgres, Postgres],
) -> None:
    primary, standby = pair

    async def story() -> tuple[list[Outcome], Outcome, Outcome, Outcome]:
        async with opened(primary) as client:
            await done(client, append("l", 1))
        standby.copy(primary)
        async with opened(standby, primary) as client:
            written = [await done(client, append("l", number)) for number in (2, 3)]
            await until(lambda: standby.query("SELECT value FROM entries") == "[1,2,3]\n")
            dumps = [
                package.dumped("m", one.query(package.DUMP), storage="s", primary=0) for one in pair
            ]
            assert (dumps[0].digest, dumps[0].applied) == (dumps[1].digest, written[1].index)
            assert dumps[1].digest == dumps[0].digest
            assert [(one.key, one.value) for one in dumps[1].keys] == [("l", [1, 2, 3])]
            primary.kill()
            local = await done(client, read("l", bounded=True))
            standby.promote()
            return written, local, await done(client, append("l", 4)), await done(client, read("l"))

    written, local, later, seen = asyncio.run(story())
    assert {(one.node, one.term) for one in written} == {("m0", 1)}
    assert (local.value, local.index) == ([1, 2, 3], None)
    assert (later.node, later.term) == ("m1", 2), later
    assert (later.index or 0) > (written[1].index or 0)
    assert seen.value == [1, 2, 3, 4]


@needs_postgres
def test_a_value_is_altered_only_where_no_start_writes_it_again(
    pair: tuple[Postgres, Postgres],
) -> None:
    primary, _ = pair
    program: dict[str, Any] = {}
    exec(HOLDING, program)
    value = "123456789012345"
    primary.query(f"INSERT INTO entries (key, value) VALUES ('k', '{value}')")
    assert list(program["holding"](primary.data, value)) == [], "it is in memory"
    primary.query("CHECKPOINT")
    (file,) = program["holding"](primary.data, value)
    # Its page is on disk, and newer than the last checkpoint.
    control = Path(primary.data, "global", "pg_control")
    newer = bytearray(control.read_bytes())
    newer[40:48] = (int.from_bytes(newer[40:48], "little") - 2**20).to_bytes(8, "little")
    control.write_bytes(newer)
    assert value.encode() in file.read_bytes()
    assert list(program["holding"](primary.data, value)) == []


LEADER = {
    "state": "running",
    "postmaster_start_time": "2026-11-26 10:00:00.000000+00:00",
    "role": "master",
    "server_version": 150020,
    "xlog": {"location": 67395656},
    "timeline": 3,
    "dcs_last_seen": 1795687200,
    "tags": {"storage": "0f"},
    "database_system_identifier": "7300000000000000000",
    "patroni": {"version": "3.0.2", "scope": "zq-patroni-default"},
}
"""An answer of Patroni 3.0.2 to `/patroni`, put together from its source (`api.py`)."""

STANDBY = LEADER | {
    "role": "replica",
    "xlog": {
        "received_location": 67395656,
        "replayed_location": 67395000,
        "replayed_timestamp": None,
        "paused": False,
    },
}


def test_members_are_seen_by_what_patroni_tells() -> None:
    leader, standby = package.status_of("m", LEADER), package.status_of("m", STANDBY)
    assert (leader.role, leader.term, leader.applied) == (ReplicaRole.LEADER, 3, 67395656)
    assert (standby.role, standby.applied, standby.commit) == (
        ReplicaRole.FOLLOWER,
        67395000,
        67395656,
    )
    assert leader.knows_leader
    assert standby.knows_leader
    assert not package.status_of("m", STANDBY | {"cluster_unlocked": True}).knows_leader
    assert (leader.storage, package.version_of(LEADER)) == ("0f", "15.20 with Patroni 3.0.2")
    with pytest.raises(ClusterError, match="PostgreSQL is starting"):
        package.status_of("m", {"state": "starting", "role": "replica"})


INSTALLED = installed()


def objects(account: str, *args: str) -> list[dict[str, Any]]:
    members = MemberSet(
        name="zq-patroni-default",
        target=package.NAME,
        program=package.PROGRAM,
        pool="default",
        count=3,
        namespace="ns",
        image="i",
        pull_policy="Never",
        fsync=True,
        ports=package.PORTS,
        settings=RunTarget(args=list(args)),
        service="zq-target",
        account=account,
    )
    kube: Any = None
    container = package.PatroniMembers(kube, run_id="r1").container(members)
    return member_objects(members, container, run_id="r1", installation=INSTALLED)


def pod(account: str, *args: str) -> dict[str, Any]:
    spec: dict[str, Any] = objects(account, *args)[-1]["spec"]["template"]["spec"]
    return spec


def test_members_get_the_token_of_the_account_that_is_named_and_else_none() -> None:
    named, without = pod("zq-target"), pod("")
    assert (named["serviceAccountName"], named["automountServiceAccountToken"]) == (
        "zq-target",
        True,
    )
    assert "serviceAccountName" not in without
    assert without["automountServiceAccountToken"] is False


def test_a_member_is_configured_by_its_pod_and_the_scenarios_settings() -> None:
    container = pod("zq-target", "synchronous_mode=true")["containers"][0]
    env = {each["name"]: each.get("value", "") for each in container["env"]}
    env["POD"] = "zq-patroni-default-1"
    found = start.configuration(env, container["args"], storage="0f", fsync=True)
    host = "zq-patroni-default-1.zq-target.ns.svc"
    assert found["postgresql"]["connect_address"] == f"{host}:2379"
    assert found["restapi"]["connect_address"] == f"{host}:7001"
    assert found["bootstrap"]["dcs"]["synchronous_mode"] is True
    assert found["postgresql"]["parameters"]["superuser_reserved_connections"] == 20
    made = {**found["kubernetes"]["labels"], found["kubernetes"]["scope_label"]: found["scope"]}
    labels = objects("zq-target")[-1]["spec"]["template"]["metadata"]["labels"]
    assert made.items() <= labels.items(), "Patroni finds the pods, and the run what Patroni made"


def test_settings_are_patronis_own_by_their_places() -> None:
    found = start.dynamic(
        ["synchronous_mode_strict=true", "postgresql.parameters.wal_level=logical", "ttl=20"]
    )
    assert (found["synchronous_mode_strict"], found["ttl"]) == (True, 20)
    assert found["postgresql"]["parameters"]["wal_level"] == "logical"
    assert found["postgresql"]["use_pg_rewind"] is True


def test_no_members_own_configuration_wins_over_a_setting_that_is_allowed() -> None:
    """Patroni takes a member's own over the cluster's."""
    own = start.configuration(
        {"POD": "p", "SERVICE": "s", "CLIENTS": "1", "PEERS": "2", "SCOPE": "z", "NAMESPACE": "n"}
        | {"LABELS": "{}", "SCOPE_LABEL": "l"},
        [],
        storage="0f",
        fsync=True,
    )["postgresql"]
    assert own.keys() & start.OF_POSTGRESQL == {"parameters"}
    allowed = {name for name in own["parameters"] if name not in start.OWN_PARAMETERS}
    assert allowed == {"zonequake.member"}, "whose name is refused, as an extension's"
    changed = start.dynamic(["postgresql.parameters.Checkpoint_Timeout=5min"])
    assert changed["postgresql"]["parameters"]["checkpoint_timeout"] == "5min"


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ("target.args=[--sync]", "expected NAME=VALUE"),
        ("target.args=['ttl.x=1']", "ttl is a value"),
        ("target.args=[ttl=5, ttl=6]", "has ttl twice"),
        ("target.args=[ttl=abc]", "expected a whole number"),
        ("target.args=['loop_wait=-1']", "expected a whole number"),
        ("target.args=['synchronous_mode.x=true']", "expected synchronous_mode=true or"),
        ("target.args=['postgresql.pg_hba=5']", "expected one below postgresql: par"),
        ("target.args=['postgresql.parameters.fsync=off']", "and the zone's fsync says it"),
        ("target.args=['postgresql.parameters.PORT=1']", "and Patroni sets it itself"),
        ("target.args=['postgresql.parameters.SSL=yes']", "parameters.ssl=on or"),
        ("target.env={PATRONI_NAME: x}", "would win over the run's configuration"),
        ("target.env={PGDATA: x}", "would win over the run's configuration"),
        ("target.args=['synchronos_mode=true']", "expected a setting of Patroni: check_timeline"),
        ("target.args=['postgresql.paramters.wal_level=x']", "expected one below postgresql: par"),
        ("target.args=['postgresql={}']", "expected one below postgresql: par"),
        ("target.args=['postgresql.parameters.a.b=1']", "expected the name of one parameter"),
        ("target.args=['postgresql.parameters={}']", "expected the name of one parameter"),
        ("target.args=[synchronous_mode=maybe]", "expected synchronous_mode=true or"),
        ("target.args=['postgresql.use_slots=1']", "expected postgresql.use_slots=true or"),
        ("target.env={SCOPE: x}", "which the run sets itself"),
        (
            "faults=[{name: cut, type: network_partition, target: {role: leader}, cut: peers}]",
            "has one for standbys",
        ),
        (
            "faults=[{name: f, type: network_slow, target: {role: any}, delayMilliseconds: 5}]",
            "has one for standbys",
        ),
    ],
)
def test_what_a_scenario_can_not_ask_for_is_named(changed: str, why: str) -> None:
    run = load("leader-kill", [changed, "zones.0.partitions=1", "target.name=patroni"])
    with pytest.raises(UsageError, match=why):
        check_suited(package.TARGET, run)


def test_the_pages_scenario_suits_the_target_and_is_allowed() -> None:
    scenario = Path(__file__).parents[3] / "docs" / "examples" / "lagging-standbys.yaml"
    run = load(str(scenario), ["target={name: patroni, args: [synchronous_mode=true]}"])
    check_suited(package.TARGET, run)
    check_plan(run)


class Told:
    """An API server by which a member tells its version, and psql some rows."""

    def __init__(self, rows: str) -> None:
        self.rows, self.asked = rows, ""

    async def pod_proxy(self, *_: object, **__: object) -> bytes:
        return b'{"server_version": 150020, "patroni": {"version": "3.0.2"}}'

    async def execute(self, pod: str, container: str, words: list[str]) -> Any:
        self.asked = words[-1]
        return SimpleNamespace(code=0, stdout=self.rows, stderr="")


async def test_a_parameter_that_the_server_has_not_is_an_error() -> None:
    names = start.parameters_of(start.dynamic(["postgresql.parameters.synchronous_comit=on"]))
    assert names == [
        *("checkpoint_timeout", "max_connections", "shared_buffers", "synchronous_comit")
    ]
    told = Told("synchronous_comit\n")
    members = package.PatroniMembers(cast("Kube", told), run_id="r1", parameters=names)
    with pytest.raises(UsageError, match=r"synchronous_comit, which PostgreSQL 15\.20 with"):
        await members.version("zq-patroni-default-0")
    assert ",shared_buffers,synchronous_comit}'" in told.asked
    told.rows = ""
    assert await members.version("zq-patroni-default-0") == "15.20 with Patroni 3.0.2"


SSL = "postgresql.parameters.ssl=on"


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("{clientSecret: mine}", "clientSecret is mine, and target.args has no postgresql.par"),
        (f"{{args: ['{SSL}']}}", "and no target.clientSecret: name a Secret"),
    ],
)
def test_members_and_clients_both_speak_tls(target: str, why: str) -> None:
    run = load("leader-kill", [f"target={target}", "zones.0.partitions=1", "target.name=patroni"])
    with pytest.raises(UsageError, match=why):
        check_suited(package.TARGET, run)
    both = f"target={{name: patroni, args: ['{SSL}'], clientSecret: mine}}"
    check_suited(package.TARGET, load("leader-kill", [both, "zones.0.partitions=1"]))


def speak_tls(server: Postgres, authority: Authority, host: str) -> None:
    """Has a server speak TLS, as the one of that name, and take no other connection."""
    signed = authority.sign("postgres", hosts=[host])
    folder = Path(server.data)
    for name, text in (
        ("server.crt", signed.certificate),
        ("server.key", signed.key),
        ("pg_hba.conf", b"local all all trust\nhostssl all all all trust\n"),
    ):
        (folder / name).write_bytes(text)
        (folder / name).chmod(0o600)
        os.chown(folder / name, folder.stat().st_uid, -1)
    server.query("ALTER SYSTEM SET ssl = on")
    server.query("SELECT pg_reload_conf()")


@needs_postgres
async def test_a_client_speaks_tls_and_knows_the_member_by_its_name(
    pair: tuple[Postgres, Postgres], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    primary = pair[0]
    ours, others = (Authority.made(name, datetime.now(UTC)) for name in ("ours", "others"))
    speak_tls(primary, ours, "localhost")
    async with opened(primary, host="localhost", secret=secret_in(tmp_path / "a", ours)) as client:
        assert (await done(client, write("k", 1))).type is Type.OK
        (connection,) = client._all
        used = await connection.fetchval("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
        assert used is True
    monkeypatch.setattr("zonequake_load.targets.member_client.OPEN_TIMEOUT_S", 2.0)
    for host, secret, why in (
        ("127.0.0.1", tmp_path / "a", "certificate verify failed: IP address mismatch"),
        ("localhost", secret_in(tmp_path / "b", others), "certificate verify failed"),
        ("localhost", None, "no pg_hba.conf entry"),
    ):
        with pytest.raises(TargetError, match=why):
            async with opened(primary, host=host, secret=secret):
                raise AssertionError


async def test_a_secret_that_can_not_be_used_is_an_error_of_the_beginning(tmp_path: Path) -> None:
    client = PatroniClient(["127.0.0.1:1"], rng=random.Random(1), secret=tmp_path)
    with pytest.raises(TargetError, match=r"can't be used: .*; expected ca\.crt"):
        client.connect()


def test_a_release_without_the_account_is_refused() -> None:
    with pytest.raises(UsageError, match=r"harness\.targetAccount=true"):
        package.TARGET.check_release(INSTALLED)


def test_a_member_starts_by_what_the_image_holds() -> None:
    command = pod("zq-target")["containers"][0]["command"]
    assert command[-1].endswith(start.__name__.replace(".", "/") + ".py")
    assert start.SCHEMA.is_file()


def test_a_member_becomes_patroni_by_debians_python(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The image's PATH has the client's environment first, which lacks Patroni."""
    became: list[tuple[str, list[str]]] = []
    monkeypatch.setattr(os, "execv", lambda program, words: became.append((program, words)))
    for name in ("IDENTITY", "OWN", "FOLDER"):
        monkeypatch.setattr(start, name, str(tmp_path / name) if name != "OWN" else str(tmp_path))
    (tmp_path / "FOLDER").mkdir(mode=0o770)
    (tmp_path / "FOLDER" / "postmaster.pid").write_text("7")
    for each in pod("zq-target")["containers"][0]["env"]:
        monkeypatch.setenv(each["name"], each.get("value", "m-0"))
    monkeypatch.setattr(sys, "argv", ["start.py", "ttl=20"])
    start.main()
    start.main()
    (program, words), again = became
    assert again == (program, words)
    told = json.loads(Path(words[-1]).read_text())
    assert told["bootstrap"]["dcs"]["ttl"] == 20
    assert told["tags"]["storage"] == (tmp_path / "IDENTITY").read_text()
    assert [each.name for each in (tmp_path / "FOLDER").iterdir()] == []
    assert (tmp_path / "FOLDER").stat().st_mode & 0o777 == 0o700

    venv.create(tmp_path / "client", symlinks=True)
    path = f"{tmp_path / 'client' / 'bin'}:/usr/bin:/bin"
    shown = [words[0], "-c", "import sys; print(sys.prefix)"]
    done = subprocess.run(
        shown, executable=program, env={"PATH": path}, capture_output=True, text=True, check=True
    )
    assert done.stdout == "/usr\n"

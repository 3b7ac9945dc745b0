"""The target itself: how its members are started and asked, what it claims and refuses."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from zonequake_chaos.kit.client_code import ClientCode
from zonequake_chaos.kit.deployment import Deployment
from zonequake_chaos.kit.limits.one_group import unsuited_to_one_group
from zonequake_chaos.kit.limits.refusals import FIXED_MEMBERS, Refusals
from zonequake_chaos.kit.member_deployment import MemberSetDeployment
from zonequake_chaos.kit.member_set import TARGET_LABEL, MemberSet
from zonequake_chaos.kit.members import DumpedKey, MemberDump, MemberStatus
from zonequake_chaos.kit.target import TargetClaims, TargetPackage, TargetPlace
from zonequake_chaos.load.installation import Installation
from zonequake_chaos.load.objects import RUN_LABEL
from zonequake_chaos.observe.view import LinkPorts
from zonequake_chaos.scenario.run import ChaosRun
from zonequake_kube.client import Kube
from zonequake_kube.errors import ClusterError, UsageError
from zonequake_kube.objects import Json
from zonequake_protocol.admin import ReplicaRole
from zonequake_protocol.client import Value
from zonequake_target_patroni.alteration import IN_PAGES
from zonequake_target_patroni.image.start import SSL, dynamic, parameters_of

NAME = "patroni"
"""Of the target, and of each member's container."""
PROGRAM = "python3"
"""Patroni's process, the first of its container: PostgreSQL ends with it."""
PORTS = LinkPorts(clients=2379, peers=7001)
"""PostgreSQL's, for clients and standbys alike, and that of Patroni's REST."""
OWN_VARIABLES = frozenset(
    {"CLIENTS", "FSYNC", "LABELS", "NAMESPACE", "PEERS", "SCOPE", "SCOPE_LABEL", "SERVICE"}
)
"""Those by which `image/start.py` is told the member's place."""

OF_PROGRAMS = ("PATRONI_", "PG")
"""How variables begin that Patroni, or PostgreSQL's programs, read before their files."""

CONNECT = "zonequake_target_patroni.image.client:connect"

_PLACE = """SELECT pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
    ELSE pg_current_wal_lsn() END, '0/0')"""
_ROWS = """SELECT coalesce(json_agg(json_build_array(key, value, written, md5(filler))
    ORDER BY key COLLATE "C"), '[]') FROM entries WHERE value IS NOT NULL"""
DUMP = f"{_PLACE}; {_ROWS}; {_PLACE}"
"""A statement sees one snapshot, but not the place in the log that belongs to it: only two equal
places say at which one the rows between them stand."""


class PatroniMembers:
    """The members of one run (see `members.MemberSystem`)."""

    def __init__(self, kube: Kube, *, run_id: str, parameters: Sequence[str] = ()) -> None:
        """`parameters`: the names of PostgreSQL's own that the run sets."""
        self._kube = kube
        self._run_id = run_id
        self._parameters = parameters

    def container(self, members: MemberSet) -> Json:
        env = {
            "CLIENTS": str(PORTS.clients),
            "FSYNC": str(int(members.fsync)),
            "LABELS": msgspec.json.encode({RUN_LABEL: self._run_id}).decode(),
            "NAMESPACE": members.namespace,
            "PEERS": str(PORTS.peers),
            "SCOPE": members.name,
            "SCOPE_LABEL": TARGET_LABEL,
            "SERVICE": f"{members.service}.{members.namespace}.svc",
        }
        ready, alive = (
            {"httpGet": {"path": path, "port": "peers"}, "timeoutSeconds": 2}
            for path in ("/readiness", "/liveness")
        )
        return {
            "command": ["/usr/bin/python3", "/app/zonequake_target_patroni/image/start.py"],
            "env": [{"name": name, "value": value} for name, value in env.items()],
            "startupProbe": ready | {"periodSeconds": 1, "failureThreshold": 180},
            "readinessProbe": ready | {"periodSeconds": 1, "failureThreshold": 2},
            "livenessProbe": alive | {"periodSeconds": 10, "failureThreshold": 6},
            "resources": {
                "requests": {"cpu": "100m", "memory": "192Mi"},
                "limits": {"cpu": "1", "memory": "768Mi"},
            },
        }

    async def version(self, pod: str) -> str:
        """Returns what the member told. Raises UsageError if it lacks a parameter that the run set:
        Patroni passes over those that its PostgreSQL doesn't know.
        """
        told = version_of(await self._ask(pod))
        names = ",".join(self._parameters)
        statement = f"SELECT name FROM unnest('{{{names}}}'::text[]) AS name"  # noqa: S608
        statement += " WHERE current_setting(name, true) IS NULL"
        unknown = (await self._query(pod, statement)).split()
        if unknown:
            raise UsageError(
                f"target.args has postgresql.parameters.{unknown[0]}, which PostgreSQL {told} does "
                "not have: correct the name, or leave it out"
            )
        return told

    async def status(self, pod: str, *, timeout_s: float) -> MemberStatus:
        # It has what `/patroni` has, and is answered at once: that one asks PostgreSQL again, a
        # second later, after an error, as around a promotion.
        return status_of(pod, await self._ask(pod, timeout_s, "/health"))

    async def differences(self, pods: Sequence[str], applied: int) -> str:
        """Compares the tables; `applied` is a place in the log, which goes on without writes."""
        dumps = {pod: await self.dump(pod) for pod in pods}
        digests = {pod: dump.digest for pod, dump in dumps.items()}
        return "" if len(set(digests.values())) == 1 else f"digests at {applied} differ: {digests}"

    async def dump(self, pod: str) -> MemberDump:
        said = await self._ask(pod)
        primary = await self._place_of_primary(pod, said)
        rows = await self._query(pod, DUMP)
        return dumped(pod, rows, storage=said["tags"]["storage"], primary=primary)

    async def _query(self, pod: str, statement: str) -> str:
        """Returns the rows as text, by the server's own program in the member's container."""
        words = ["psql", "-XAtq", "-h", "/tmp", "-p", str(PORTS.clients)]  # noqa: S108
        done = await self._kube.execute(pod, NAME, [*words, "-U", "postgres", "-c", statement])
        if done.code != 0:
            raise ClusterError(f"{pod}: no answer of psql: {done.stderr[-300:]}")
        return done.stdout

    async def _place_of_primary(self, pod: str, said: dict[str, Any]) -> int:
        """Returns where the primary's log stands. Raises ClusterError if the pod knows of none, or
        is of another timeline."""
        members = (await self._ask(pod, path="/cluster"))["members"]
        leader = next((one["name"] for one in members if one["role"] == "leader"), None)
        if leader is None:
            raise ClusterError(f"{pod}: no dump: it knows of no primary to compare it with")
        primary = await self._ask(leader)
        if primary.get("timeline") != said.get("timeline"):
            raise ClusterError(
                f"{pod}: no dump: it is of timeline {said.get('timeline')}, and the primary "
                f"{leader} of {primary.get('timeline')}"
            )
        return status_of(leader, primary).applied

    async def _ask(
        self, pod: str, timeout_s: float = 10.0, path: str = "/patroni"
    ) -> dict[str, Any]:
        raw = await self._kube.pod_proxy(pod, PORTS.peers, path, timeout_s=timeout_s)
        return msgspec.json.decode(raw, type=dict[str, Any])


def version_of(said: dict[str, Any]) -> str:
    """Returns both versions that a member told."""
    major, minor = divmod(said["server_version"], 10_000)
    return f"{major}.{minor} with Patroni {said['patroni']['version']}"


def status_of(pod: str, said: dict[str, Any]) -> MemberStatus:
    """Returns the status that a member told. Raises ClusterError if its PostgreSQL is away."""
    if said["state"] != "running" or "xlog" not in said:
        raise ClusterError(f"{pod}: PostgreSQL is {said['state']}")
    log, leads = said["xlog"], said["role"] in ("master", "primary")
    return MemberStatus(
        role=ReplicaRole.LEADER if leads else ReplicaRole.FOLLOWER,
        term=said.get("timeline") or 0,
        applied=log["location"] if leads else log["replayed_location"] or 0,
        commit=log["location"] if leads else log["received_location"] or 0,
        storage=said["tags"]["storage"],
        knows_leader=leads or not said.get("cluster_unlocked", False),
    )


def dumped(pod: str, said: str, *, storage: str, primary: int) -> MemberDump:
    """Returns the dump that a member told, in the words of `DUMP`; `applied`: the newest place that
    wrote a row.

    Commits aren't in the order of these places, so that a member that lacks some may hold later
    ones. Raises ClusterError if it has not yet replayed `primary`, a place of the primary's log, or
    if its log went on meanwhile.
    """
    before, _, rest = said.strip().partition("\n")
    rows, _, after = rest.rpartition("\n")
    if before != after:
        raise ClusterError(f"{pod}: no dump: its log went on from {before} to {after} meanwhile")
    if int(before) < primary:
        raise ClusterError(
            f"{pod}: no dump: it is {primary - int(before):,} bytes of the log behind the primary, "
            "and what it lacks may come yet"
        )
    keys = msgspec.json.decode(rows)
    return MemberDump(
        applied=max((written for _, _, written, _ in keys), default=0),
        digest=hashlib.sha256(msgspec.json.encode(keys)).hexdigest()[:16],
        storage=storage,
        keys=[
            DumpedKey(key=key, value=_read(value), index=written) for key, value, written, _ in keys
        ],
        log_index=int(before),
    )


def _read(text: str) -> Value:
    """Returns a value as the client does; one in another form is shown as text."""
    try:
        value: Value = msgspec.json.decode(text, type=Value)
    except msgspec.MsgspecError:
        return text
    return value


ONE_PORT = Refusals(
    traffic={
        "peers": "affects the port for peers, and PostgreSQL has one for standbys and clients: let "
        "it be of all"
    }
)


class PatroniPackage(TargetPackage):
    """A PostgreSQL with Patroni that each run creates and removes."""

    name = NAME
    about = "PostgreSQL with Patroni: a failover loses writes, unless replication is synchronous."
    claims = TargetClaims(
        order=(
            "Lineage 0, as term the timeline, and as index a number of one sequence, taken under "
            "the row's lock, by reads too."
        ),
        transactions=True,
    )
    client = ClientCode(connect=CONNECT, takes_secret=True)
    refuses = FIXED_MEMBERS.and_also(ONE_PORT)
    alters = IN_PAGES

    async def deployment(self, place: TargetPlace) -> Deployment:
        self.check_release(place.installation)
        members = MemberSet.of(
            place,
            target=self.name,
            program=PROGRAM,
            ports=PORTS,
            account=place.installation.target_account,
        )
        image = place.run.spec.target.image
        if image is None:  # only now: what can't be is refused before an image is built
            image = await asyncio.to_thread(_own_image, place)
            members = replace(members, image=image)
        return MemberSetDeployment(
            place,
            client=ClientCode(connect=CONNECT, image=image, takes_secret=True),
            members=members,
            system=PatroniMembers(
                place.kube,
                run_id=place.run_id,
                parameters=parameters_of(dynamic(place.run.spec.target.args)),
            ),
        )

    def unsuited(self, run: ChaosRun) -> Iterator[str]:
        yield from unsuited_to_one_group(run)
        try:
            yield from _unsuited_secret(dynamic(run.spec.target.args), run)
        except ValueError as error:
            yield str(error)
        for name in sorted(run.spec.target.env):
            if name in OWN_VARIABLES:
                yield f"target.env has {name}, which the run sets itself: leave it out"
            if name.startswith(OF_PROGRAMS):
                yield (
                    f"target.env has {name}, which would win over the run's configuration without "
                    "a word: give settings in target.args"
                )

    def check_release(self, installation: Installation) -> None:
        if not installation.target_account:
            raise UsageError(
                "Patroni's members keep their leader in the API server, and this release has no "
                "account for that: zonequake install --set harness.targetAccount=true"
            )


def _unsuited_secret(settings: Mapping[str, Any], run: ChaosRun) -> Iterator[str]:
    """Yields where members and clients would not both speak TLS, as text."""
    speaks = settings["postgresql"]["parameters"].get(SSL) == "on"
    secret = run.spec.target.client_secret
    if secret is not None and not speaks:
        yield (
            f"target.clientSecret is {secret}, and target.args has no "
            "postgresql.parameters.ssl=on: add it, with ssl_cert_file and ssl_key_file of a Secret "
            "in target.secrets"
        )
    if speaks and secret is None:
        yield (
            "target.args has postgresql.parameters.ssl=on, and no target.clientSecret: name a "
            "Secret with the authority of the members' certificates as ca.crt"
        )


def _own_image(place: TargetPlace) -> str:
    """Builds and loads the image on the embedded cluster; returns its name."""
    if place.node is None:
        raise UsageError(
            "target patroni on a cluster that isn't the embedded one needs --image, which the "
            "cluster can pull: REGISTRY/OWNER/zonequake/patroni:VERSION of a release, or a build "
            "of Dockerfile.patroni"
        )
    from zonequake_cluster.images.build import build_all

    built = build_all(progress=place.say, also=["patroni"])["patroni"]
    return place.load_image(built.ref, built.archive)


TARGET = PatroniPackage()

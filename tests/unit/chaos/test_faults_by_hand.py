"""The fault `reset_by_hand`: what it refuses, what it asks of the operator, and what proves it.

The API server, the data nodes and the operator's writes are played. What the operator decides on a
request is in tests/unit/operator, and all of it on real processes in tests/kube/operator.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from msgspec import structs

from tests.unit.chaos.made_up_injections import made_up_injection, made_up_victim
from tests.unit.made_up_nodes import node_identity, topology_node
from zonequake_chaos.errors import FaultFailed
from zonequake_chaos.faults.life import Injection
from zonequake_chaos.faults.registry import life_of
from zonequake_chaos.record.cleanup_journal import CleanupJournal
from zonequake_chaos.scenario.faults import ResetByHandSpec
from zonequake_ctl import reset, reset_by_hand
from zonequake_kube.client import Kube
from zonequake_kube.errors import WaitExpired
from zonequake_operator.api_server.rendering import render_partition_status, render_topology_status
from zonequake_operator.resources.model import (
    AssignmentSet,
    AssignmentsLink,
    Departure,
    PartitionKeys,
    PartitionStatus,
    ResetRequest,
    TokenPeers,
    Topology,
    TopologyNode,
)
from zonequake_operator.resources.parsing import parse_zone
from zonequake_operator.resources.stored_shapes import (
    RESET_ANNOTATION,
    RESET_ZONE_ANNOTATION,
    reset_requests,
)
from zonequake_protocol.admin import (
    ConfigurationReport,
    PeerName,
    ReplicaRole,
    ReplicasReport,
    ReplicaStatus,
)

UID = "12345678"
CHAIN = (
    AssignmentsLink(nodes=tuple("ABC"), term=1, index=1),
    AssignmentsLink(nodes=("C",), term=5_000_000_001, index=21, token=5),
)
DEAD = PartitionKeys(
    stable=AssignmentSet.of("C"),
    configuration_token=6,
    bootstrap=TokenPeers(token=1, peers=()),
    chain=CHAIN,
    stopped_token=6,
)
"""A to C were reset to C, which has left."""

FORCED = replace(
    DEAD,
    pending=AssignmentSet(nodes=("A",), force=True),
    planned=AssignmentSet(nodes=("A", "B"), from_reset=True),
    configuration_token=8,
    chain=CHAIN[:1],
)
AGAIN = replace(
    FORCED,
    stable=AssignmentSet.of("A", "B"),
    pending=None,
    planned=None,
    configuration_token=9,
    chain=(*CHAIN[:1], AssignmentsLink(nodes=("A", "B"), term=8_000_000_002, index=22, token=8)),
)
GIVEN_UP = (
    "all that was written since the reset to C: lineage 5, after term 1, index 21 (lineage 5)"
)


class Cluster:
    """A zone `z` whose partitions have these keys; after a request those of `then`, one by one."""

    namespace = "n"

    def __init__(self, *keys: PartitionKeys) -> None:
        self.keys = dict(enumerate(keys))
        self.then: list[PartitionKeys] = [FORCED, AGAIN]
        self.leaders: dict[int, str] = {}
        self.there = "AB"
        self.departed = {"C": Departure(since=3, left=8)}
        self.conditions: list[dict[str, Any]] = []
        self.annotations: dict[str, str] = {}
        self.uid = UID

    @property
    def requested(self) -> dict[int, ResetRequest]:
        return reset_requests(self.annotations, UID)

    async def get(self, kind: str, name: str) -> dict[str, Any]:
        assert (kind, name) == ("DistributionZone", "z")
        return self._zone()

    async def find(self, kind: str, labels: str = "") -> list[dict[str, Any]]:
        match kind:
            case "DistributionZone":
                return [self._zone()]
            case "Partition":
                if self.requested and self.then:
                    keys = self.then.pop(0)
                    self.keys |= dict.fromkeys(self.requested, keys)
                return [self._partition(number, keys) for number, keys in self.keys.items()]
            case "LogicalTopology":
                nodes = {node: a_node(node) for node in self.there}
                known = Topology(version=9, nodes=nodes, departed=self.departed)
                return [{"status": render_topology_status(known)}]
            case "Pod" if "component=store" in labels:
                return [a_pod(node) for node in self.there]
            case _:
                return []

    async def patch(self, kind: str, name: str, change: dict[str, Any]) -> dict[str, Any]:
        assert (kind, name) == ("DistributionZone", "z")
        self.annotations |= change["metadata"]["annotations"]
        return self._zone()

    async def pod_proxy(self, pod: str, port: int, path: str, *, timeout_s: float = 5) -> bytes:
        if path.endswith("/inspection"):
            number = int(path.split("/")[-2].rpartition(".")[2])
            return msgspec.json.encode(a_replica(number, "ABC".index(pod) + 18))
        waiting = [
            structs.replace(a_replica(number, 0), role=ReplicaRole.WAITING, configuration=None)
            if number not in self.leaders
            else a_replica(number, 1, leads=pod == self.leaders[number])
            for number in self.keys
        ]
        node = node_identity(pod)
        return msgspec.json.encode(ReplicasReport(node=node, replicas=waiting))

    def _zone(self) -> dict[str, Any]:
        metadata = {"name": "z", "namespace": "n", "uid": self.uid, "resourceVersion": "1"}
        return {
            "metadata": metadata | {"annotations": dict(self.annotations)},
            "spec": {"partitions": len(self.keys), "consistencyMode": "HighAvailability"},
            "status": {"conditions": self.conditions, "dataNodes": ["A", "B", "C"]},
        }

    def _partition(self, number: int, keys: PartitionKeys) -> dict[str, Any]:
        owner = {"controller": True, "uid": self.uid}
        metadata = {"name": f"z-{number}", "resourceVersion": "1", "ownerReferences": [owner]}
        view = PartitionStatus(leader=self.leaders.get(number))
        return {
            "metadata": metadata,
            "spec": {"zone": "z", "partition": number, "group": f"z.{UID}.{number}"},
            "status": render_partition_status(keys, view),
        }


def a_node(name: str) -> TopologyNode:
    return topology_node(name, since=9)


def a_pod(name: str) -> dict[str, Any]:
    containers = [{"name": "store"}]
    return {"metadata": {"name": name, "uid": "u"}, "spec": {"containers": containers}}


def a_replica(number: int, index: int, *, leads: bool = False) -> ReplicaStatus:
    peers = [PeerName(node, "1") for node in "ABC"]
    return ReplicaStatus(
        group=f"z.{UID}.{number}",
        zone="z",
        partition=number,
        incarnation="1",
        role=ReplicaRole.LEADER if leads else ReplicaRole.FOLLOWER,
        term=1,
        configuration=ConfigurationReport(peers=peers, token=1, index=1),
        last_term=1,
        last_index=index,
        last_user_term=1,
        last_user_index=index,
        abstains=True,
    )


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reset_by_hand, "POLL_S", 0)


@pytest.fixture
def journal(tmp_path: Path) -> CleanupJournal:
    folder = tmp_path / "run"
    folder.mkdir()
    return CleanupJournal(folder)


def made_injection(
    cluster: Cluster, journal: CleanupJournal, survivor: str | None = None, timeout_s: float = 60
) -> Injection:
    return made_up_injection(
        [made_up_victim(survivor)] if survivor else [],
        name="by-hand",
        timeout_s=timeout_s,
        kube=cluster,
        journal=journal,
        zones=["z"],
        release="zq",
    )


async def done(fault: ResetByHandSpec, injection: Injection) -> dict[str, Any]:
    """The proof of the fault's effect, once all of its life is over."""
    life = life_of(fault)
    await life.prepare(injection)
    await life.inject(injection)
    proof = await life.wait_until_effective(injection)
    await life.recover(injection)
    await life.wait_until_recovered(injection)
    await life.clean_up(injection)
    return proof


ALL = ResetByHandSpec(name="by-hand")


async def test_it_asks_as_the_command_does_and_proves_what_was_given_up(
    journal: CleanupJournal,
) -> None:
    cluster = Cluster(DEAD, DEAD)
    proof = await done(
        ResetByHandSpec(name="by-hand", survivor="A"), made_injection(cluster, journal, "A")
    )
    asked = ResetRequest(token=6, topology_version=9, survivor=PeerName("A", "1"))
    assert cluster.requested == {0: asked, 1: asked}
    newer = "user entries up to term 1, index 19, held by B"
    each = {"token": 8, "survivor": "A", "given_up": [GIVEN_UP, newer]}
    assert proof == {"zone": "z", "partitions": [{"partition": n} | each for n in (0, 1)]}
    assert journal.debts == [], "a reset can't be undone"


async def test_without_a_survivor_it_goes_on_from_the_newest_data(journal: CleanupJournal) -> None:
    cluster = Cluster(DEAD)
    onto_b = replace(FORCED, pending=AssignmentSet(nodes=("B",), force=True))
    cluster.then = [onto_b, AGAIN]
    (only,) = (await done(ALL, made_injection(cluster, journal)))["partitions"]
    assert cluster.requested[0].survivor == PeerName("B", "1")
    assert (only["survivor"], only["given_up"]) == ("B", [GIVEN_UP])


async def test_a_choice_that_was_not_seen_in_the_keys_is_told_by_the_newest_link(
    journal: CleanupJournal,
) -> None:
    cluster = Cluster(DEAD)
    alone = AssignmentsLink(nodes=("B",), term=8_000_000_001, index=21, token=8)
    cluster.then = [replace(AGAIN, chain=(*CHAIN[:1], alone))]
    (only,) = (await done(ALL, made_injection(cluster, journal)))["partitions"]
    assert (only["survivor"], only["token"]) == ("B", 8)


async def test_the_node_that_went_on_unseen_is_the_one_that_the_request_names_or_none(
    journal: CleanupJournal,
) -> None:
    untold = Cluster(DEAD)
    untold.then = [AGAIN]
    (only,) = (await done(ALL, made_injection(untold, journal)))["partitions"]
    assert (only["survivor"], only["token"], only["given_up"]) == (None, 8, [])
    untold = Cluster(DEAD)
    untold.then = [AGAIN]
    of_a = ResetByHandSpec(name="by-hand", survivor="A")
    (only,) = (await done(of_a, made_injection(untold, journal, "A")))["partitions"]
    assert only["survivor"] == "A", "the run saw no other one"


async def test_only_partitions_that_lost_their_majority_are_reset(journal: CleanupJournal) -> None:
    cluster = Cluster(DEAD, DEAD)
    cluster.leaders = {1: "A"}
    proof = await done(ALL, made_injection(cluster, journal))
    assert [one["partition"] for one in proof["partitions"]] == [0]
    assert set(cluster.requested) == {0}


async def refused(cluster: Cluster, journal: CleanupJournal, fault: ResetByHandSpec) -> str:
    with pytest.raises(FaultFailed) as error:
        await life_of(fault).prepare(made_injection(cluster, journal, fault.survivor))
    assert not cluster.annotations, "refused before anything is written"
    return str(error.value)


async def test_a_majority_that_may_live_is_refused_in_the_words_of_the_proof(
    journal: CleanupJournal,
) -> None:
    cluster = Cluster(DEAD)
    cluster.there, cluster.departed = "ABC", {}
    chosen = ResetByHandSpec(name="by-hand", partitions=[0])
    assert await refused(cluster, journal, chosen) == (
        "by-hand: partition 0: stable C; C is in the topology since version 9; "
        "not reset: its majority has not left; a node that doesn't answer may still run"
    )
    lost_none = "by-hand: no partition of zone z has lost its majority for good; partition 0: "
    assert (await refused(cluster, journal, ALL)).startswith(lost_none)


async def test_a_chosen_partition_that_is_led_refuses_all(journal: CleanupJournal) -> None:
    cluster = Cluster(DEAD, DEAD)
    cluster.leaders = {1: "A"}
    said = await refused(cluster, journal, ResetByHandSpec(name="by-hand", partitions=[0, 1]))
    assert "partition 1: stable C; C has left with version 8; not reset: A leads it" in said
    cluster.leaders = {0: "A", 1: "A"}
    nobody = "by-hand: no partition of zone z has lost its majority"
    assert await refused(cluster, journal, ALL) == nobody


async def test_who_holds_nothing_is_refused_as_a_survivor(journal: CleanupJournal) -> None:
    gone = ResetByHandSpec(name="by-hand", survivor="C")
    said = await refused(Cluster(DEAD), journal, gone)
    assert "not reset: C holds nothing of it, or can't be asked" in said


async def test_a_zone_or_partition_that_is_not_there_is_told(journal: CleanupJournal) -> None:
    other = ResetByHandSpec(name="by-hand", zone="y")
    assert "has no zone y; there are: z" in await refused(Cluster(DEAD), journal, other)
    beyond = ResetByHandSpec(name="by-hand", partitions=[4])
    assert "zone z has no partition 4: 0 to 0" in await refused(Cluster(DEAD), journal, beyond)


async def test_what_the_operator_does_not_carry_out_has_no_proof(journal: CleanupJournal) -> None:
    cluster = Cluster(DEAD)
    cluster.then = []
    message = "The reset of partition 0 waits for B to report."
    risk = {"type": "DataAtRisk", "status": "True", "reason": "MajorityLost", "message": message}
    cluster.conditions = [risk]
    with pytest.raises(WaitExpired) as error:
        await done(ALL, made_injection(cluster, journal, timeout_s=0))
    left = "not within 0 s: partition 0 of zone z still to be reset."
    assert str(error.value) == f"{left} {message}"


async def test_a_zone_that_is_another_since_the_proof_is_not_reset(
    journal: CleanupJournal,
) -> None:
    cluster = Cluster(DEAD)
    life, injection = life_of(ALL), made_injection(cluster, journal)
    await life.prepare(injection)
    cluster.uid = "another"
    with pytest.raises(FaultFailed, match="by-hand: zone z was deleted and created again"):
        await life.inject(injection)
    assert cluster.annotations == {}


async def test_keys_that_changed_without_a_reset_are_no_proof(
    journal: CleanupJournal, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster(DEAD)
    wished = replace(DEAD, pending=AssignmentSet.of("A", "B"), configuration_token=7)
    cluster.then = [wished]
    with pytest.raises(FaultFailed, match=r"the request for partition 0 of zone z had no effect"):
        await done(ALL, made_injection(cluster, journal))
    kube = cast("Kube", cluster)
    asked = {0: ResetRequest(token=6, topology_version=9)}
    assert await reset._wait(kube, "z", UID, asked, 0) == reset.REFUSED
    assert "partition 0 was not reset" in capsys.readouterr().out


async def test_another_survivor_than_was_asked_for_is_no_proof(journal: CleanupJournal) -> None:
    with pytest.raises(FaultFailed, match="requested B as survivor, the operator chose A"):
        await done(
            ResetByHandSpec(name="by-hand", survivor="B"),
            made_injection(Cluster(DEAD), journal, "B"),
        )


async def test_requests_that_others_made_stay(journal: CleanupJournal) -> None:
    cluster = Cluster(DEAD)
    cluster.annotations = {RESET_ANNOTATION: '{"7": [3, 4]}'}
    cluster.then = list(itertools.repeat(AGAIN, 2))
    await done(ResetByHandSpec(name="by-hand"), made_injection(cluster, journal))
    assert cluster.requested[7] == ResetRequest(token=3, topology_version=4)


async def test_requests_that_came_with_the_manifest_of_another_zone_are_none(
    journal: CleanupJournal,
) -> None:
    """A zone made again by a backup has its annotations, and the tokens of a new zone; in another
    namespace versions of the topology are lower, and the first loss of a majority would be given
    up unasked, also in a StrongConsistency zone."""
    cluster = Cluster(DEAD)
    cluster.annotations = {RESET_ANNOTATION: '{"7": [1, 400]}', RESET_ZONE_ANNOTATION: "former"}
    assert parse_zone(cluster._zone()).reset_requests == {}
    cluster.then = list(itertools.repeat(AGAIN, 2))
    await done(ResetByHandSpec(name="by-hand"), made_injection(cluster, journal))
    assert list(cluster.requested) == [0]
    assert list(parse_zone(cluster._zone()).reset_requests) == [0]
    assert cluster.annotations[RESET_ZONE_ANNOTATION] == UID

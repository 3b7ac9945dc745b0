"""What `kubectl get dz,zp` says of armed timers and of what partitions wait for."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from tests.unit.operator.settled_zone import healthy, reports, settle, topology
from zonequake_operator.api_server.rendering import render_partition_status
from zonequake_operator.planning.conditions import Health
from zonequake_operator.planning.plan import WritePartition, plan
from zonequake_operator.planning.waiting import armed, waits_for
from zonequake_operator.resources.model import (
    AssignmentSet,
    ChangePeersMode,
    DataNodes,
    PartitionKeys,
    PartitionState,
    PartitionStatus,
    ResetDue,
    ResetTimer,
    Timer,
    Timers,
    TokenPeers,
    ZoneSpec,
    ZoneStatus,
)
from zonequake_protocol.admin import CatchUpProgress, PeerName, ReplicaRole, ReplicasReport, Stage

NOON_MS = 1_795_348_800_000
NODES = frozenset("abc")
UP = Timer(nodes=frozenset("de"), armed_ms=NOON_MS)
DOWN = Timer(nodes=frozenset("a"), armed_ms=NOON_MS + 1)
RESET = ResetTimer(nodes=frozenset("a"), armed_ms=NOON_MS, revision=3, topology_version=2)


@pytest.mark.parametrize(
    ("spec", "status", "text"),
    [
        (ZoneSpec(), ZoneStatus(), ""),
        (
            ZoneSpec(timers=Timers(scale_up_s=300)),
            ZoneStatus(data_nodes=DataNodes(nodes=NODES, up=UP, down=DOWN)),
            "scale-up at 2026-11-22T12:05:00Z: d, e; scale-down never: a",
        ),
        (
            ZoneSpec(timers=Timers(scale_down_s=30), paused=True),
            ZoneStatus(data_nodes=DataNodes(nodes=NODES, down=DOWN), reset=RESET),
            "scale-down once resumed, at 2026-11-22T12:00:31Z: a; "
            "reset once resumed, at 2026-11-22T12:00:05Z: a",
        ),
        (
            ZoneSpec(),
            ZoneStatus(reset_due=ResetDue(revision=3, topology_version=2)),
            "reset is due",
        ),
    ],
)
def test_a_zone_names_its_armed_timers_with_their_ends_and_nodes(
    spec: ZoneSpec, status: ZoneStatus, text: str
) -> None:
    assert armed(status, spec) == text


def health(
    missing: str = "", pending: AssignmentSet | None = None, awaits: str = "", **view: object
) -> Health:
    """Of a partition on a, b and c, which a leads unless `view` says otherwise."""
    values: dict[str, object] = {"leader": "a", "state": PartitionState.AVAILABLE, **view}
    return Health(
        keys=PartitionKeys(
            stable=AssignmentSet.of(*"abc"),
            pending=pending,
            bootstrap=TokenPeers(token=1, peers=()),
        ),
        view=PartitionStatus(**values),  # type: ignore[arg-type]
        missing=tuple(missing),
        broken={},
        at_risk=False,
        lost=len(missing) > 1,
        awaits=awaits,
    )


ADDING = AssignmentSet.of(*"abd")


@pytest.mark.parametrize(
    ("judged", "text"),
    [
        (health(), ""),
        (health("c"), "c to serve again"),
        (health("bc", leader=None), "1 more of b, c, for a majority"),
        (health("abc", leader=None), "2 more of a, b, c, for a majority"),
        (health("bc", leader=None, awaits="The reset waits for b."), "The reset waits for b."),
        (health("bc", AssignmentSet(nodes=("a",), force=True), leader=None),
         "a to go on alone: it is reset"),
        (health(leader=None), "a leader"),
        (health(leader=None, state=None), ""),
        (health(pending=ADDING), "d to join"),
        (health(pending=AssignmentSet.of(*"ab")), ""),
        (health(pending=AssignmentSet.of(*"ab"), stage=Stage.CATCHING_UP), ""),
        (health(pending=ADDING, stage=Stage.JOINT), ""),
    ],
)  # fmt: skip
def test_a_partition_names_what_has_to_come_first(judged: Health, text: str) -> None:
    assert waits_for(judged, NODES) == text


def test_a_newcomer_is_waited_for_until_it_is_caught_up_and_granted() -> None:
    judged = health(pending=ADDING, stage=Stage.CATCHING_UP)
    assert waits_for(judged, NODES) == "d to join"
    assert waits_for(judged, NODES | {"d"}) == "d to catch up"
    locked = replace(judged.keys, pending_lock=TokenPeers(token=2, peers=()))
    assert waits_for(replace(judged, keys=locked), NODES | {"d"}) == ""


def test_a_partition_that_has_not_started_names_members_that_are_away() -> None:
    judged = health(leader=None, state=None)
    fresh = replace(judged, keys=replace(judged.keys, bootstrap=None))
    assert waits_for(fresh, NODES) == ""
    assert waits_for(fresh, {"a"}) == "b, c to join"


def test_catch_up_that_gets_on_and_time_that_passes_write_nothing() -> None:
    spec = ZoneSpec(partitions=1, replicas=3, change_peers=ChangePeersMode.QUEUE)
    snapshot = replace(healthy(spec, nodes="ABC"), topology=topology(*"ABCD", version=2))
    (partition,) = snapshot.partitions.values()
    assert partition.keys.stable is not None
    peers = [PeerName(n, "i") for n in "ABD"]
    keys = replace(partition.keys, pending=AssignmentSet.of(*"ABD"), configuration_token=9)
    snapshot = replace(snapshot, partitions={0: replace(partition, keys=keys)})

    def moving(fraction: float) -> dict[str, ReplicasReport]:
        found = reports(snapshot)
        for report in found.values():
            for place, each in enumerate(report.replicas):
                if each.role is ReplicaRole.LEADER:
                    newcomer = CatchUpProgress(
                        peer=PeerName("D", "i"),
                        fraction=fraction,
                        bytes_sent=int(1000 * fraction),
                        bytes_done=int(1000 * fraction),
                        bytes_total=1000,
                        match_index=1,
                        by="log",
                    )
                    report.replicas[place] = msgspec.structs.replace(
                        each,
                        stage=Stage.CATCHING_UP,
                        stage_token=9,
                        token=9,
                        stage_peers=peers,
                        progress=[newcomer],
                    )
        return found

    written, _ = settle(replace(snapshot, reports=moving(0.1)))
    view = written.partitions[0].view
    assert view.waits_for == "D to catch up"
    assert render_partition_status(keys, view)["waitsFor"] == "D to catch up"
    later = replace(written, reports=moving(0.9), now_ms=written.now_ms + 60_000)
    assert not [a for a in plan(later).writes if isinstance(a, WritePartition)]

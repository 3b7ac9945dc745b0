"""Kubernetes Events: transitions only, each once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from zonequake_operator.controller import event_poster
from zonequake_operator.controller.event_poster import WAITING_LIMIT, EventPoster, render_event
from zonequake_operator.controller.reconciler import ZoneReconciler
from zonequake_operator.errors import KubeConflict, KubeError
from zonequake_operator.groups.reports import observe
from zonequake_operator.planning.kubernetes_events import Announcement, EventReason, announce
from zonequake_operator.planning.partition_events import (
    FailedChange,
    announce_failed,
    announce_keys,
    failed_changes,
)
from zonequake_operator.planning.plan import ZonePlan
from zonequake_operator.rebalance.volatile_switch import begun_anew
from zonequake_operator.resources.condition_types import Condition, ConditionType, Reason
from zonequake_operator.resources.model import (
    AssignmentSet,
    DataNodes,
    Partition,
    PartitionKeys,
    PartitionSummary,
    TokenPeers,
    Zone,
    ZoneSpec,
    ZoneStatus,
)
from zonequake_protocol.admin import (
    ConfigurationReport,
    PeerName,
    ReconfigurationStatus,
    ReplicaRole,
    ReplicaStatus,
    Stage,
)


def zone(
    nodes: str = "ABC",
    *,
    revision: int = 1,
    moving: int = 0,
    available: int = 8,
    ready: Reason = Reason.ALL_PARTITIONS_SERVE,
    message: str = "All.",
) -> Zone:
    return Zone(
        name="z",
        namespace="ns",
        uid="12345678-0000",
        generation=1,
        resource_version="7",
        spec=ZoneSpec(partitions=8),
        status=ZoneStatus(revision=revision, data_nodes=DataNodes(nodes=frozenset(nodes))),
        conditions=(
            Condition(
                type=ConditionType.READY,
                status=ready is Reason.ALL_PARTITIONS_SERVE,
                reason=ready,
                message=message,
            ),
            Condition(
                type=ConditionType.PROGRESSING,
                status=moving > 0,
                reason=Reason.REBALANCING if moving else Reason.IDLE,
                message="",
            ),
        ),
        summary=PartitionSummary(total=8, available=available, moving=moving),
    )


NEW = replace(zone(), status=ZoneStatus(), conditions=(), summary=PartitionSummary())
SETTLED = zone()
LOST = zone(
    available=6,
    ready=Reason.PARTITIONS_WITHOUT_LEADER,
    message="2 of 8 partitions have no leader: 1, 4.",
)
BAD_FILTER = zone(ready=Reason.INVALID_FILTER, message="dataNodesFilter '(', position 2: no.")


def said(before: Zone, after: Zone) -> list[tuple[EventReason, str, bool]]:
    return [(a.reason, a.message, a.is_warning) for a in announce(before, after, {})]


def test_what_stays_is_not_said_again() -> None:
    for each in (NEW, SETTLED, LOST, BAD_FILTER, zone(moving=3)):
        assert said(each, each) == []


def test_a_new_zone_is_announced_without_a_warning() -> None:
    starting = zone(available=0, ready=Reason.STARTING, message="8 haven't started.")
    electing = replace(LOST, summary=PartitionSummary(total=8, available=3))
    assert said(NEW, starting) == [
        (
            EventReason.DATA_NODES_CHANGED,
            "There are 3 data nodes with revision 1: A, B, C joined.",
            False,
        )
    ]
    assert said(starting, electing) == []
    assert said(electing, SETTLED) == [
        (EventReason.ALL_PARTITIONS_LEAD, "All 8 partitions have a leader.", False)
    ]


def test_data_nodes_are_named_and_none_at_all_is_a_warning() -> None:
    assert said(SETTLED, zone("AD", revision=2)) == [
        (
            EventReason.DATA_NODES_CHANGED,
            "There are 2 data nodes with revision 2: D joined; B, C left.",
            False,
        )
    ]
    assert said(zone("A"), zone("", revision=2)) == [
        (EventReason.NO_DATA_NODES, "There are no data nodes with revision 2: A left.", True)
    ]


def test_a_change_that_was_asked_for_too_often_is_announced_once_as_a_warning() -> None:
    def retried(message: str) -> Zone:
        told = Condition(
            type=ConditionType.PROGRESSING,
            status=True,
            reason=Reason.RETRY_THRESHOLD_PASSED,
            message=message,
        )
        return replace(zone(moving=1), conditions=(SETTLED.conditions[0], told))

    said_once = [(EventReason.RETRY_THRESHOLD_PASSED, "Asked for 11 times.", True)]
    assert said(zone(moving=1), retried("Asked for 11 times.")) == said_once
    assert said(retried("Asked for 11 times."), retried("Asked for 12 times.")) == []


def test_a_rebalance_has_a_begin_and_an_end_whatever_moves_between() -> None:
    assert said(SETTLED, zone(moving=3, revision=2)) == [
        (
            EventReason.REBALANCE_BEGUN,
            "3 of 8 partitions begin to move with revision 2.",
            False,
        )
    ]
    assert said(zone(moving=3), zone(moving=1)) == []
    assert said(zone(moving=1, revision=2), zone(revision=2)) == [
        (
            EventReason.REBALANCE_ENDED,
            "None of 8 partitions is moving any more, at revision 2.",
            False,
        )
    ]


def test_lost_leaders_are_a_warning_once_until_all_lead_again() -> None:
    assert said(SETTLED, LOST) == [
        (EventReason.PARTITIONS_WITHOUT_LEADER, "2 of 8 partitions have no leader: 1, 4.", True)
    ]
    assert said(LOST, replace(LOST, summary=PartitionSummary(total=8, available=1))) == []
    assert said(LOST, SETTLED)[0][0] is EventReason.ALL_PARTITIONS_LEAD


def test_lost_leaders_are_told_also_under_an_invalid_filter() -> None:
    lost = replace(BAD_FILTER, summary=PartitionSummary(total=8, available=5))
    assert said(BAD_FILTER, lost) == [
        (EventReason.PARTITIONS_WITHOUT_LEADER, "3 of 8 partitions have no leader.", True)
    ]


def test_each_invalid_filter_is_said_with_its_position() -> None:
    other = zone(ready=Reason.INVALID_FILTER, message="dataNodesFilter ')', position 1: no.")
    for before, after in ((SETTLED, BAD_FILTER), (BAD_FILTER, other)):
        assert said(before, after) == [
            (EventReason.INVALID_FILTER, after.conditions[0].message, True)
        ]
    assert said(BAD_FILTER, SETTLED) == []


def failing(**changes: Any) -> dict[str, ReplicaStatus]:
    leader = ReplicaStatus(
        group="g",
        zone="z",
        partition=3,
        incarnation="i",
        role=ReplicaRole.LEADER,
        term=2,
        leader="A",
        configuration=ConfigurationReport(peers=[PeerName("A", "i")], token=1, index=1),
        stage_token=5,
        reconfiguration_error="B has not answered for 10 s",
    )
    return {"A": msgspec.structs.replace(leader, **changes)}


def test_a_change_that_failed_is_told_with_its_leader_while_it_is_still_wanted() -> None:
    wanted = PartitionKeys(pending=AssignmentSet.of("A", "B"), configuration_token=5)
    partition = Partition(number=3, resource_version="1", keys=wanted)
    (failed,) = failed_changes({3: partition}, {3: observe("g", failing())})
    assert (failed.partition, failed.token) == (3, 5)
    (told,) = announce_failed([failed])
    assert told.message == (
        "The change of partition 3 with token 5 failed at its leader A: "
        "B has not answered for 10 s."
    )
    assert told.is_warning
    again = observe("g", failing(stage=Stage.CATCHING_UP, reconfiguration_error=None))
    assert failed_changes({3: partition}, {3: again}) == ()
    unwanted = replace(partition, keys=PartitionKeys())
    assert failed_changes({3: unwanted}, {3: observe("g", failing())}) == ()


def test_a_change_that_we_cancelled_did_not_fail() -> None:
    wanted = PartitionKeys(pending=AssignmentSet.of("A", "B"), configuration_token=5)
    partition = Partition(number=3, resource_version="1", keys=wanted)
    cancelled = failing(reconfiguration_status=ReconfigurationStatus.CANCELLED)
    assert failed_changes({3: partition}, {3: observe("g", cancelled)}) == ()


def test_lost_replicas_are_told_once_for_all_partitions_of_a_node() -> None:
    before = {
        n: Partition(number=n, resource_version="1", keys=PartitionKeys(switch_reduce=("B",)))
        for n in range(8)
    }
    after = {n: replace(p.keys, switch_reduce=("B", "C")) for n, p in before.items()}
    (said,) = announce_keys(before, after)
    assert said.reason is EventReason.REPLICAS_LOST
    assert said.message == (
        "C came back without its replicas of 8 partitions: 0, 1, 2, 3, 4 and 3 more. "
        "It leaves their groups before it comes back to them."
    )
    assert announce_keys(before, {n: p.keys for n, p in before.items()}) == ()


def test_data_that_is_lost_with_all_replicas_is_told() -> None:
    first = TokenPeers(token=1, peers=(PeerName("A", "i"),))
    keys = PartitionKeys(stable=AssignmentSet.of("A"), bootstrap=first, configuration_token=4)
    before = {3: Partition(number=3, resource_version="1", keys=keys)}
    (said,) = announce_keys(before, {3: begun_anew(keys, 5)})
    assert said.is_warning
    assert said.message == (
        "Every replica of 1 partitions came back with nothing: 3. "
        "Their data is lost, and their groups start over."
    )
    again = replace(before[3], keys=begun_anew(keys, 5))
    decided = replace(again.keys, bootstrap=msgspec.structs.replace(first, token=5))
    assert announce_keys({3: again}, {3: decided}) == ()


ONE = Announcement(reason=EventReason.REBALANCE_BEGUN, message="3 of 8 begin.", once="7")


def test_an_event_s_name_stands_for_its_transition() -> None:
    first = render_event(SETTLED, ONE, now_ms=1000)
    again = render_event(SETTLED, ONE, now_ms=9000)
    other = render_event(SETTLED, replace(ONE, once="8"), now_ms=1000)
    assert first["metadata"]["name"] == again["metadata"]["name"]
    assert first["metadata"]["name"] != other["metadata"]["name"]
    assert (first["type"], first["reason"]) == ("Normal", "RebalanceBegun")
    assert first["involvedObject"]["uid"] == SETTLED.uid


def names(before: Zone, after: Zone, since: str) -> list[tuple[EventReason, str]]:
    told = announce(before, after, {ConditionType.PROGRESSING: since})
    return [(a.reason, a.once) for a in told]


def test_a_repeated_transition_has_its_name_whatever_was_stored_meanwhile() -> None:
    """An operator that dies before it stores the transition is followed by one that announces it
    again, perhaps after other writes."""
    moving, ended = zone(moving=2), zone()
    later = replace(moving, resource_version="9")
    assert names(moving, ended, "T1") == names(later, replace(ended, resource_version="9"), "T1")
    assert names(moving, ended, "T1") != names(moving, ended, "T2")
    joined = zone("ABCD", revision=2)
    assert names(SETTLED, joined, "T1") == names(replace(SETTLED, resource_version="9"), joined, "")
    assert names(SETTLED, joined, "T1") != names(SETTLED, zone("ABCE", revision=2), "T1")


def test_reasons_are_camel_case_and_fixed() -> None:
    assert all(r.value.isalpha() and r.value[0].isupper() for r in EventReason)


class FakeKube:
    """Takes Events; the first ones fail as told, and while it hangs none is answered."""

    def __init__(self, *failures: Exception, hangs: bool = False) -> None:
        self.failures = list(failures)
        self.hangs = hangs
        self.taken: list[str] = []
        self.took = asyncio.Event()

    async def create_event(self, body: dict[str, Any]) -> None:
        if self.hangs:
            await asyncio.Event().wait()
        if self.failures:
            raise self.failures.pop(0)
        self.taken.append(body["message"])
        self.took.set()


async def test_events_that_are_there_or_cannot_be_posted_hold_up_nothing() -> None:
    kube = FakeKube(KubeConflict("POST", 409, "there"), KubeError("POST", 403, "forbidden"))
    poster = EventPoster(kube, wall_ms=lambda: 1000)  # type: ignore[arg-type]
    for number in range(3):
        poster.post_soon(SETTLED, replace(ONE, message=f"{number}"))
    task = asyncio.create_task(poster.run())
    await kube.took.wait()
    task.cancel()
    assert kube.taken == ["2"]


async def test_what_is_posted_is_there_before_the_write_that_follows() -> None:
    kube = FakeKube(KubeConflict("POST", 409, "there"))
    poster = EventPoster(kube, wall_ms=lambda: 1000)  # type: ignore[arg-type]
    await poster.post(SETTLED, [replace(ONE, message="1"), replace(ONE, message="2")])
    assert kube.taken == ["2"]
    assert poster._waiting.empty()


async def test_an_api_server_that_hangs_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_poster, "PATIENCE_S", 0.05)
    kube = FakeKube(hangs=True)
    poster = EventPoster(kube, wall_ms=lambda: 1000)  # type: ignore[arg-type]
    await poster.post(SETTLED, [replace(ONE, message="1"), replace(ONE, message="2")])
    assert poster._waiting.qsize() == 2
    monkeypatch.setattr(event_poster, "PATIENCE_S", 3600.0)
    await poster.post(SETTLED, [replace(ONE, message="3")])  # at once: others wait already
    assert poster._waiting.qsize() == 3


async def test_a_thousand_failed_changes_are_told_once_per_token_and_leader() -> None:
    """The queue was full of them, and whatever else happened then was never told."""
    poster = EventPoster(FakeKube(), wall_ms=lambda: 1000)  # type: ignore[arg-type]
    edges: dict[str, Any] = {"kube": None, "store": None, "fleet": None, "events": poster}
    reconciler = ZoneReconciler(
        "z",
        uid="u",
        **edges,
        resync_s=5.0,
        view_period_s=5.0,
        monotonic_s=lambda: 0.0,
        wall_ms=lambda: 1000,
    )
    for token in (5, 5, 5, 6, 6):
        failed = tuple(
            FailedChange(partition=n, token=token, leader="A", error="silent") for n in range(1024)
        )
        decided = ZonePlan(writes=[], orders=[], settled=False, health={}, failed=failed)
        reconciler._announce_failures(SETTLED, decided)
    assert poster._waiting.qsize() == 2


async def test_more_events_than_fit_are_dropped() -> None:
    poster = EventPoster(FakeKube(), wall_ms=lambda: 1000)  # type: ignore[arg-type]
    for number in range(WAITING_LIMIT + 5):
        poster.post_soon(SETTLED, replace(ONE, once=f"{number}"))
    assert poster._waiting.qsize() == WAITING_LIMIT

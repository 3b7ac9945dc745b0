"""Where a fault landed, from made-up streams of the data nodes' events."""

from __future__ import annotations

from collections.abc import Callable

from zonequake_chaos.record.clock import Moment
from zonequake_chaos.record.event_log import RunEvent
from zonequake_chaos.runner.landings import (
    Hit,
    Kill,
    Landing,
    Miss,
    judge,
    stopped_gracefully,
)
from zonequake_protocol.admin import Stage

Recorder = Callable[..., RunEvent]


def at(time_ns: int) -> Moment:
    return Moment(time_ns=time_ns, wall_ns=time_ns + 10**18, clock="boot")


def landing(
    *, victim: str, leader: bool, asked: tuple[Stage, ...] = (Stage.CATCHING_UP,)
) -> Landing:
    return Landing(
        fault="kill",
        place=("z", 1),
        victim=victim,
        was_leader=leader,
        asked=asked,
        injected=at(100),
        gone=at(200),
        progress_seen=0.4,
    )


def test_a_peer_that_dies_while_its_leader_catches_it_up_is_a_hit(store_event: Recorder) -> None:
    events = [
        store_event("rebalance.stage", 50, "n0", stage="CATCHING_UP", progress=0.0),
        store_event("rebalance.stage", 900, "n0", stage="NONE", reason="peer is silent"),
    ]
    hit = judge(landing(victim="n3", leader=False), events)
    assert hit == Hit(stage=Stage.CATCHING_UP, progress=0.4)


def test_a_stage_that_passed_before_the_peer_died_is_a_miss(store_event: Recorder) -> None:
    events = [
        store_event("rebalance.stage", 50, "n0", stage="CATCHING_UP"),
        store_event("rebalance.stage", 150, "n0", stage="JOINT"),
    ]
    miss = judge(landing(victim="n3", leader=False), events)
    assert isinstance(miss, Miss)
    assert "JOINT" in miss.reason


def test_a_stage_that_was_over_before_the_injection_is_a_miss(store_event: Recorder) -> None:
    events = [
        store_event("rebalance.stage", 50, "n0", stage="CATCHING_UP"),
        store_event("rebalance.stage", 60, "n0", stage="NONE"),
    ]
    assert isinstance(judge(landing(victim="n3", leader=False), events), Miss)


def test_waiting_for_the_grant_is_still_catching_up(store_event: Recorder) -> None:
    events = [store_event("rebalance.stage", 50, "n0", stage="CAUGHT_UP", progress=1.0)]
    hit = judge(landing(victim="n3", leader=False), events)
    assert hit == Hit(stage=Stage.CATCHING_UP, progress=1.0)


def test_a_leader_died_in_the_last_stage_that_it_recorded_itself(store_event: Recorder) -> None:
    both = (Stage.CATCHING_UP, Stage.JOINT)
    events = [
        store_event("leader.change", 10, "n0", leader="n0", term=3),
        store_event("rebalance.stage", 50, "n0", stage="CATCHING_UP"),
        store_event("rebalance.stage", 150, "n0", stage="JOINT"),
        store_event("rebalance.stage", 400, "n1", stage="NONE"),
        store_event("node.started", 500, "n0"),
        store_event("rebalance.stage", 600, "n0", stage="NONE"),
    ]
    assert judge(landing(victim="n0", leader=True, asked=both), events) == Hit(
        stage=Stage.JOINT, progress=0.4
    )
    only = judge(landing(victim="n0", leader=True), events)
    assert isinstance(only, Miss)
    assert "JOINT" in only.reason


def test_a_node_that_led_no_more_when_it_was_hit_is_a_miss(store_event: Recorder) -> None:
    events = [
        store_event("rebalance.stage", 50, "n0", stage="CATCHING_UP"),
        store_event("leader.change", 90, "n1", leader="n1", term=4),
    ]
    miss = judge(landing(victim="n0", leader=True), events)
    assert isinstance(miss, Miss)
    assert "n1 led z/1" in miss.reason


def test_without_any_recorded_stage_nothing_is_claimed(store_event: Recorder) -> None:
    assert isinstance(judge(landing(victim="n3", leader=False), []), Miss)
    later = [store_event("rebalance.stage", 300, "n0", stage="CATCHING_UP")]
    assert isinstance(judge(landing(victim="n3", leader=False), later), Miss)


def test_events_of_other_partitions_do_not_count(store_event: Recorder) -> None:
    other = RunEvent(
        kind="rebalance.stage",
        time=50,
        wall=50 + 10**18,
        clock="boot",
        source="store",
        zone="z",
        partition=2,
        node="n0",
        data={"stage": "CATCHING_UP"},
    )
    assert isinstance(judge(landing(victim="n3", leader=False), [other]), Miss)


def test_clocks_of_several_machines_are_compared_by_wall_time(store_event: Recorder) -> None:
    foreign = RunEvent(
        kind="rebalance.stage",
        time=999_999,
        wall=50 + 10**18,
        clock="another boot",
        source="store",
        zone="z",
        partition=1,
        node="n0",
        data={"stage": "CATCHING_UP"},
    )
    assert isinstance(judge(landing(victim="n3", leader=False), [foreign]), Hit)


def test_a_victim_that_stopped_gracefully_was_not_killed(store_event: Recorder) -> None:
    kill = Kill(fault="kill", victim="n0", injected=at(100))
    graceful = [
        store_event("node.stopping", 120, "n0"),
        store_event("rebalance.stage", 130, "n0", stage="NONE", reason="handed over"),
        store_event("node.started", 500, "n0"),
    ]
    miss = stopped_gracefully(kill, graceful)
    assert isinstance(miss, Miss)
    assert "SIGTERM" in miss.reason


def test_other_stops_say_nothing_about_a_kill(store_event: Recorder) -> None:
    kill = Kill(fault="kill", victim="n0", injected=at(100))
    others = [
        store_event("node.stopping", 90, "n0"),
        store_event("node.stopping", 120, "n1"),
        store_event("node.started", 500, "n0"),
        # The kubelet started a killed container again before its pod was deleted.
        store_event("node.stopping", 510, "n0"),
        store_event("node.started", 900, "n0"),
    ]
    assert stopped_gracefully(kill, others) is None


def seen(at_ns: int, stage: str) -> RunEvent:
    """A stage that the runner saw of a member that keeps no journal."""
    return RunEvent(
        kind="stage.seen",
        time=at_ns,
        wall=at_ns + 10**18,
        clock="boot",
        source="runner",
        zone="z",
        partition=1,
        node="n0",
        data={"stage": stage, "progress": {"n3": 0.5}},
    )


def test_of_members_without_a_journal_the_stages_that_were_seen_decide() -> None:
    peer, leader = landing(victim="n3", leader=False), landing(victim="n0", leader=True)
    for one in (peer, leader):
        hit = judge(one, [seen(50, "CATCHING_UP"), seen(900, "NONE")])
        assert hit == Hit(stage=Stage.CATCHING_UP, progress=0.4)
        over = judge(one, [seen(50, "CATCHING_UP"), seen(150, "NONE")])
        assert isinstance(over, Miss)
        assert isinstance(judge(one, [seen(900, "CATCHING_UP")]), Miss)


def test_a_journal_decides_where_there_is_one(store_event: Recorder) -> None:
    own = store_event("rebalance.stage", 50, "n0", stage="JOINT")
    miss = judge(landing(victim="n3", leader=False), [own, seen(60, "CATCHING_UP")])
    assert isinstance(miss, Miss)

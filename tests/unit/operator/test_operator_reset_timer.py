"""The timer of resets (`high-availability`, phase 1; design §3, hole 8), by its rules."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.made_up_nodes import left, topology
from zonequake_operator.high_availability import reset
from zonequake_operator.rebalance.orders import ReplicaSettings
from zonequake_operator.resources.model import ResetDue, ResetTimer, Topology

GROUP = "z.12345678.0"
DUE = ResetDue(revision=11, topology_version=7)
SETTINGS = ReplicaSettings(
    zone="z", partition=0, partitions=1, fsync=True, catch_up_bytes_per_second=0, addresses={}
)


def advance(
    timer: ResetTimer | None, now: Topology, at_ms: int, *, seen: int, timeout_s: int = 5
) -> tuple[ResetTimer | None, ResetDue | None]:
    return reset.advance(
        timer,
        None,
        timeout_s=timeout_s,
        seen_version=seen,
        topology=now,
        revision=10,
        now_ms=at_ms,
    )


def test_a_node_that_leaves_arms_the_timer_with_the_event_s_revision_and_version() -> None:
    timer, due = advance(None, topology("AB", 7, departed=left("C")), 1000, seen=6)
    assert timer == ResetTimer(nodes=frozenset("C"), armed_ms=1000, revision=10, topology_version=7)
    assert due is None
    assert reset.deadline_ms(timer, 5) == 6000


def test_a_node_that_joins_does_not_touch_the_timer() -> None:
    armed = ResetTimer(nodes=frozenset("C"), armed_ms=1000, revision=9, topology_version=7)
    now = topology("ABD", 8, departed=left("C"))
    assert advance(armed, now, 2000, seen=7) == (armed, None)


def test_a_topology_leap_arms_it_too() -> None:
    now = topology("ABE", 7, departed=left("C"))
    timer, _ = advance(None, now, 1000, seen=6)
    assert timer is not None
    assert timer.nodes == frozenset("C")


def test_a_later_loss_reschedules_the_timer_with_the_new_revision() -> None:
    armed = ResetTimer(nodes=frozenset("C"), armed_ms=1000, revision=9, topology_version=7)
    now = topology("A", 8, departed=left("C") | left("B", 8))
    timer, due = advance(armed, now, 4000, seen=7)
    assert timer == ResetTimer(
        nodes=frozenset("BC"), armed_ms=4000, revision=10, topology_version=8
    )
    assert due is None


def test_the_timer_fires_once_for_the_version_of_its_newest_event() -> None:
    armed = ResetTimer(nodes=frozenset("C"), armed_ms=1000, revision=9, topology_version=7)
    now = topology("AB", 7, departed=left("C"))
    assert advance(armed, now, 5999, seen=7) == (armed, None)
    assert advance(armed, now, 6000, seen=7) == (
        None,
        ResetDue(revision=10, topology_version=7),
    )


def test_a_timer_that_ran_out_unseen_fires_before_a_later_event_could_postpone_it() -> None:
    armed = ResetTimer(nodes=frozenset("C"), armed_ms=1000, revision=9, topology_version=7)
    now = topology("A", 8, departed=left("C") | left("B", 8))
    timer, due = advance(armed, now, 60_000, seen=7)
    assert due == ResetDue(revision=10, topology_version=7)
    assert timer is not None
    assert (timer.nodes, timer.armed_ms) == (frozenset("B"), 60_000)


def test_a_wall_clock_that_was_set_back_lets_the_reset_timer_wait_once_more_and_no_longer() -> None:
    armed = ResetTimer(nodes=frozenset("C"), armed_ms=60_000, revision=9, topology_version=7)
    now = topology("AB", 7, departed=left("C"))
    again, due = advance(armed, now, 1000, seen=7)
    assert (again, due) == (replace(armed, armed_ms=1000), None)
    assert advance(again, now, 5999, seen=7) == (again, None)
    assert advance(again, now, 6000, seen=7) == (None, ResetDue(revision=10, topology_version=7))


def test_a_time_out_of_zero_is_due_at_once() -> None:
    timer, due = advance(None, topology("A", 7, departed=left("BC")), 1000, seen=6, timeout_s=0)
    assert (timer, due) == (None, ResetDue(revision=10, topology_version=7))

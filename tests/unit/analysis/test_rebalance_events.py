"""Rebalances, early joints and fault landings, from events alone."""

import pytest
from msgspec import structs

from zonequake_analysis.inputs.run_folder import RecordedEvent
from zonequake_analysis.measures.rebalances import (
    STAGES,
    early_joints,
    fault_landings,
    rebalances,
)


def stage(name: str, at: int, *, token: int = 2, term: int = 1, **data: object) -> RecordedEvent:
    return RecordedEvent(
        kind="rebalance.stage",
        time=at,
        zone="z1",
        partition=0,
        data={"stage": name, "token": token, "term": term, "adding": ["n3"], **data},
    )


def test_a_rebalance_ends_with_the_none_that_follows_stable() -> None:
    events = [stage(s, i) for i, s in enumerate(("CATCHING_UP", "CAUGHT_UP", "JOINT", "STABLE"))]
    (found,) = rebalances([*events, stage("NONE", 9)])
    assert found.stage_ns == {"CATCHING_UP": 0, "CAUGHT_UP": 1, "JOINT": 2, "STABLE": 3}
    assert (found.ended_ns, found.ended_by) == (9, "applied")


def test_a_rebalance_that_fell_back_has_not_ended_until_a_newer_token_takes_over() -> None:
    events = [stage("CATCHING_UP", 1), stage("NONE", 2, reason="n3 is silent")]
    (found,) = rebalances(events)
    assert found.ended_ns is None
    assert found.fell_back == ["n3 is silent"]
    first, second = rebalances([*events, stage("CATCHING_UP", 3, token=5)])
    assert first.ended_by == "replaced by token 5"
    assert second.ended_ns is None


def pending_emptied(at: int, token: int) -> RecordedEvent:
    return RecordedEvent(
        kind="partition.changed",
        time=at,
        zone="z1",
        partition=0,
        data={"stable": ["n1"], "pending": [], "token": token},
    )


def leader_changed(at: int, term: int, *, lineage: int = 0) -> RecordedEvent:
    data: dict[str, object] = {"term": term, "lineage": lineage}
    return RecordedEvent(kind="leader.change", time=at, zone="z1", partition=0, data=data)


def test_a_leader_that_is_still_in_a_stage_has_not_ended_though_pending_is_empty() -> None:
    # As seen on a real cluster: the order was given and withdrawn at the same moment.
    events = [
        stage("CATCHING_UP", 1, token=4, term=3),
        stage("CAUGHT_UP", 2, token=4, term=3),
        leader_changed(3, term=3),
        pending_emptied(4, token=4),
    ]
    (found,) = rebalances(events)
    assert (found.ended_ns, found.ended_by) == (None, "")


def test_a_stage_ends_with_its_leader() -> None:
    events = [stage("CATCHING_UP", 1), leader_changed(2, term=2), pending_emptied(3, token=2)]
    (found,) = rebalances(events)
    assert found.ended_by == "pending empty"
    (fallen,) = rebalances([stage("CATCHING_UP", 1), leader_changed(2, term=2)])
    assert fallen.ended_ns is None


def test_a_stage_that_a_deposed_leader_still_reports_says_nothing_about_the_new_one() -> None:
    events = [
        stage("JOINT", 1, term=2),
        stage("STABLE", 2, term=2),
        stage("NONE", 3, term=2),
        stage("CATCHING_UP", 4, term=1),
    ]
    (found,) = rebalances(events)
    assert found.ended_by == "applied"


def pending(at: int, token: int, **data: object) -> RecordedEvent:
    asked = {"stable": ["n1", "n2"], "pending": ["n2", "n3"], "token": token, **data}
    return RecordedEvent(kind="partition.changed", time=at, zone="z1", partition=0, data=asked)


def test_a_pending_that_no_leader_took_up_has_not_ended() -> None:
    (found,) = rebalances([pending(1, 4)])
    assert (found.token, found.peers, found.adding) == (4, ("n2", "n3"), ("n3",))
    assert (found.stage_ns, found.attempts, found.ended_ns) == ({}, 0, None)
    applied = [stage(name, at, token=4) for at, name in enumerate((*STAGES, "NONE"), start=1)]
    first, second = rebalances([*applied, pending(9, 5)])
    assert (first.ended_by, second.token, second.ended_ns) == ("applied", 5, None)


def test_a_pending_that_was_taken_up_emptied_or_forced_is_no_other_rebalance() -> None:
    (taken_up,) = rebalances([pending(1, 4), stage("CATCHING_UP", 2, token=4)])
    assert taken_up.stage_ns == {"CATCHING_UP": 2}
    (later,) = rebalances([pending(1, 4), stage("CATCHING_UP", 2, token=5)])
    assert later.token == 5
    assert rebalances([pending(1, 4), pending_emptied(2, token=4)]) == []
    assert rebalances([pending(1, 4, forced=["pending"])]) == []


def test_a_later_lineage_goes_on_from_a_lower_term() -> None:
    """A reset's survivor was behind the majority, which had elected twice without it."""
    before = [stage("CATCHING_UP", 1, token=4, term=9, lineage=0)]
    reset = leader_changed(2, term=8, lineage=5)
    (found,) = rebalances([*before, reset, pending_emptied(3, token=5)])
    assert found.ended_by == "pending empty", "its leader's lineage is over"
    later = stage("CATCHING_UP", 3, token=6, term=8, lineage=5)
    first, second = rebalances([*before, reset, later, pending_emptied(4, token=6)])
    assert first.ended_by == "replaced by token 6"
    assert second.ended_ns is None, "the survivor still works on it"
    deposed = stage("NONE", 5, token=4, term=9, lineage=0, reason="it stepped down")
    assert rebalances([*before, reset, later, pending_emptied(4, token=6), deposed])[1] == second


def test_caught_up_counts_in_its_own_lineage_alone() -> None:
    caught_up = [stage("CATCHING_UP", 1, lineage=0), stage("CAUGHT_UP", 2, lineage=0)]
    again = [stage("CATCHING_UP", 3, lineage=5), stage("JOINT", 4, lineage=5)]
    assert len(early_joints([*caught_up, *again])) == 1


def test_joint_without_caught_up_is_too_early() -> None:
    (early,) = early_joints([stage("CATCHING_UP", 1), stage("JOINT", 2)])
    assert early.why == "JOINT without CAUGHT_UP since the last CATCHING_UP"


@pytest.mark.parametrize(
    "between",
    [
        [],
        [stage("NONE", 3, reason="n3 has not answered")],
        [stage("CATCHING_UP", 3, token=5), stage("CAUGHT_UP", 4, token=5)],
    ],
)
def test_each_catching_up_needs_a_caught_up_of_its_own(between: list[RecordedEvent]) -> None:
    first = [stage("CATCHING_UP", 1), stage("CAUGHT_UP", 2), *between]
    again = stage("CATCHING_UP", 5)
    (early,) = early_joints([*first, again, stage("JOINT", 7)])
    assert early.at_ns == 7
    assert early_joints([*first, again, stage("CAUGHT_UP", 6), stage("JOINT", 7)]) == []


@pytest.mark.parametrize("given_up", ["n3 has not answered", None])
def test_a_leader_that_is_done_with_one_change_joins_no_other_at_once(
    given_up: str | None,
) -> None:
    ended = stage("NONE", 3, reason=given_up) if given_up else stage("NONE", 3)
    done = [stage("CATCHING_UP", 1), stage("CAUGHT_UP", 2), ended]
    assert len(early_joints([*done, stage("JOINT", 4)])) == 1


def test_a_change_that_takes_anothers_place_needs_a_caught_up_of_its_own() -> None:
    older = [stage("CATCHING_UP", 1, token=4), stage("CAUGHT_UP", 2, token=4)]
    newer = stage("CATCHING_UP", 3, token=5)
    assert len(early_joints([*older, newer, stage("JOINT", 4, token=5)])) == 1
    late = [stage("CAUGHT_UP", 4, token=4), stage("JOINT", 5, token=5)]
    assert len(early_joints([*older, newer, *late])) == 1, "that one was of the older change"


def test_joint_with_a_peer_behind_is_too_early_even_after_caught_up() -> None:
    events = [stage("CAUGHT_UP", 1, progress={"n3": 1.0}), stage("JOINT", 2, progress={"n3": 0.4})]
    (early,) = early_joints(events)
    assert early.why == "JOINT while n3 at 40%"


def test_joint_that_a_new_leader_inherits_or_that_only_removes_is_legal() -> None:
    """A new leader names the peers of a joint configuration that it found in its log as added."""
    change = [stage("CATCHING_UP", 1), stage("CAUGHT_UP", 2), stage("JOINT", 3)]
    inherited = stage("JOINT", 5, term=2, progress=None)
    assert early_joints([*change, leader_changed(4, term=2), inherited]) == []
    assert early_joints([stage("JOINT", 2, term=4, adding=[])]) == []


def test_a_leader_that_comes_back_inherits_what_another_one_began() -> None:
    def of(node: str, event: RecordedEvent) -> RecordedEvent:
        return structs.replace(event, node=node)

    before = of("n1", stage("CATCHING_UP", 1, term=1))
    meanwhile = [
        of("n2", stage(name, at, term=2))
        for at, name in enumerate(("CATCHING_UP", "CAUGHT_UP", "JOINT"), start=2)
    ]
    back = of("n1", stage("JOINT", 5, term=3))
    assert early_joints([before, *meanwhile, back]) == []
    # What a leader recorded as it stepped down may bear the term of its successor.
    catching_up = of("n2", stage("CATCHING_UP", 4, term=3))
    given_up = of("n2", stage("NONE", 6, term=3, status="LEADER_STEPPED_DOWN"))
    assert early_joints([before, *meanwhile, catching_up, back, given_up]) == []
    itself = of("n1", stage("NONE", 4, term=3, status="LEADER_STEPPED_DOWN"))
    assert early_joints([before, *meanwhile, itself, back]) == []


def test_joint_after_caught_up_is_legal() -> None:
    events = [stage("CAUGHT_UP", 1, progress={"n3": 1.0}), stage("JOINT", 2, progress={"n3": 1.0})]
    assert early_joints(events) == []


def test_a_fault_that_missed_its_stage_is_no_hit() -> None:
    def fault(kind: str, **data: object) -> RecordedEvent:
        return RecordedEvent(kind=kind, time=1, data={"fault": "kill", "type": "pod_kill", **data})

    hit = [fault("fault.start"), fault("fault.effective")]
    (landed,) = fault_landings(
        [*hit, fault("fault.hit", asked=["CATCHING_UP"], stage="CATCHING_UP", progress=0.41)]
    )
    assert landed.hit
    assert (landed.asked, landed.landed, landed.progress) == ("CATCHING_UP", "CATCHING_UP", 0.41)
    (missed,) = fault_landings([*hit, fault("fault.missed", reason="the stage had passed")])
    assert not missed.hit

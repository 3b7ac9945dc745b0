"""Resets (`high-availability`, phase 1; design §3, holes 6, 7, 8 and 11), by their rules."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from tests.unit.made_up_nodes import left, topology
from zonequake_operator.groups.reports import observe
from zonequake_operator.high_availability.decisions import KeysDecision, asked_for, is_due, judge
from zonequake_operator.high_availability.reset import ReplicaHolders, UndecidedReset
from zonequake_operator.rebalance.key_changes import WantedKeys, decide
from zonequake_operator.rebalance.orders import ReplicaSettings, orders
from zonequake_operator.resources.model import (
    AssignmentSet,
    AssignmentsLink,
    Departure,
    Partition,
    PartitionKeys,
    ResetDue,
    ResetRequest,
    TokenPeers,
    Topology,
)
from zonequake_operator.resources.stored_shapes import (
    RESET_ANNOTATION,
    render_reset_requests,
    reset_requests,
)
from zonequake_protocol.admin import (
    ConfigurationReport,
    Order,
    PeerName,
    ReplicaRole,
    ReplicaStatus,
    ResetPeers,
    StartReplica,
    StopReplica,
)

GROUP = "z.12345678.0"
DUE = ResetDue(revision=11, topology_version=7)
SETTINGS = ReplicaSettings(
    zone="z", partition=0, partitions=1, fsync=True, catch_up_bytes_per_second=0, addresses={}
)


def of(nodes: str, **flags: bool) -> AssignmentSet:
    return AssignmentSet(nodes=tuple(nodes), **flags)


def peers(nodes: str) -> list[PeerName]:
    return [PeerName(node, "1") for node in nodes]


def keys(stable: str, pending: AssignmentSet | None = None, **more: object) -> PartitionKeys:
    made = PartitionKeys(
        stable=of(stable),
        pending=pending,
        configuration_token=5,
        bootstrap=TokenPeers(token=1, peers=tuple(peers(stable))),
        chain=(AssignmentsLink(nodes=tuple(stable), term=1, index=1),),
        change_trigger_revision=3,
    )
    return replace(made, **more)  # type: ignore[arg-type]


def replica(members: str, log: tuple[int, int] = (1, 10), **more: object) -> ReplicaStatus:
    made = ReplicaStatus(
        group=GROUP,
        zone="z",
        partition=0,
        incarnation="1",
        role=ReplicaRole.FOLLOWER,
        term=2,
        token=1,
        had_leader=True,
        configuration=ConfigurationReport(peers=peers(members), token=1, index=1),
        last_term=log[0],
        last_index=log[1],
    )
    return msgspec.structs.replace(made, **more)


def holders(
    present: Topology, replicas: dict[str, ReplicaStatus], answered: str | None = None
) -> ReplicaHolders:
    heard = frozenset(present.nodes if answered is None else answered)
    return ReplicaHolders(
        group=observe(GROUP, replicas, heard), topology=present, answered=heard, inspected={}
    )


def decision(
    before: PartitionKeys, now: ReplicaHolders, due: ResetDue | None = DUE
) -> KeysDecision:
    return judge(before, now, due=due, revision=12)


ALONE = holders(topology("A", departed=left("BC")), {"A": replica("ABC")})
"""B and C left at version 7, A holds the partition alone."""


def told(after: PartitionKeys, now: ReplicaHolders) -> list[tuple[str, Order]]:
    return orders(
        after,
        now.group,
        SETTINGS,
        alive=frozenset(now.topology.nodes),
        reachable=now.answered,
    )


# -------------------------------------------------------------------------------- checkMajority


def test_a_partition_that_lost_its_majority_is_reset_in_two_phases() -> None:
    before = keys("ABCDE")
    present = topology("AB", departed=left("CDE"))
    now = holders(present, {"A": replica("ABCDE", (1, 9)), "B": replica("ABCDE", (1, 12))})
    after = decision(before, now).keys
    assert after.pending == of("B", force=True)
    assert after.planned == of("AB", from_reset=True)
    assert after.stable == before.stable
    assert after.configuration_token == 6
    assert (after.reset_revision, after.change_trigger_revision) == (12, 12)


def test_the_chosen_alone_leaves_no_planned() -> None:
    after = decision(keys("ABC", planned=of("ABD")), ALONE).keys
    assert (after.pending, after.planned) == (of("A", force=True), None)


def test_a_majority_is_half_of_the_members_rounded_down_and_one() -> None:
    two_of_three = holders(
        topology("AB", departed=left("C")), {"A": replica("ABC"), "B": replica("ABC")}
    )
    assert decision(keys("ABC"), two_of_three).keys == keys("ABC")
    two_of_four = holders(
        topology("AB", departed=left("CD")), {"A": replica("ABCD"), "B": replica("ABCD")}
    )
    assert decision(keys("ABCD"), two_of_four).keys.pending == of("A", force=True)


def test_nothing_is_reset_before_the_timer_has_fired() -> None:
    assert decision(keys("ABC"), ALONE, due=None).keys == keys("ABC")


def test_one_loss_is_reset_once() -> None:
    done = keys("ABC", reset_revision=11)
    assert decision(done, ALONE).keys == done
    assert decision(keys("ABC", reset_revision=10), ALONE).keys.pending == of("A", force=True)


def test_the_trigger_revision_does_not_decide_about_a_reset() -> None:
    assert decision(keys("ABC", change_trigger_revision=99), ALONE).keys.pending is not None


def test_a_majority_that_is_back_needs_no_reset() -> None:
    now = holders(topology("AB", departed=left("BC")), {"A": replica("ABC"), "B": replica("ABC")})
    assert decision(keys("ABC"), now).keys == keys("ABC")


def test_a_majority_that_was_back_in_between_waits_for_the_next_loss_s_own_timer() -> None:
    # B left at 7, came back at 8 and left at 9: the timer that fired was armed at 7.
    departed = left("C") | {"B": Departure(since=8, left=9)}
    now = holders(topology("A", 9, departed=departed), {"A": replica("ABC")})
    assert decision(keys("ABC"), now).keys == keys("ABC")
    later = ResetDue(revision=14, topology_version=9)
    assert decision(keys("ABC"), now, later).keys.pending == of("A", force=True)


def test_a_majority_that_was_there_at_the_event_s_version_needs_no_reset_of_that_event() -> None:
    # C left at 7 and armed the timer; B left only at 8.
    departed = left("C") | left("B", 8)
    now = holders(topology("A", 8, departed=departed), {"A": replica("ABC")})
    assert decision(keys("ABC"), now).keys == keys("ABC")


def test_pending_needs_its_majority_too_once_it_is_locked() -> None:
    locked = keys(
        "ABC",
        of("ADE"),
        pending_lock=TokenPeers(token=5, peers=tuple(peers("ADE"))),
    )
    present = topology("ABC", departed=left("DE"))
    now = holders(present, {node: replica("ABC") for node in "ABC"})
    assert decision(locked, now).keys.pending == of("A", force=True)
    open_ = replace(locked, pending_lock=None)
    assert decision(open_, now).keys == open_


def test_a_member_that_lost_its_replica_s_state_does_not_count() -> None:
    present = topology("AB", departed=left("C"))
    wiped = holders(present, {"A": replica("ABC")})  # B answers, and has nothing
    assert decision(keys("ABC"), wiped).keys.pending == of("A", force=True)
    again = {"A": replica("ABC"), "B": replica("ABC", incarnation="2", configuration=None)}
    assert decision(keys("ABC"), holders(present, again)).keys.pending == of("A", force=True)
    broken = {"A": replica("ABC"), "B": replica("ABC", role=ReplicaRole.BROKEN)}
    assert decision(keys("ABC"), holders(present, broken)).keys.pending == of("A", force=True)


def test_a_member_that_is_silent_counts_until_it_has_left() -> None:
    silent = holders(topology("AB", departed=left("C")), {"A": replica("ABC")}, answered="A")
    assert decision(keys("ABC"), silent).keys == keys("ABC")


def test_a_leader_whose_read_index_works_forbids_a_reset() -> None:
    # Its configuration is locked pending, which the keys don't show as stable yet.
    before = keys("ABC", of("A"), pending_lock=TokenPeers(token=5, peers=tuple(peers("A"))))
    leads = replica("A", role=ReplicaRole.LEADER, commit=10)
    now = holders(topology("A", departed=left("BC")), {"A": leads})
    assert decision(before, now).keys == before
    deposed = replica(
        "ABC", role=ReplicaRole.LEADER
    )  # has no followers any more, and doesn't know it yet
    now = holders(topology("A", departed=left("BC")), {"A": deposed})
    assert decision(keys("ABC"), now).keys.pending == of("A", force=True)


# ------------------------------------------------------------------------------- resetPartition


@pytest.mark.parametrize(
    ("a", "b", "chosen"),
    [
        ((1, 10), (1, 11), "B"),
        ((2, 1), (1, 11), "A"),
        ((1, 10), (1, 10), "A"),
        ((5_000_000_001, 3), (4, 100), "A"),
    ],
)
def test_the_newest_term_and_index_win_and_names_decide_ties(
    a: tuple[int, int], b: tuple[int, int], chosen: str
) -> None:
    present = topology("AB", departed=left("CDE"))
    now = holders(present, {"A": replica("ABCDE", a), "B": replica("ABCDE", b)})
    assert decision(keys("ABCDE"), now).keys.pending == of(chosen, force=True)


def test_a_holder_that_is_only_in_pending_is_a_candidate() -> None:
    present = topology("AD", departed=left("BC"))
    now = holders(present, {"A": replica("ABC", (1, 9)), "D": replica("ABC", (1, 10))})
    after = decision(keys("ABC", of("ABD")), now).keys
    assert after.pending == of("D", force=True)
    assert after.planned == of("AD", from_reset=True)


def test_a_node_without_the_partition_is_no_candidate() -> None:
    present = topology("AX", departed=left("BC"))
    now = holders(present, {"A": replica("ABC", (1, 9))})
    assert decision(keys("ABC"), now).keys.planned is None


def test_a_holder_from_before_the_last_reset_is_shut_out() -> None:
    # [A,B,C] was reset to [A]; B and C are to come back; A leaves before they have its data.
    chain = (
        AssignmentsLink(nodes=tuple("ABC"), term=1, index=1),
        AssignmentsLink(nodes=("A",), term=5_000_000_001, index=11, token=5),
    )
    back = keys("A", of("ABC", from_reset=True), chain=chain)
    present = topology("BC", departed=left("A"))
    now = holders(present, {"B": replica("ABC"), "C": replica("ABC")})
    found = decision(back, now)
    assert found.keys == back
    assert found.awaits == UndecidedReset(unheard=())
    fresh = ConfigurationReport(peers=peers("A"), token=5, lineage=5, index=11)
    told_c = {"B": replica("ABC"), "C": replica("ABC", configuration=fresh)}
    after = decision(back, holders(present, told_c)).keys
    assert (after.pending, after.planned) == (of("C", force=True), None)


def test_hole_7_without_an_alive_node_the_reset_is_void() -> None:
    nobody = holders(topology("X", departed=left("ABC")), {})
    stopped = decision(keys("ABC"), nobody).keys
    assert stopped == keys("ABC", stopped_token=5)
    # Also for a node that only was away, whose process lives, and that is back at version 9.
    back = holders(topology("C", 9, since=9, departed=left("ABC")), {"C": replica("ABC")})
    assert decision(stopped, back).keys == stopped
    assert decision(keys("ABC"), back).keys.pending == of("C", force=True), "if not stopped it is"


def test_a_member_that_answers_no_more_is_waited_for_until_it_has_left() -> None:
    present = topology("AB", departed=left("CDE"))
    silent = holders(present, {"A": replica("ABCDE")}, answered="A")
    found = decision(keys("ABCDE"), silent)
    assert found.keys == keys("ABCDE")
    assert found.awaits == UndecidedReset(unheard=("B",))


def test_a_running_reset_is_left_alone_while_its_node_is_alive() -> None:
    running = keys("ABC", of("A", force=True))
    assert decision(running, ALONE).keys == running


def test_a_reset_whose_node_has_left_starts_from_the_old_holders_again() -> None:
    running = keys("ABC", of("A", force=True), configuration_token=6, reset_revision=10)
    now = holders(topology("C", 8, departed=left("AB")), {"C": replica("ABC", token=6)})
    after = decision(running, now).keys
    assert after.pending == of("C", force=True)
    assert after.configuration_token == 7, "a new token shuts the first survivor out"


def test_a_reset_overwrites_a_running_change_and_its_switch_keys() -> None:
    moving = keys("ABC", of("ABD"), planned=of("BCD"), switch_reduce=("B",), switch_append=("D",))
    after = decision(moving, ALONE).keys
    assert (after.planned, after.switch_reduce, after.switch_append) == (None, (), ())


def test_a_reset_takes_the_lock_of_a_running_change_away() -> None:
    """Or the peers of that change would be counted on though no leader commits it any more."""
    lock = TokenPeers(token=5, peers=tuple(peers("ABD")))
    after = decision(keys("ABC", of("ABD"), pending_lock=lock), ALONE).keys
    assert (after.pending, after.pending_lock) == (of("A", force=True), None)


def test_a_partition_that_was_never_bootstrapped_has_nothing_to_reset() -> None:
    fresh = keys("ABC", bootstrap=None)
    assert decision(fresh, ALONE).keys == fresh


# --------------------------------------------------------------------------- what nodes are told

RESETTING = keys("ABCDE", of("A", force=True), planned=of("AB", from_reset=True))
TWO_LEFT = topology("AB", departed=left("CDE"))


def test_the_survivor_is_reset_only_after_the_others_know_it() -> None:
    now = holders(TWO_LEFT, {"A": replica("ABCDE"), "B": replica("ABCDE")})
    first = told(RESETTING, now)
    assert [(node, type(order)) for node, order in first] == [("B", StartReplica)]
    start = first[0][1]
    assert isinstance(start, StartReplica)
    assert start.enforced_token == 5
    now = holders(TWO_LEFT, {"A": replica("ABCDE"), "B": replica("ABCDE", enforced_lineage=5)})
    assert told(RESETTING, now) == [
        ("A", ResetPeers(group=GROUP, term=2, token=5, peers=peers("A")))
    ]


def test_a_member_that_may_still_run_unheard_holds_the_reset_back() -> None:
    now = holders(TWO_LEFT, {"A": replica("ABCDE")}, answered="A")
    assert told(RESETTING, now) == []


def test_old_members_stay_down_under_a_forced_pending() -> None:
    waits = replica("ABCDE", role=ReplicaRole.WAITING, configuration=None, term=0)
    now = holders(TWO_LEFT, {"A": waits, "B": waits})
    assert [node for node, order in told(RESETTING, now)] == ["A"]


def test_the_reset_is_repeated_until_the_survivor_reports_that_it_leads_by_it() -> None:
    heard = replica("ABCDE", enforced_lineage=5)
    begun = replica("ABCDE", role=ReplicaRole.CANDIDATE, term=5_000_000_003, enforced_lineage=5)
    now = holders(TWO_LEFT, {"A": begun, "B": heard})
    assert [type(order) for _, order in told(RESETTING, now)] == [ResetPeers]
    alone = ConfigurationReport(peers=peers("A"), token=5, lineage=5, index=11)
    leads = replica(
        "A",
        role=ReplicaRole.LEADER,
        term=5_000_000_003,
        configuration=alone,
        commit=11,
        enforced_lineage=5,
    )
    now = holders(TWO_LEFT, {"A": leads, "B": heard})
    assert not [order for _, order in told(RESETTING, now) if isinstance(order, ResetPeers)]


@pytest.mark.parametrize(
    ("leads_by", "commit", "ends"),
    [
        (ConfigurationReport(peers=peers("A"), token=5, index=11), 11, True),
        (ConfigurationReport(peers=peers("A"), token=6, index=11), 12, True),
        (ConfigurationReport(peers=peers("A"), token=5, index=11), 10, False),
        (ConfigurationReport(peers=peers("A"), token=4, index=11), 11, False),
        (
            ConfigurationReport(peers=peers("A"), old_peers=peers("AB"), token=5, index=11),
            11,
            False,
        ),
        (ConfigurationReport(peers=peers("AB"), token=5, index=11), 11, False),
    ],
    ids=["this reset", "a later token", "uncommitted", "an older one", "joint", "not alone"],
)
def test_a_forced_pending_ends_with_the_survivor_that_leads_alone_by_this_reset_and_committed(
    leads_by: ConfigurationReport, commit: int, ends: bool
) -> None:
    leads = replica("A", role=ReplicaRole.LEADER, configuration=leads_by, commit=commit)
    now = holders(TWO_LEFT, {"A": leads, "B": replica("ABCDE", enforced_lineage=5)})
    wish = WantedKeys(calculated=of("AB"), revision=3, due=False)
    after = decide(RESETTING, now.group, wish, frozenset("AB"))
    assert after.is_forced is not ends
    assert after.stable == (of("A") if ends else of("ABCDE"))
    asked = [order for _, order in told(RESETTING, now) if isinstance(order, ResetPeers)]
    assert bool(asked) is not ends, "until then it is asked for"


def test_no_replica_is_erased_before_the_reset_group_leads() -> None:
    # A leader of the old majority that is still confirmed erases nobody.
    members = {n: replica("AB", leader="B", enforced_lineage=5) for n in "AX"}
    members["B"] = replica("AB", role=ReplicaRole.LEADER, leader="B", commit=9, enforced_lineage=5)
    now = holders(topology("ABX"), members)
    assert not [o for _, o in told(RESETTING, now) if isinstance(o, StopReplica)]


def test_a_node_that_runs_without_knowing_the_last_reset_is_told() -> None:
    chain = (AssignmentsLink(nodes=("A",), term=5_000_000_001, index=11, token=5),)
    leads = replica("A", role=ReplicaRole.LEADER, commit=10, enforced_lineage=5)
    now = holders(topology("AB"), {"A": leads, "B": replica("ABC")})
    starts = [
        (node, order.enforced_token)
        for node, order in told(keys("A", chain=chain), now)
        if isinstance(order, StartReplica)
    ]
    assert starts == [("B", 5)]


# ----------------------------------------------------------------------------------------- by hand


def by_hand(before: PartitionKeys, now: ReplicaHolders, asked_at: int = 8) -> KeysDecision:
    request = ResetRequest(token=before.configuration_token, topology_version=asked_at)
    return judge(before, now, due=None, revision=12, automatic=False, by_hand=request)


def test_a_strongly_consistent_partition_is_never_reset_automatically() -> None:
    found = judge(keys("ABC", chain=()), ALONE, due=DUE, revision=12, automatic=False)
    assert found.keys == keys("ABC", chain=())


def test_a_reset_by_hand_needs_no_timer() -> None:
    assert by_hand(keys("ABC", chain=()), ALONE).keys.pending == of("A", force=True)


def test_a_reset_by_hand_is_refused_while_a_majority_may_be_alive() -> None:
    silent = holders(topology("AB", departed=left("C")), {"A": replica("ABC")}, answered="A")
    assert by_hand(keys("ABC"), silent).keys == keys("ABC")
    both = {"A": replica("ABC"), "B": replica("ABC")}
    present = holders(topology("AB", departed=left("C")), both)
    assert by_hand(keys("ABC"), present).keys == keys("ABC")


def test_a_reset_by_hand_gives_up_older_links_of_the_chain() -> None:
    chain = (
        AssignmentsLink(nodes=tuple("ABC"), term=1, index=1),
        AssignmentsLink(nodes=tuple("BC"), term=5_000_000_001, index=11, token=1),
    )
    stopped = {"B": replica("BC", role=ReplicaRole.WAITING, configuration=None, had_leader=False)}
    waits = replace(
        holders(topology("B", departed=left("AC")), stopped), inspected={"B": replica("BC")}
    )
    before = keys("BC", chain=chain)
    assert decision(before, waits).withheld, "else C is waited for"
    assert by_hand(before, waits).keys.pending == of("B", force=True)


def test_a_request_for_other_keys_is_another_loss_s() -> None:
    partition = Partition(number=3, resource_version="1", keys=keys("ABC"))
    request = ResetRequest(token=5, topology_version=8)
    assert asked_for(partition, {3: request}) == request
    assert asked_for(partition, {3: replace(request, token=4)}) is None
    assert asked_for(partition, {2: request}) is None


def test_a_request_ends_when_the_majority_that_was_missing_comes_back() -> None:
    """Keys don't change while nodes come and go: without the version, the request of an earlier
    loss, which had waited in the zone, would give up the next one at once."""
    there = {"A": replica("ABC"), "B": replica("ABC"), "C": replica("ABC")}
    request = by_hand(keys("ABC", chain=()), holders(topology("ABC", version=10), there))
    assert request.keys == keys("ABC", chain=())
    again = holders(
        topology("A", version=12, departed=left("B", 11) | left("C", 12)), {"A": replica("ABC")}
    )
    assert by_hand(keys("ABC", chain=()), again, asked_at=8).keys == keys("ABC", chain=())
    assert by_hand(keys("ABC", chain=()), again, asked_at=12).keys.pending == of("A", force=True)


def test_two_requests_in_a_row_are_two_resets_also_at_the_same_revision_of_the_zone() -> None:
    first = by_hand(keys("ABC", chain=()), ALONE).keys
    partition = Partition(number=0, resource_version="2", keys=first)
    asked = ResetRequest(token=5, topology_version=8)
    assert asked_for(partition, {0: asked}) is None, "it is carried out, and not once more"
    gone = holders(
        topology("B", version=9, departed=left("C") | left("A", 9)), {"B": replica("ABC")}
    )
    second = by_hand(first, gone, asked_at=9).keys
    assert second.pending == of("B", force=True)
    assert second.configuration_token > first.configuration_token
    assert second.reset_revision == first.reset_revision == 12


@pytest.mark.parametrize("fires_at", [12, 13])
def test_a_timer_that_fires_behind_a_reset_by_hand_resets_nothing_for_the_same_loss(
    fires_at: int,
) -> None:
    """The request raises no revision of the zone, so that the timer's is a higher one: what tells
    the two losses apart is who was there at the timer's version."""
    reset_by_hand = by_hand(keys("ABC", chain=()), ALONE).keys
    due = ResetDue(revision=fires_at, topology_version=8)
    assert not is_due(reset_by_hand, ALONE, due)
    alone = keys("A", reset_revision=reset_by_hand.reset_revision)
    assert not is_due(alone, ALONE, due)
    gone = holders(
        topology("B", version=9, departed=left("C") | left("A", 9)), {"B": replica("ABC")}
    )
    assert not is_due(reset_by_hand, gone, due), "that loss has a timer of its own"
    assert is_due(reset_by_hand, gone, ResetDue(revision=14, topology_version=9))


def test_requests_are_read_as_they_are_written_and_what_cannot_be_read_asks_for_nothing() -> None:
    asked = {
        0: ResetRequest(token=5, topology_version=8),
        12: ResetRequest(token=7, topology_version=9),
    }
    assert reset_requests({RESET_ANNOTATION: render_reset_requests(asked)}, "u") == asked
    assert reset_requests({RESET_ANNOTATION: '{"0": [5, 8], "12": [7, 9]}'}, "u") == asked
    assert reset_requests({RESET_ANNOTATION: '{"0": 5}'}, "u") == {}
    assert reset_requests({RESET_ANNOTATION: "all of them"}, "u") == {}
    assert reset_requests(None, "u") == {}

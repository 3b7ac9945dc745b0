"""Who leads a group, and what its reports say of the change that runs (`rebalance`, part 2)."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from tests.unit.operator.small_group import (
    EVERYONE,
    GROUP,
    SETTINGS,
    C,
    group,
    keys,
    of,
    peer,
    peers,
    replica,
    shown,
    wish,
)
from zonequake_operator.groups.evidence import is_applied, named_peers
from zonequake_operator.groups.reports import Group, observe
from zonequake_operator.rebalance.key_changes import decide
from zonequake_operator.rebalance.orders import hosts, orders
from zonequake_operator.resources.model import TokenPeers
from zonequake_protocol.admin import (
    ChangePeers,
    ConfigurationReport,
    Grant,
    Order,
    ReconfigurationStatus,
    ReplicaRole,
    Stage,
    StopReplica,
)

ABC = ConfigurationReport(peers=peers("ABC"), token=4, index=9)


def told(before: object, found: Group) -> list[tuple[str, Order]]:
    return orders(before, found, SETTINGS, alive=EVERYONE, reachable=EVERYONE)  # type: ignore[arg-type]


def stopped(before: object, found: Group) -> list[str]:
    return [node for node, order in told(before, found) if isinstance(order, StopReplica)]


# ------------------------------------------------------------------------ changePeers(term, peers)


def test_of_two_leaders_the_one_with_the_newer_term_leads() -> None:
    for old, new in (("A", "B"), ("B", "A")):
        replicas = {
            old: replica(old, role=ReplicaRole.LEADER, term=3, leader=old, configuration=ABC),
            new: replica(new, role=ReplicaRole.LEADER, term=4, leader=new, configuration=ABC),
            "C": replica("C", term=4, leader=new, configuration=ABC),
        }
        found = observe(GROUP, replicas, EVERYONE)
        assert (found.leader, found.confirmed) == (new, True)


def test_a_leader_of_whose_members_one_is_in_a_newer_term_does_not_lead() -> None:
    members = {n: replica(n, configuration=ABC) for n in "BC"}
    leads = replica("A", role=ReplicaRole.LEADER, configuration=ABC)
    assert observe(GROUP, {"A": leads, **members}, EVERYONE).leader == "A"
    newer = msgspec.structs.replace(members["C"], term=4, leader=None)
    assert observe(GROUP, {"A": leads, **members, "C": newer}, EVERYONE).leader is None


def test_a_member_that_followed_the_leader_in_an_older_term_does_not_confirm_it() -> None:
    members = {n: replica(n, configuration=ABC) for n in "BC"}
    leads = replica("A", role=ReplicaRole.LEADER, term=4, configuration=ABC)
    found = observe(GROUP, {"A": leads, **members}, EVERYONE)
    assert (found.leader, found.confirmed) == ("A", False)
    follows = msgspec.structs.replace(members["B"], term=4)
    assert observe(GROUP, {"A": leads, **members, "B": follows}, EVERYONE).confirmed


def test_the_leader_alone_is_asked_in_its_term_for_all_peers_as_they_now_are() -> None:
    change = ChangePeers(group=GROUP, term=3, token=5, peers=peers("ABD"), addresses={})
    assert told(keys("ABC", "ABD"), group("ABC", also="D")) == [("A", change)]
    again = msgspec.structs.replace(change, peers=[peer("A"), peer("B"), peer("D", 2)])
    assert told(keys("ABC", "ABD"), group("ABC", reborn="D")) == [("A", again)]


# ------------------------------------------------------------------------------- names of the peers


def test_a_newcomer_that_lost_its_storage_is_named_anew_and_a_lost_member_as_it_is_counted() -> (
    None
):
    catching_up = group(
        "ABC", reborn="D", stage=Stage.CATCHING_UP, stage_token=5, stage_peers=peers("ABD")
    )
    again = (peer("A"), peer("B"), peer("D", 2))
    assert named_peers(keys("ABC", "ABD"), catching_up) == again
    after = decide(keys("ABC", "ABD"), catching_up, wish("ABD"), EVERYONE)
    assert after.configuration_token == 6, "the leader must ask for other peers"
    lost = group("ABC", reborn="C", also="D")
    before = keys("ABC", "ABCD", reduce="C")
    assert named_peers(before, lost) == tuple(peers("ABCD"))


@pytest.mark.parametrize("peers_of_leader", ["ABE", "AB", "ABCD"])
def test_another_applied_set_than_pending_is_no_stable_switch(peers_of_leader: str) -> None:
    found = group(peers_of_leader, also="D", token=5)
    assert decide(keys("ABC", "ABD"), found, wish("ABD"), EVERYONE).stable == of("ABC")


def test_pending_is_switched_to_once_it_is_committed_alone_and_by_its_present_replicas() -> None:
    before = keys("ABC", "ABD")
    assert decide(before, group("ABD", token=5), wish("ABD"), EVERYONE).stable == of("ABD")
    for found in (
        group("ABD", old="ABC", token=5, stage=Stage.JOINT),
        uncommitted(group("ABD", token=5)),
        group("ABD", stage=Stage.CATCHING_UP, stage_token=4, stage_peers=peers("ABE")),
    ):
        assert decide(before, found, wish("ABD"), EVERYONE).stable == of("ABC")
    reborn, pending = group("ABD", token=5, reborn="D"), of("ABD")
    assert reborn.leading is not None
    assert pending is not None
    assert not is_applied(pending, reborn.leading, reborn)
    assert is_applied(pending, reborn.leading, reborn, ("D",)), "switchReduce: it leaves next"


def uncommitted(found: Group) -> Group:
    assert found.leading is not None
    behind = msgspec.structs.replace(found.leading, commit=8)
    return observe(GROUP, {**found.replicas, "A": behind}, EVERYONE)


# ---------------------------------------------------------------------- the end of a lock, a cancel


def test_an_emptied_lock_shuts_its_grant_out_and_needs_a_confirmed_leader() -> None:
    before = keys("ABC", "ABD", lock=True)
    after = decide(before, group("ABC", also="D"), wish("ABD"), EVERYONE)
    assert after.pending_lock is None
    assert after.configuration_token == 6, "a grant under the old token may be under way"
    alone = group("ABC", also="D", absent="BC", answered=frozenset("AD"))
    assert (alone.leader, alone.confirmed) == ("A", False)
    assert decide(before, alone, wish("ABD"), EVERYONE) == before


def test_a_lock_stays_though_one_of_its_peers_lost_its_storage_for_the_grant_may_have_come() -> (
    None
):
    """What the leader reported may be from before the grant: it may be JOINT meanwhile."""
    lock = TokenPeers(token=5, peers=tuple(peers("ABD")))
    before = replace(keys("ABC", "ABD"), pending_lock=lock)
    reported = group(
        "ABC",
        reborn="D",
        stage=Stage.CATCHING_UP,
        stage_token=5,
        stage_peers=peers("ABD"),
        caught_up=True,
    )
    assert decide(before, reported, wish("ABD"), EVERYONE) == before
    grant = Grant(group=GROUP, term=3, token=5, peers=peers("ABD"))
    assert ("A", grant) in told(before, reported)


def test_a_cancellation_of_an_older_change_says_nothing_about_this_one() -> None:
    cancelled = ReconfigurationStatus.CANCELLED
    before = keys("ABC", "ABD", "ABE")
    answered = group("ABC", also="D", reconfiguration_status=cancelled)
    assert decide(before, answered, wish("ABE", mode=C), EVERYONE).pending == of("ABE")
    assert answered.leading is not None
    older = msgspec.structs.replace(answered.leading, token=4)
    found = observe(GROUP, {**answered.replicas, "A": older}, EVERYONE)
    assert decide(before, found, wish("ABE", mode=C), EVERYONE) == before


@pytest.mark.parametrize("pending", ["ABCD", "CD"])
def test_a_wish_that_is_not_due_changes_nothing_though_a_locked_change_has_a_lost_replica(
    pending: str,
) -> None:
    before = keys("ABC", pending, reduce="C", lock=True)
    found = group("ABCD", old="ABC", token=5, absent="C", stage=Stage.JOINT)
    assert decide(before, found, wish("ABE"), EVERYONE) == before


# ----------------------------------------------------------------------- who starts, who is stopped


def test_a_replica_is_started_on_stable_and_pending_but_not_where_it_is_given_up() -> None:
    assert hosts(keys("ABC")) == frozenset("ABC")
    assert hosts(keys("ABC", "ABD")) == frozenset("ABCD")
    assert hosts(keys("ABC", of("A", force=True))) == frozenset("A")
    assert hosts(keys("ABC", "ABCD", reduce="C")) == frozenset("ABD")


def test_who_is_in_stable_pending_or_the_leaders_configuration_is_not_stopped() -> None:
    assert stopped(keys("ABC"), group("ABC", also="D")) == ["D"]
    assert stopped(keys("ABC", "ABD"), group("ABC", also="DE")) == ["E"]
    assert stopped(keys("ABC", "ABD"), group("ABD", also="CE", token=5)) == ["E"], "stable's C"
    assert stopped(keys("ABC"), group("ABCD", also="E")) == ["E"], "D still votes"


def test_no_node_is_stopped_by_a_leader_that_may_be_deposed() -> None:
    alone = group("ABC", also="D", absent="BC", answered=frozenset("AD"))
    assert stopped(keys("ABC"), alone) == []


def test_of_a_shrinking_group_the_old_member_is_stopped_only_after_the_stable_switch() -> None:
    done = group("AB", also="C", token=5)
    before = keys("ABC", "AB")
    assert stopped(before, done) == []
    after = decide(before, done, wish("AB"), EVERYONE)
    assert shown(after)[:2] == ("AB", "")
    assert stopped(after, done) == ["C"]

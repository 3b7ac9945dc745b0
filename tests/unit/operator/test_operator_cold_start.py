"""The restart of a whole group (`high-availability`, "Chain unwind"; design §3, hole 9)."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from tests.unit.made_up_nodes import node_identity, topology
from zonequake_operator.groups.inspections import Inspections
from zonequake_operator.groups.reports import observe
from zonequake_operator.high_availability import chain
from zonequake_operator.high_availability.chain import UnjudgedLink, UnwoundChain
from zonequake_operator.high_availability.decisions import KeysDecision, judge
from zonequake_operator.high_availability.reset import ReplicaHolders
from zonequake_operator.high_availability.reset_orders import inspections
from zonequake_operator.planning.partition_events import announce_keys
from zonequake_operator.rebalance.orders import ReplicaSettings, orders
from zonequake_operator.resources.model import (
    AssignmentSet,
    AssignmentsLink,
    Partition,
    PartitionKeys,
    ResetDue,
    TokenPeers,
)
from zonequake_protocol.admin import (
    ConfigurationReport,
    InspectReplica,
    OrderReplies,
    OrderReply,
    OrderStatus,
    PeerName,
    ReplicaRole,
    ReplicasReport,
    ReplicaStatus,
)

GROUP = "z.12345678.0"
EVERYONE = "ABCDEFG"
FIRST = AssignmentsLink(nodes=tuple(EVERYONE), term=1, index=4)
SECOND = AssignmentsLink(nodes=tuple("EFG"), term=2, index=7, token=6)
THIRD = AssignmentsLink(nodes=tuple("G"), term=3, index=9, token=9)
SETTINGS = ReplicaSettings(
    zone="z", partition=0, partitions=1, fsync=True, catch_up_bytes_per_second=0, addresses={}
)


def status(
    user: tuple[int, int], role: ReplicaRole = ReplicaRole.FOLLOWER, **more: object
) -> ReplicaStatus:
    made = ReplicaStatus(
        group=GROUP,
        zone="z",
        partition=0,
        incarnation="1",
        role=role,
        term=3,
        token=3,
        configuration=ConfigurationReport(peers=[PeerName("A", "1")], token=1, index=1),
        last_user_term=user[0],
        last_user_index=user[1],
    )
    return replace_fields(made, **more)


def replace_fields(status: ReplicaStatus, **more: object) -> ReplicaStatus:
    return msgspec.structs.replace(status, **more)


EXAMPLE_1 = {n: status((1, 10)) for n in "ABCD"} | {n: status((1, 5)) for n in "EFG"}
EXAMPLE_2 = {n: status((1, 10)) for n in "ABCD"} | {n: status((2, 8)) for n in "EF"}
EXAMPLE_2["G"] = status((1, 5))


def unwound(reported: dict[str, ReplicaStatus | None]) -> UnwoundChain | UnjudgedLink:
    return chain.unwind((FIRST, SECOND, THIRD), reported)


def only(reported: dict[str, ReplicaStatus], nodes: str) -> dict[str, ReplicaStatus | None]:
    return {node: reported[node] for node in nodes}


# ----------------------------------------------------------------------------------- chain.unwind


def test_example_1_goes_back_to_the_first_link() -> None:
    assert unwound({**EXAMPLE_1}) == UnwoundChain(link=0, source="A")


def test_example_2_goes_back_to_the_link_that_user_data_was_put_on() -> None:
    assert unwound({**EXAMPLE_2}) == UnwoundChain(link=1, source="E")


def test_a_link_is_judged_once_a_majority_of_its_set_has_reported() -> None:
    assert unwound({}) == UnjudgedLink(link=2, nodes=("G",), more=1)
    assert unwound(only(EXAMPLE_2, "AG")) == UnjudgedLink(link=1, nodes=("E", "F"), more=1)
    assert unwound(only(EXAMPLE_2, "FG")) == UnwoundChain(link=1, source="F")
    assert unwound(only(EXAMPLE_1, "EFG")) == UnjudgedLink(link=0, nodes=tuple("ABCD"), more=1)
    assert unwound(only(EXAMPLE_1, "DEFG")) == UnwoundChain(link=0, source="D")


def test_only_nodes_of_a_link_s_own_set_speak_for_it() -> None:
    # A is newer than the second link, but no member of it.
    reported = {**EXAMPLE_1, "A": status((2, 99))}
    assert unwound({**reported}) == UnwoundChain(link=0, source="A")


def test_user_entries_are_compared_with_the_link_s_own_place_lexicographically() -> None:
    at_it = {n: status((2, 7)) for n in "EFG"}
    assert unwound({**EXAMPLE_1, **at_it}) == UnwoundChain(link=0, source="E")
    # A higher index of an older term: an old majority that lived on apart.
    older = {n: status((1, 99)) for n in "EFG"}
    assert unwound({**EXAMPLE_1, **older}) == UnwoundChain(link=0, source="E")
    newer = {n: status((3, 1)) for n in "EF"}
    assert unwound({**EXAMPLE_1, **newer}) == UnwoundChain(link=1, source="E")


def test_what_was_written_before_the_second_phase_of_a_reset_belongs_to_its_link() -> None:
    # E was reset at (2, 6), took a write at (2, 7), and only then F and G had caught up.
    grown = msgspec.structs.replace(SECOND, index=8, since_term=2, since_index=6)
    reported: dict[str, ReplicaStatus | None] = {n: status((2, 7)) for n in "EFG"}
    assert chain.unwind((FIRST, grown), reported) == UnwoundChain(link=1, source="E")


@pytest.mark.parametrize(
    ("e", "f", "source"),
    [((2, 8), (2, 9), "F"), ((3, 1), (2, 9), "E"), ((2, 8), (2, 8), "E")],
)
def test_the_newest_user_entry_is_the_source_and_names_decide_ties(
    e: tuple[int, int], f: tuple[int, int], source: str
) -> None:
    reported = {**EXAMPLE_2, "E": status(e, last_index=99), "F": status(f)}
    assert unwound({**reported}) == UnwoundChain(link=1, source=source)


def test_a_member_that_holds_nothing_has_reported_but_is_no_source() -> None:
    assert unwound({**only(EXAMPLE_2, "G"), "E": None}) == UnjudgedLink(
        link=0, nodes=tuple("ABCDF"), more=2
    )
    nothing: dict[str, ReplicaStatus | None] = dict.fromkeys(EVERYONE)
    assert isinstance(unwound(nothing), UnjudgedLink)


# --------------------------------------------------------------------------- when, and what is told


def keys(pending: AssignmentSet | None = None, *links: AssignmentsLink) -> PartitionKeys:
    return PartitionKeys(
        stable=AssignmentSet.of("G"),
        pending=pending,
        configuration_token=9,
        bootstrap=TokenPeers(token=1, peers=(PeerName("A", "1"),)),
        chain=links or (FIRST, SECOND, THIRD),
    )


def waiting(nodes: str) -> dict[str, ReplicaStatus]:
    resting = status((0, 0), ReplicaRole.WAITING, configuration=None, term=0)
    return dict.fromkeys(nodes, resting)


def holders(
    replicas: dict[str, ReplicaStatus],
    inspected: dict[str, ReplicaStatus],
    answered: str | None = None,
    alive: str = EVERYONE,
) -> ReplicaHolders:
    heard = frozenset(alive if answered is None else answered)
    return ReplicaHolders(
        group=observe(GROUP, replicas, heard),
        topology=topology(alive, 20, since=20),
        answered=heard,
        inspected=inspected,
    )


def decision(
    before: PartitionKeys, now: ReplicaHolders, due: ResetDue | None = None
) -> KeysDecision:
    return judge(before, now, due=due, revision=30)


RESTED = holders(waiting(EVERYONE), EXAMPLE_2)


def test_a_restarted_group_forms_anew_in_two_phases_on_its_target_link() -> None:
    after = decision(keys(), RESTED).keys
    assert after.pending == AssignmentSet(nodes=("E",), force=True)
    assert after.planned == AssignmentSet(nodes=("E", "F", "G"), from_reset=True)
    assert after.configuration_token == 10, "a new token, so that an older link may lead again"
    assert (after.reset_revision, after.change_trigger_revision) == (30, 30)


def test_only_members_that_hold_something_are_planned() -> None:
    now = holders(waiting("FG"), EXAMPLE_2, alive="FG")
    assert decision(keys(), now).keys.planned == AssignmentSet(nodes=("F", "G"), from_reset=True)


def test_a_member_that_died_before_it_stored_its_bootstrap_is_no_source() -> None:
    # No user wrote anything, so that all members' user entries are the same.
    first = AssignmentsLink(nodes=("A", "B", "C"), term=0, index=0)
    reset_to_lost = replace(
        keys(AssignmentSet(nodes=("B",), force=True), first), stable=AssignmentSet.of("A", "B", "C")
    )
    looked_at = {"A": status((0, 0), configuration=None, term=0), "C": status((0, 0))}
    after = decision(
        replace(reset_to_lost, stopped_token=9), holders(waiting("AC"), looked_at, alive="AC")
    ).keys
    assert after.pending == AssignmentSet(nodes=("C",), force=True), "A would refuse the reset"
    assert after.planned is None


def test_no_node_starts_before_the_chain_is_unwound_and_all_are_asked() -> None:
    now = holders(waiting(EVERYONE), {})
    found = decision(keys(), now)
    assert found.withheld
    assert found.inspect == frozenset(EVERYONE)
    asked = inspections(found.inspect, now.group)
    assert asked == [(node, InspectReplica(group=now.group.name)) for node in sorted(EVERYONE)]
    assert found.sentence("partition 0") == (
        "Partition 0 waits for 1 more of G to report: all its nodes had stopped, and the newest "
        "user data may be under link 3 of 3 of its chain (G); or it is reset by hand (zonequake "
        "reset)."
    )
    told = orders(
        keys(),
        now.group,
        SETTINGS,
        alive=frozenset(EVERYONE),
        reachable=now.answered,
        withheld=True,
    )
    assert told == []


def test_a_link_that_is_judged_asks_no_further_node() -> None:
    now = holders(waiting(EVERYONE), {n: EXAMPLE_2[n] for n in "EG"})
    found = decision(keys(), now)
    assert found.inspect == frozenset()
    assert found.keys.pending == AssignmentSet(nodes=("E",), force=True)


def test_one_link_is_an_ordinary_recovery() -> None:
    found = decision(keys(None, FIRST), holders(waiting(EVERYONE), EXAMPLE_1))
    stopped = replace(keys(None, FIRST), stopped_token=9)
    assert (found.keys, found.withheld, found.inspect) == (stopped, False, frozenset())


def test_a_member_that_has_had_a_leader_since_its_start_makes_it_an_ordinary_recovery() -> None:
    alive = waiting(EVERYONE) | {"G": status((1, 5), had_leader=True)}
    found = decision(keys(), holders(alive, EXAMPLE_2))
    assert (found.keys, found.withheld) == (keys(), False)


def test_a_silent_member_may_be_alive() -> None:
    found = decision(keys(), holders(waiting("ABCDEF"), EXAMPLE_2, answered="ABCDEF"))
    assert (found.keys, found.withheld) == (keys(), False)


def test_a_broken_replica_has_not_reported() -> None:
    replicas = waiting(EVERYONE) | {"G": status((0, 0), ReplicaRole.BROKEN)}
    found = decision(keys(), holders(replicas, EXAMPLE_2))
    assert isinstance(found.awaits, UnjudgedLink)


def test_what_another_incarnation_showed_counts_for_nothing() -> None:
    renewed = {n: replace_fields(s, incarnation="2") for n, s in waiting(EVERYONE).items()}
    assert isinstance(decision(keys(), holders(renewed, EXAMPLE_2)).awaits, UnjudgedLink)


def test_the_timer_resets_nothing_before_the_chain_is_unwound() -> None:
    due = ResetDue(revision=25, topology_version=19)
    stable = replace(keys(None, FIRST, SECOND), stable=AssignmentSet.of("E", "F", "G"))
    found = decision(stable, holders(waiting("E"), EXAMPLE_2, alive="E"), due)
    assert found.keys == replace(stable, stopped_token=9)
    assert found.withheld


def test_an_unwinding_that_is_decided_is_carried_out_and_not_decided_again() -> None:
    decided = decision(keys(), RESTED).keys
    again = decision(decided, RESTED)
    assert (again.keys, again.withheld) == (decided, False)
    begun = waiting(EVERYONE) | {"E": status((2, 8), enforced_lineage=10, term=10_000_000_000)}
    # A newer report that comes later doesn't move a reset that is under way.
    late = EXAMPLE_2 | {"F": status((2, 9))}
    found = decision(decided, holders(begun, late))
    assert (found.keys, found.withheld) == (decided, False)


def test_a_forced_set_from_before_the_restart_is_judged_anew() -> None:
    stale = keys(AssignmentSet(nodes=("G",), force=True), FIRST, SECOND)
    stale = replace(stale, stable=AssignmentSet.of("E", "F", "G"))
    after = decision(stale, RESTED).keys
    assert after.pending == AssignmentSet(nodes=("E",), force=True)


# ------------------------------------------------------------------------------------------ events


def test_an_unwinding_names_its_link_and_its_source() -> None:
    before = {0: Partition(number=0, resource_version="1", keys=keys())}
    (said,) = announce_keys(before, {0: decision(keys(), RESTED).keys})
    assert said.reason == "ChainUnwound"
    assert said.message == (
        "All nodes of 1 partitions had stopped: 0. They go on from E, because users wrote last "
        "under link 2 of 3 of their chain (E, F, G); what was written apart from it is given up."
    )


def test_a_reset_by_hand_to_older_data_is_no_unwinding() -> None:
    old = keys(None, FIRST, SECOND)
    new = replace(
        old,
        pending=AssignmentSet(nodes=("E",), force=True),
        configuration_token=10,
        chain=old.chain[:1],
    )
    partition = Partition(number=4, resource_version="1", keys=old)
    (said,) = announce_keys({4: partition}, {4: new})
    assert said.reason == "PartitionsReset"
    assert said.message == (
        "E was chosen by hand and goes on alone with older data of 1 partitions: 4. What was "
        "written since is given up."
    )


def test_a_reset_says_who_goes_on_and_when_the_partition_serves_again() -> None:
    old = keys(None, FIRST)
    new = replace(old, pending=AssignmentSet(nodes=("A",), force=True), configuration_token=10)
    partition = Partition(number=4, resource_version="1", keys=old)
    (begun,) = announce_keys({4: partition}, {4: new})
    assert begun.reason == "PartitionsReset"
    assert begun.message.startswith("A has the newest data that is left of 1 partitions")
    served = replace(new, stable=AssignmentSet.of("A"), pending=None)
    (done,) = announce_keys({4: replace(partition, keys=new)}, {4: served})
    assert done.message == "1 partitions that were reset serve again: 4."


# ------------------------------------------------------------------------------------- inspections


def report(node: str, process: str) -> ReplicasReport:
    identity = node_identity(node, process_incarnation=process)
    return ReplicasReport(node=identity, replicas=[])


def test_an_inspection_is_good_until_its_process_ends() -> None:
    inspections = Inspections()
    reply = OrderReply(status=OrderStatus.RECEIVED, replica=status((1, 10)))
    inspections.heard(
        "A",
        [InspectReplica(group=GROUP)],
        OrderReplies(process_incarnation="p", replies=[reply]),
    )
    assert inspections.of({"A": report("A", "p")}) == {"A": {GROUP: status((1, 10))}}
    assert inspections.of({"B": report("B", "p")}) == {}, "it is silent in this round"
    assert inspections.of({"A": report("A", "p")}) != {}
    assert inspections.of({"A": report("A", "q")}) == {}
    assert inspections.of({"A": report("A", "p")}) == {}


def test_what_could_not_be_inspected_is_not_known() -> None:
    inspections = Inspections()
    failed = OrderReply(status=OrderStatus.FAILED, error="the replica cannot be read")
    inspections.heard(
        "A",
        [InspectReplica(group=GROUP)],
        OrderReplies(process_incarnation="p", replies=[failed]),
    )
    assert inspections.of({"A": report("A", "p")}) == {}

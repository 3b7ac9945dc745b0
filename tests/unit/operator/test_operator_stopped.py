"""A group that stopped as a whole (`high-availability`, use case steps 4 to 6 and key outcome 2;
design §3, holes 7 and 9), and resets by hand to a replica that a person has chosen."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from tests.unit.made_up_nodes import left, topology
from zonequake_operator.api_server.rendering import render_partition_status
from zonequake_operator.groups.reports import observe
from zonequake_operator.high_availability import chain
from zonequake_operator.high_availability.cold_start import AwaitedNodes
from zonequake_operator.high_availability.decisions import KeysDecision, is_due, judge
from zonequake_operator.high_availability.reset import ReplicaHolders, UndecidedReset
from zonequake_operator.planning.partition_events import announce_keys
from zonequake_operator.rebalance.volatile_switch import begun_anew
from zonequake_operator.resources.model import (
    AssignmentSet,
    AssignmentsLink,
    Partition,
    PartitionKeys,
    PartitionStatus,
    ResetDue,
    ResetRequest,
    StorageKind,
    TokenPeers,
    Topology,
)
from zonequake_operator.resources.parsing import parse_partition
from zonequake_operator.resources.stored_shapes import (
    RESET_ANNOTATION,
    render_reset_requests,
    reset_requests,
)
from zonequake_protocol.admin import ConfigurationReport, PeerName, ReplicaRole, ReplicaStatus

GROUP = "z.12345678.0"
DUE = ResetDue(revision=11, topology_version=7)
TOKEN = 5


def of(nodes: str, **flags: bool) -> AssignmentSet:
    return AssignmentSet(nodes=tuple(nodes), **flags)


def peers(nodes: str) -> tuple[PeerName, ...]:
    return tuple(PeerName(node, "1") for node in nodes)


def keys(
    stable: str = "BCD", pending: AssignmentSet | None = None, **more: object
) -> PartitionKeys:
    made = PartitionKeys(
        stable=of(stable),
        pending=pending,
        configuration_token=TOKEN,
        bootstrap=TokenPeers(token=1, peers=peers(stable)),
        chain=(AssignmentsLink(nodes=tuple(stable), term=1, index=1),),
    )
    return replace(made, **more)  # type: ignore[arg-type]


def replica(members: str = "BCD", log: tuple[int, int] = (1, 10), **more: object) -> ReplicaStatus:
    made = ReplicaStatus(
        group=GROUP,
        zone="z",
        partition=0,
        incarnation="1",
        role=ReplicaRole.FOLLOWER,
        term=2,
        token=1,
        configuration=ConfigurationReport(peers=list(peers(members)), token=1, index=1),
        last_term=log[0],
        last_index=log[1],
        last_user_term=log[0],
        last_user_index=log[1],
    )
    return msgspec.structs.replace(made, **more)


ALIVE = replica(had_leader=True)
RUNS = replica()
"""It was started, and has had no leader yet."""
WAITS = replica(role=ReplicaRole.WAITING, configuration=None, term=0)


def holders(
    present: Topology,
    replicas: dict[str, ReplicaStatus] | None = None,
    *,
    answered: str | None = None,
    inspected: dict[str, ReplicaStatus] | None = None,
) -> ReplicaHolders:
    heard = frozenset(present.nodes if answered is None else answered)
    return ReplicaHolders(
        group=observe(GROUP, replicas or {}, heard),
        topology=present,
        answered=heard,
        inspected=inspected or {},
    )


def decision(
    before: PartitionKeys,
    now: ReplicaHolders,
    due: ResetDue | None = DUE,
    by_hand: ResetRequest | None = None,
) -> KeysDecision:
    return judge(before, now, due=due, revision=12, by_hand=by_hand)


GONE = holders(topology("X", departed=left("BCD")))
D_ALONE = topology("D", 9, since=9, departed=left("BCD"))
STOPPED = keys(stopped_token=TOKEN)


# ------------------------------------------------------------------------------ when it is stopped


@pytest.mark.parametrize(
    "now",
    [
        GONE,
        holders(D_ALONE, {"D": WAITS}),
        holders(D_ALONE, {"D": RUNS}),
        holders(D_ALONE, {}),
        holders(topology("BCD"), {"B": RUNS, "C": WAITS, "D": WAITS}),
        holders(topology("X", departed=left("BCD")), {"D": ALIVE}),
    ],
    ids=[
        "all left",
        "D waits",
        "D runs, unled",
        "D has nothing",
        "all are new",
        "D is counted out",
    ],
)
def test_a_group_of_which_no_member_is_alive_is_stopped_and_not_reset(now: ReplicaHolders) -> None:
    found = decision(keys(), now)
    assert found.keys == STOPPED
    assert not found.withheld, "its members may start: they are to find each other"


@pytest.mark.parametrize(
    "now",
    [
        holders(D_ALONE, {"D": ALIVE}),
        holders(topology("BD", departed=left("C")), {"B": WAITS}, answered="B"),
        holders(topology("BCD"), {"B": RUNS, "C": RUNS, "D": RUNS}),
    ],
    ids=["D is alive", "D is silent", "all run, and are about to elect"],
)
def test_it_is_not_stopped_while_a_member_may_be_alive_or_all_are_starting(
    now: ReplicaHolders,
) -> None:
    assert not decision(keys(), now).keys.is_stopped


def test_a_loss_that_leaves_a_member_alive_is_reset_as_before() -> None:
    now = holders(topology("D", departed=left("BC")), {"D": ALIVE})
    assert decision(keys(), now).keys.pending == of("D", force=True)


def test_members_of_a_granted_change_count_too() -> None:
    """Who is only being caught up may hold two entries of five thousand."""
    lock = TokenPeers(token=TOKEN, peers=peers("BCE"))
    moving = keys(pending=of("BCE"))
    granted = replace(moving, pending_lock=lock)
    now = holders(topology("E", departed=left("BCD")), {"E": ALIVE})
    assert not decision(granted, now, due=None).keys.is_stopped
    assert decision(granted, GONE).keys.is_stopped
    assert decision(moving, now, due=None).keys.is_stopped


@pytest.mark.parametrize(
    "before",
    [
        keys(
            chain=(
                AssignmentsLink(nodes=tuple("BCD"), term=1, index=1),
                AssignmentsLink(nodes=("D",), term=2, index=5),
            )
        ),
        keys(pending=of("D", force=True), planned=of("BCD", from_reset=True)),
    ],
    ids=["two links", "a reset under way"],
)
def test_a_group_with_more_than_one_set_is_stopped_also_while_all_are_starting(
    before: PartitionKeys,
) -> None:
    """What they would elect among themselves may lack what the newest set has acknowledged."""
    now = holders(topology("BCD"), dict.fromkeys("BCD", RUNS))
    assert decision(before, now, due=None).keys.is_stopped


@pytest.mark.parametrize(
    "stopped", [0, TOKEN], ids=["it never stopped", "it stopped, and led again"]
)
@pytest.mark.parametrize("alive", ["BC", "EF"], ids=["of stable", "of pending"])
def test_while_stable_or_pending_is_alive_a_node_that_starts_recovers_as_usual(
    alive: str, stopped: int
) -> None:
    links = (
        AssignmentsLink(nodes=tuple("BCD"), term=1, index=1),
        AssignmentsLink(nodes=tuple("BCD"), term=2, index=5),
    )
    lock = TokenPeers(token=TOKEN, peers=peers("DEF"))
    before = keys(pending=of("DEF"), pending_lock=lock, chain=links, stopped_token=stopped)
    replicas = {**dict.fromkeys(alive, ALIVE), "D": WAITS}
    found = decision(before, holders(topology(alive + "D"), replicas), due=None)
    assert found.keys == before
    assert not found.withheld, "D may start"
    assert not isinstance(found.awaits, chain.UnjudgedLink)


def test_a_strongly_consistent_partition_is_never_stopped() -> None:
    assert judge(keys(), GONE, due=None, revision=12, automatic=False).keys == keys()


# --------------------------------------------------------------------------- while it is stopped


@pytest.mark.parametrize("back", [ALIVE, RUNS, WAITS], ids=["was fenced", "runs", "waits"])
def test_no_timer_resets_a_stopped_group_to_who_is_back_first(back: ReplicaStatus) -> None:
    now = holders(D_ALONE, {"D": back})
    assert is_due(keys(), now, DUE)
    assert not is_due(STOPPED, now, DUE)
    found = decision(STOPPED, now)
    assert found.keys == STOPPED
    assert found.awaits == AwaitedNodes(of=tuple("BCD"), nodes=tuple("BC"), more=1)
    assert found.sentence("partition 0") == (
        "Partition 0 waits for 1 more of B, C to come back with its data: all its nodes had "
        "stopped, and those back may lack what a majority of B, C, D has acknowledged; or it is "
        "reset by hand (zonequake reset)."
    )


def test_a_majority_that_is_back_recovers_by_itself() -> None:
    now = holders(topology("CD", 9, since=9, departed=left("BCD")), {"C": RUNS, "D": RUNS})
    found = decision(STOPPED, now)
    assert (found.keys, found.awaits, found.withheld) == (STOPPED, None, False)


def test_the_majority_of_a_locked_change_is_needed_too() -> None:
    lock = TokenPeers(token=TOKEN, peers=peers("DEF"))
    moving = keys(pending=of("DEF"), pending_lock=lock, stopped_token=TOKEN)
    now = holders(topology("CD", departed=left("BEF")), {"C": RUNS, "D": RUNS})
    assert decision(moving, now).awaits == AwaitedNodes(of=tuple("DEF"), nodes=tuple("EF"), more=1)


def test_the_stop_ends_when_the_group_leads_again_and_then_a_loss_is_reset_as_before() -> None:
    leads = replica(role=ReplicaRole.LEADER, leader="C", commit=10, had_leader=True)
    follows = replica(leader="C", had_leader=True)
    now = holders(topology("CD", 9, departed=left("B")), {"C": leads, "D": follows})
    led = decision(STOPPED, now).keys
    assert led == keys()
    lost = holders(topology("D", 12, departed=left("BC", 11)), {"D": ALIVE})
    later = ResetDue(revision=12, topology_version=11)
    assert decision(led, lost, later).keys.pending == of("D", force=True)


def test_the_stop_of_a_running_reset_ends_with_its_stable_switch() -> None:
    alone = ConfigurationReport(peers=list(peers("D")), token=6, lineage=6, index=11)
    leads = replica("D", role=ReplicaRole.LEADER, commit=11, configuration=alone, had_leader=True)
    now = holders(D_ALONE, {"D": leads})
    forced = keys(pending=of("D", force=True), configuration_token=6, stopped_token=TOKEN)
    assert decision(forced, now).keys == forced
    switched = keys("D", configuration_token=6, stopped_token=TOKEN)
    assert decision(switched, now).keys == keys("D", configuration_token=6)


def test_once_all_are_back_and_too_many_hold_nothing_the_rest_is_all_that_there_is() -> None:
    """No node is left to wait for; a broken replica may still be repaired."""
    present = topology("BCD", 9, since=9, departed=left("BCD"))
    assert decision(STOPPED, holders(present, {"D": RUNS})).keys.pending == of("D", force=True)
    broken = {"D": RUNS, "C": replica(role=ReplicaRole.BROKEN, configuration=None)}
    found = decision(STOPPED, holders(present, broken))
    assert found.keys == STOPPED
    assert found.awaits == AwaitedNodes(of=tuple("BCD"), nodes=tuple("BC"), more=1)
    two = topology("CD", 9, since=9, departed=left("BCD"))
    assert decision(STOPPED, holders(two, {"D": RUNS})).keys == STOPPED, "B may hold all"


def test_a_stopped_group_waits_for_the_members_of_its_change_before_it_is_given_up() -> None:
    """Those of pending may hold what both halves have acknowledged."""
    lock = TokenPeers(token=TOKEN, peers=peers("DEF"))
    moving = keys(pending=of("DEF"), pending_lock=lock, stopped_token=TOKEN)
    stable_is_back = topology("BCD", 9, since=9, departed=left("EF"))
    found = decision(moving, holders(stable_is_back, {"D": RUNS}))
    assert found.keys == moving
    assert found.awaits == AwaitedNodes(of=tuple("BCD"), nodes=tuple("BC"), more=1)
    all_are_back = topology("BCDEF", 9, since=9, departed=left("BCDEF"))
    assert decision(moving, holders(all_are_back, {"D": RUNS})).keys.pending == of("D", force=True)


def test_a_silent_member_of_a_stopped_group_must_answer_before_the_others_are_given_up() -> None:
    """It is there: its report is the only one to wait for."""
    present = topology("BCD", 9, since=9, departed=left("BCD"))
    found = decision(STOPPED, holders(present, {}, answered="CD"))
    assert (found.keys, found.awaits) == (STOPPED, UndecidedReset(unheard=("B",)))


def test_who_was_only_being_caught_up_is_not_what_is_left_of_a_stopped_group() -> None:
    """B, C and D came back with nothing; E may lack nearly all: a person decides."""
    moving = keys(pending=of("BCDE"), stopped_token=TOKEN)
    present = topology("BCDE", 9, since=9, departed=left("BCDE"))
    found = decision(moving, holders(present, {"E": RUNS}))
    assert found.keys == moving
    assert found.awaits == AwaitedNodes(of=tuple("BCD"), nodes=tuple("BCD"), more=2)


def test_a_volatile_group_says_that_it_begins_anew() -> None:
    found = decision(STOPPED, holders(D_ALONE))
    assert found.sentence("partition 0", StorageKind.VOLATILE) == (
        "Partition 0 waits for B, C, D: all its nodes had stopped, and its data is gone with them; "
        "it starts over, empty, once all of them are back."
    )
    assert not begun_anew(STOPPED, 9).is_stopped


def test_a_reset_that_was_begun_before_the_stop_goes_on_while_its_node_is_there() -> None:
    """Its loss left D alive: it isn't due any more, it was decided (hole 11)."""
    forced = keys(pending=of("D", force=True), planned=of("CD", from_reset=True))
    found = decision(forced, holders(D_ALONE, {"D": WAITS}))
    assert (found.keys, found.withheld) == (replace(forced, stopped_token=TOKEN), False)
    assert found.awaits is None


def test_a_reset_that_was_begun_before_the_stop_is_judged_anew_without_its_node() -> None:
    forced = keys(pending=of("D", force=True), planned=of("CD", from_reset=True))
    one = topology("C", 9, since=9, departed=left("BCD"))
    found = decision(forced, holders(one, {"C": WAITS}, inspected={"C": replica()}))
    assert found.withheld, "C may not go on alone"
    assert found.awaits == chain.UnjudgedLink(link=0, nodes=tuple("BD"), more=1)
    both = topology("BC", 9, since=9, departed=left("BCD"))
    newer = {"C": replica(log=(1, 12)), "B": replica()}
    after = decision(found.keys, holders(both, dict.fromkeys("BC", WAITS), inspected=newer)).keys
    assert (after.pending, after.planned) == (of("C", force=True), of("BC", from_reset=True))
    assert after.configuration_token == TOKEN + 1


def test_a_reset_that_was_decided_since_goes_on_while_its_node_is_there() -> None:
    forced = keys(pending=of("D", force=True), configuration_token=6, stopped_token=TOKEN)
    found = decision(forced, holders(D_ALONE, {"D": WAITS}))
    assert (found.keys, found.withheld, found.awaits) == (forced, False, None)
    without_d = topology("BC", 9, since=9, departed=left("BCD"))
    logs = {"B": replica(log=(1, 12)), "C": replica()}
    again = decision(forced, holders(without_d, dict.fromkeys("BC", WAITS), inspected=logs)).keys
    assert again.pending == of("B", force=True)


# -------------------------------------------------------------------------------- what is stored


def test_the_stop_survives_the_operator() -> None:
    status = render_partition_status(STOPPED, PartitionStatus())
    stored = {
        "metadata": {"name": "z-0", "resourceVersion": "1"},
        "spec": {"partition": 0},
        "status": status,
    }
    assert status["stoppedToken"] == TOKEN
    assert parse_partition(stored).keys == STOPPED
    assert "stoppedToken" not in render_partition_status(keys(), PartitionStatus())


def test_a_stop_is_announced_once_and_not_beside_the_reset_that_ends_it() -> None:
    before = {0: Partition(number=0, resource_version="1", keys=keys())}
    (said,) = announce_keys(before, {0: STOPPED})
    assert said.reason == "PartitionsStopped"
    assert said.message == (
        "All nodes of 1 partitions have stopped: 0. They wait for a majority of their nodes to "
        "come back; no timer resets them."
    )
    stopped = {0: replace(before[0], keys=STOPPED)}
    assert announce_keys(stopped, {0: replace(STOPPED, change_trigger_revision=9)}) == ()
    assert announce_keys(stopped, {0: keys()}) == ()


# ---------------------------------------------------------------------------------------- by hand

ASKED = ResetRequest(token=TOKEN, topology_version=9)


def chosen(node: str, incarnation: str = "1", token: int = TOKEN) -> ResetRequest:
    return replace(ASKED, token=token, survivor=PeerName(node, incarnation))


def test_a_stopped_group_is_reset_by_hand() -> None:
    now = holders(D_ALONE, {"D": RUNS})
    after = decision(STOPPED, now, by_hand=ASKED).keys
    assert after.pending == of("D", force=True)
    assert (after.configuration_token, after.stopped_token) == (TOKEN + 1, TOKEN)
    # It restarts before it leads: the decision stands.
    again = decision(after, holders(D_ALONE, {"D": WAITS}))
    assert (again.keys, again.withheld) == (after, False)


def test_by_hand_a_majority_that_is_back_is_not_given_up() -> None:
    now = holders(topology("CD", 9, since=9, departed=left("BCD")), {"C": RUNS, "D": RUNS})
    assert decision(STOPPED, now, by_hand=ASKED).keys == STOPPED


CHAINED = keys(
    "C",
    chain=(
        AssignmentsLink(nodes=tuple("BCD"), term=1, index=1),
        AssignmentsLink(nodes=("C",), term=5_000_000_001, index=11, token=TOKEN),
    ),
    stopped_token=TOKEN,
)


def test_a_chain_that_waits_for_others_is_reset_by_hand() -> None:
    """C is there, and was reset to; nothing was written since, so B or D is waited for."""
    alone = ConfigurationReport(peers=list(peers("C")), token=TOKEN, lineage=TOKEN, index=11)
    now = holders(
        topology("C", 9, since=9, departed=left("BCD")),
        {"C": WAITS},
        inspected={"C": replica("C", configuration=alone)},
    )
    waits = decision(CHAINED, now)
    assert waits.awaits == chain.UnjudgedLink(link=0, nodes=tuple("BD"), more=1)
    assert decision(CHAINED, now, by_hand=ASKED).keys.pending == of("C", force=True)


# -------------------------------------------------------------- a survivor that died uncopied

CHAIN_5 = (
    AssignmentsLink(nodes=tuple("ABCDE"), term=1, index=1),
    AssignmentsLink(nodes=("A",), term=5_000_000_001, index=11, token=TOKEN),
)
DEAD = keys("A", of("ABCDE", from_reset=True), chain=CHAIN_5)
OLD = {
    node: replica("ABCDE", (1, index), had_leader=True, enforced_lineage=TOKEN, abstains=True)
    for node, index in {"B": 10, "C": 12, "D": 9, "E": 12}.items()
}
FOUR = holders(topology("BCDE", 9, departed=left("A")), OLD)


def test_a_dead_survivor_leaves_its_partition_to_a_person() -> None:
    found = decision(DEAD, FOUR)
    assert found.keys == DEAD
    assert found.awaits == UndecidedReset(unheard=())
    assert found.sentence("partition 0") == (
        "No live node holds the newest data of partition 0: it waits for one of A, or is reset by "
        "hand to older data (zonequake reset)."
    )
    assert decision(DEAD, FOUR, by_hand=ASKED).keys == DEAD, "no request has said which"


@pytest.mark.parametrize("node", "BCDE")
def test_by_hand_any_holder_of_an_older_lineage_can_go_on(node: str) -> None:
    after = decision(DEAD, FOUR, by_hand=chosen(node)).keys
    assert after.pending == of(node, force=True)
    assert after.planned == of("BCDE", from_reset=True)
    assert after.configuration_token == TOKEN + 1, "a new token shuts the dead survivor out"
    assert after.chain == CHAIN_5[:1], "what was given up is waited for no more"


def test_by_hand_links_stay_up_to_the_lineage_that_goes_on() -> None:
    """[A..E] was reset to [A, B], then to [A], which died: B goes on, C holds what came before."""
    middle = AssignmentsLink(nodes=tuple("AB"), term=4_000_000_001, index=8, token=TOKEN - 1)
    before = keys("A", of("ABCDE"), chain=(CHAIN_5[0], middle, CHAIN_5[1]))
    own = ConfigurationReport(peers=list(peers("AB")), token=4, lineage=4, index=8)
    now = holders(FOUR.topology, {**OLD, "B": msgspec.structs.replace(OLD["B"], configuration=own)})
    assert decision(before, now, by_hand=chosen("B")).keys.chain == (CHAIN_5[0], middle)
    assert decision(before, now, by_hand=chosen("C")).keys.chain == CHAIN_5[:1]


def test_a_holder_outside_the_last_sets_can_go_on_too() -> None:
    alone = keys("A", chain=CHAIN_5)
    assert decision(alone, FOUR, by_hand=chosen("C")).keys.pending == of("C", force=True)


@pytest.mark.parametrize(
    "request_",
    [chosen("C", "0"), chosen("X"), chosen("A"), chosen("E")],
    ids=["another incarnation", "no such node", "it has left", "it holds nothing"],
)
def test_a_choice_that_is_not_there_any_more_comes_to_nothing(request_: ResetRequest) -> None:
    emptied = {**OLD, "E": msgspec.structs.replace(OLD["E"], configuration=None)}
    now = holders(topology("BCDE", 9, departed=left("A")), emptied)
    found = decision(DEAD, now, by_hand=request_)
    assert (found.keys, found.awaits) == (DEAD, UndecidedReset(unheard=()))


def test_a_choice_that_waits_is_looked_at_first() -> None:
    resting = OLD | {"C": replica(role=ReplicaRole.WAITING, configuration=None, term=0)}
    present = topology("BCDE", 9, departed=left("A"))
    found = decision(DEAD, holders(present, resting), by_hand=chosen("C"))
    assert (found.keys, found.inspect) == (DEAD, frozenset("C"))
    seen = holders(present, resting, inspected={"C": OLD["C"]})
    assert decision(DEAD, seen, by_hand=chosen("C")).keys.pending == of("C", force=True)


def test_a_choice_is_refused_while_the_survivor_may_be_alive() -> None:
    silent = holders(topology("ABCDE", 9), OLD, answered="BCDE")
    assert decision(DEAD, silent, by_hand=chosen("C")).keys == DEAD


def test_a_choice_that_was_started_since_is_not_taken_back() -> None:
    """B is alive, C restarted: with C alone in pending, no member is alive."""
    resting = OLD | {"C": replica(role=ReplicaRole.WAITING, configuration=None, term=0)}
    now = holders(topology("BCDE", 9, departed=left("A")), resting, inspected={"C": OLD["C"]})
    after = decision(DEAD, now, by_hand=chosen("C")).keys
    found = decision(after, now)
    assert (found.keys, found.withheld, found.awaits) == (after, False, None)


def test_a_survivor_that_stopped_with_all_others_is_given_up_by_hand() -> None:
    resting = dict.fromkeys("BCDE", replica(role=ReplicaRole.WAITING, configuration=None, term=0))
    present = topology("BCDE", 9, since=9, departed=left("ABCDE", 8))
    now = holders(present, resting, inspected=OLD)
    stopped = decision(DEAD, now)
    assert stopped.awaits == chain.UnjudgedLink(link=1, nodes=("A",), more=1)
    after = decision(stopped.keys, now, by_hand=chosen("C")).keys
    assert after.pending == of("C", force=True)
    found = decision(after, now)
    assert (found.keys, found.withheld) == (after, False), "and the chain doesn't take it back"


def test_a_request_with_a_choice_is_read_as_it_is_written() -> None:
    asked = {0: ASKED, 7: chosen("C", "c-2")}
    text = render_reset_requests(asked)
    assert text == '{"0":[5,9],"7":[5,9,["C","c-2"]]}'
    assert reset_requests({RESET_ANNOTATION: text}, "u") == asked
    assert reset_requests({RESET_ANNOTATION: '{"7": [5, 9, "C"]}'}, "u") == {}

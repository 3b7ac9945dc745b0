"""When certainly no majority lived, who answered then, and to which link an unwind went back."""

from __future__ import annotations

import pyarrow as pa

from tests.unit.analysis.made_up_evidence import evidence
from zonequake_analysis.inputs.lineages import read_lineages
from zonequake_analysis.inputs.run_folder import RecordedEvent
from zonequake_analysis.inputs.shapes import NEVER_NS, Function, OutcomeCode
from zonequake_analysis.judgement.judge import judge
from zonequake_analysis.measures.majorities import (
    SLACK_NS,
    known_groups,
    unfounded,
    without_majority,
)
from zonequake_analysis.measures.resets import resets
from zonequake_analysis.verdict import Check

SECOND = 1_000_000_000
PLACE = ("z", 0)


def event(kind: str, at_s: float, *, node: str | None = None, **data: object) -> RecordedEvent:
    placed = kind in ("partition.changed", "group.reset")
    return RecordedEvent(
        kind=kind,
        time=int(at_s * SECOND),
        zone="z" if placed else None,
        partition=0 if placed else None,
        node=node,
        data=data,
    )


def keys(at_s: float, *stable: str, pending: tuple[str, ...] = (), **more: object) -> RecordedEvent:
    sets = {"stable": list(stable), "pending": list(pending)}
    return event("partition.changed", at_s, node=None, **sets, **more)


def killed(at_s: float, *nodes: str) -> RecordedEvent:
    """The end of each one's first process, seen at this time."""
    return ended(at_s, {node: f"{node}-1" for node in nodes})


def ended(seen_s: float, processes: dict[str, str]) -> RecordedEvent:
    proof = {
        "gone_ns": dict.fromkeys(processes, int(seen_s * SECOND)),
        "victims": [
            {"node": node, "process_incarnation": process} for node, process in processes.items()
        ],
    }
    return event("fault.effective", seen_s, proof=proof)


def began(at_s: float, node: str, process: str = "") -> RecordedEvent:
    """A node's second process, or the one named."""
    return event("node.started", at_s, node=node, process_incarnation=process or f"{node}-2")


def spans(*events: RecordedEvent) -> list[tuple[float, float]]:
    found = without_majority(list(events)).get(PLACE, [])
    return [(a / SECOND, b / SECOND if b != NEVER_NS else float("inf")) for a, b in found]


def test_there_is_no_majority_from_the_last_death_to_the_first_return() -> None:
    three = keys(0, "A", "B", "C")
    assert spans(three, killed(10, "A"), killed(12, "B"), began(20, "A"), began(30, "B")) == [
        (12, 20)
    ]
    assert spans(three, killed(10, "A")) == []
    assert spans(three, killed(10, "A", "B")) == [(10, float("inf"))]


def test_a_death_that_is_seen_after_the_return_proves_nothing() -> None:
    """As in a rolling restart: the next one is stopped when the one before it serves again."""
    three = keys(0, "A", "B", "C")
    assert spans(three, began(9, "A"), killed(10, "A"), killed(11, "B"), began(20, "B")) == []
    again = began(30, "A", "A-3")
    second = ended(25, {"A": "A-2", "B": "B-1"})
    assert spans(three, began(9, "A"), killed(10, "A"), second, again) == [(25, 30)]


def test_a_return_whose_start_was_lost_with_the_power_proves_no_death() -> None:
    """What a node recorded of its second process is gone with the next loss; its third began."""
    three = keys(0, "A", "B", "C")
    back = event("fault.recovered", 14)
    third = [began(30, "A", "A-3"), began(31, "B", "B-3")]
    assert spans(three, killed(10, "A", "B"), *third) == [(10, 30)]
    assert spans(three, killed(10, "A", "B"), back, *third) == []
    again = ended(20, {"A": "A-2", "B": "B-2"})
    assert spans(three, killed(10, "A", "B"), back, again, *third) == [(20, 30)]
    known = [began(12, "A"), began(13, "B")]
    assert spans(three, killed(10, "A", "B"), *known, back, again, *third) == [(10, 12), (20, 30)]
    assert spans(three, back, killed(15, "A", "B"), *third) == [(15, 30)]


def test_of_two_one_is_no_majority_and_of_four_two_are_none() -> None:
    assert spans(keys(0, "A", "B"), killed(5, "A"), began(9, "A")) == [(5, 9)]
    assert spans(keys(0, "A", "B", "C", "D"), killed(5, "A", "B"), began(9, "A")) == [(5, 9)]


def test_a_pending_set_that_lives_may_be_the_configuration_already() -> None:
    lost = killed(10, "A", "B")
    joint = keys(0, "A", "B", "C", pending=("C", "D", "E"))
    assert spans(joint, lost) == []
    forced = keys(15, "A", "B", "C", pending=("C",), forced=["pending"])
    slack = SLACK_NS / SECOND
    assert spans(keys(0, "A", "B", "C"), lost, forced) == [(10, 15 - slack)]


def test_a_reset_ends_it_though_the_watch_did_not_see_the_forced_pending() -> None:
    reset = event("group.reset", 15, node="C", lineage=5, last_index=3)
    lost = spans(keys(0, "A", "B", "C"), killed(10, "A", "B"), reset)
    assert lost == [(10, 15)]


def test_a_survivor_answers_as_long_as_it_lives_whatever_happens_to_other_nodes() -> None:
    seen = [
        keys(0, "A", "B", "C"),
        killed(10, "A", "B"),
        event("group.reset", 15, node="C", lineage=5, last_index=3),
    ]
    assert spans(*seen, killed(18, "D"), began(19, "D")) == [(10, 15)]
    late = keys(16, "A", "B", "C", token=4)
    assert spans(*seen, late, killed(18, "D")) == [(10, 15)], "seen late: it knows of no reset"
    assert spans(*seen, killed(20, "C")) == [(10, 15), (20, float("inf"))]
    grown = keys(17, "C", "D", "E", token=5)
    lost = spans(*seen, grown, killed(30, "D", "E"))
    assert lost == [(10, 15), (30, float("inf"))], "two of three are dead, though it lives"


def answers(*times: tuple[float, float], outcome: OutcomeCode = OutcomeCode.OK) -> pa.Table:
    count = len(times)
    return pa.table(
        {
            "partition_id": pa.array([4] * count, pa.int64()),
            "zone": ["z"] * count,
            "partition": [0] * count,
            "key": ["k"] * count,
            "key_id": pa.array([9] * count, pa.int64()),
            "node": ["C"] * count,
            "f": pa.array([Function.WRITE.value] * count, pa.int8()),
            "inv": pa.array([int(a * SECOND) for a, _ in times], pa.int64()),
            "fin": pa.array([int(b * SECOND) for _, b in times], pa.int64()),
            "outcome": pa.array([outcome.value] * count, pa.int8()),
            "bounded": [False] * count,
        }
    )


def test_only_what_began_and_ended_without_a_majority_is_forbidden() -> None:
    lost = {4: [(10 * SECOND, 20 * SECOND)]}
    around = answers((9.9, 10.1), (19.9, 20.1), (5, 6))
    assert unfounded(around, lost) == []
    (found,) = unfounded(answers((9, 9.5), (12, 12.1)), lost)
    assert (found.zone, found.partition, found.count) == ("z", 0, 1)
    assert found.examples == ["write of k by C"]
    assert unfounded(answers((12, 12.1), outcome=OutcomeCode.FAIL), lost) == []
    assert unfounded(answers((12, 12.1)), {5: [(0, NEVER_NS)]}) == []


SEVEN = {"nodes": list("ABCDEFG"), "term": 1, "index": 4}
THREE = {"nodes": list("EFG"), "term": 5 * 10**9 + 2, "index": 9}
ONE = {"nodes": ["G"], "term": 8 * 10**9 + 3, "index": 12}


def lineage(token: int, at_s: float, node: str, last: tuple[int, int, int]) -> RecordedEvent:
    past, term, index = last
    return event(
        "group.reset",
        at_s,
        node=node,
        lineage=token,
        last_lineage=past,
        last_term=term,
        last_index=index,
    )


FIRST = lineage(5, 10, "E", (0, 1, 7))
SECOND_RESET = lineage(8, 20, "G", (5, 2, 9))


def unwinds(*events: RecordedEvent) -> list[tuple[tuple[str, ...], str]]:
    found = resets(read_lineages(events), list(events), without_majority(list(events)))
    return [(r.unwound_to, r.unnamed) for r in found]


def test_a_reset_that_goes_on_from_the_newest_lineage_is_no_unwind() -> None:
    assert unwinds(FIRST, SECOND_RESET) == [((), ""), ((), "")]


def test_an_unwind_goes_to_a_link_of_its_survivor_that_its_log_goes_beyond() -> None:
    """Document `high-availability`, Examples 1 and 2."""
    chain = keys(25, "G", chain=[SEVEN, THREE, ONE])
    to_a = lineage(11, 40, "A", (0, 1, 10))
    assert unwinds(FIRST, SECOND_RESET, chain, to_a)[-1] == (tuple("ABCDEFG"), "")
    to_e = lineage(11, 40, "E", (5, 2, 11))
    assert unwinds(FIRST, SECOND_RESET, chain, to_e)[-1] == (tuple("EFG"), "")


def test_an_unwind_that_no_link_explains_is_named() -> None:
    chain = keys(25, "G", chain=[THREE, ONE])
    to_a = lineage(11, 40, "A", (0, 1, 10))
    (*_, (link, unnamed)) = unwinds(FIRST, SECOND_RESET, chain, to_a)
    assert link == ()
    assert "A and its log's end fit no link" in unnamed
    (*_, (_, unknown)) = unwinds(FIRST, SECOND_RESET, to_a)
    assert unknown == "no chain was recorded before it"


ALONE = {"nodes": ["C"], "term": 5 * 10**9 + 2, "index": 8}
UNCOPIED = [
    keys(0, "A", "B", "C"),
    killed(4, "A", "B"),
    lineage(5, 10, "C", (0, 1, 7)),
    keys(11, "C", chain=[{"nodes": list("ABC"), "term": 1, "index": 4}, ALONE], token=5),
    killed(20, "C"),
    began(25, "A"),
    began(25, "B"),
]
"""C went on alone, and died before another node had a copy of its log."""

TO_A = lineage(8, 40, "A", (0, 1, 7))


def asked(at_s: float, survivor: str | None = "A", token: int = 8) -> RecordedEvent:
    one: dict[str, object] = {"partition": 0, "token": token, "survivor": survivor, "given_up": []}
    proof = {"zone": "z", "partitions": [one]}
    return event("fault.effective", at_s, fault="hand", type="reset_by_hand", proof=proof)


def begun_to_ask(at_s: float) -> RecordedEvent:
    return event("fault.start", at_s, fault="hand", type="reset_by_hand")


def last(*events: RecordedEvent) -> tuple[bool, tuple[str, ...], str]:
    told = sorted(events, key=lambda each: each.time)
    found = resets(read_lineages(told), told, without_majority(told))[-1]
    return found.by_hand, found.unwound_to, found.unnamed


def test_a_reset_behind_a_dead_survivor_is_a_persons_and_no_unwind() -> None:
    by_hand = [*UNCOPIED, begun_to_ask(39), TO_A, asked(41)]
    assert last(*by_hand) == (True, (), "")
    cut = keys(39.5, "C", pending=("A",), forced=["pending"], chain=[], token=8)
    assert last(*by_hand, cut) == (True, (), ""), "the request takes its links with it"
    elsewhere = last(*UNCOPIED, begun_to_ask(39), TO_A, asked(41, token=9))
    assert elsewhere[0] is False
    other = last(*UNCOPIED, begun_to_ask(39), TO_A, asked(41, survivor="B"))
    assert other == (True, (), "asked by hand to go on from B, it went on from A")
    assert last(*UNCOPIED, begun_to_ask(39), TO_A, asked(41, survivor=None)) == (True, (), "")


def test_no_node_goes_on_by_itself_from_before_a_link_that_was_not_there_to_be_asked() -> None:
    dead = (False, (), "no majority of the newer link [C] was alive")
    assert last(*UNCOPIED, TO_A) == dead
    cut = [{"nodes": list("ABC"), "term": 1, "index": 4}]
    written = keys(39, "C", pending=("A",), forced=["pending"], chain=cut, token=8)
    assert last(*UNCOPIED, written, TO_A) == dead, "what it wrote itself is no excuse"
    back = (False, tuple("ABC"), "")
    assert last(*UNCOPIED, began(30, "C"), TO_A) == back
    again = ended(39, {"C": "C-2"})
    assert last(*UNCOPIED, began(30, "C"), again, TO_A) == back, "asked before it died once more"
    clocks = [RecordedEvent(kind="pod.event", time=0, clock=clock) for clock in ("one", "other")]
    assert last(*UNCOPIED, TO_A, *clocks) == back, "who knows what came before what"


def test_a_request_that_was_not_seen_carried_out_may_have_been_it() -> None:
    assert last(*UNCOPIED, begun_to_ask(39), TO_A)[0] is True
    assert last(*UNCOPIED, TO_A, begun_to_ask(41))[0] is False


def test_a_reset_says_when_the_majority_was_lost_and_when_it_was_decided() -> None:
    told = [
        keys(0, "E", "F", "G"),
        began(3, "E"),
        killed(4, "F", "G"),
        keys(8, "E", "F", "G", pending=("E",), forced=["pending"], token=5),
        keys(9, "E", "F", "G", pending=("E",), forced=["pending"], token=5),
        FIRST,
    ]
    (found,) = resets(read_lineages(told), told, without_majority(told))
    assert (found.lost_ns, found.written_ns) == (4 * SECOND, 8 * SECOND)
    assert (found.returned_ns, found.at_ns) == (3 * SECOND, 10 * SECOND)


def test_a_loss_that_an_earlier_reset_ended_is_not_the_next_ones() -> None:
    told = [keys(0, "E", "F", "G"), killed(4, "F", "G"), FIRST, SECOND_RESET]
    first, second = resets(read_lineages(told), told, without_majority(told))
    assert (first.lost_ns, second.lost_ns) == (4 * SECOND, None)


def test_without_events_of_members_or_journals_nothing_is_said_of_forbidden_answers() -> None:
    def checked(**known: int) -> Check:
        e = evidence(**known)
        return next(check for check in judge(e) if check.name == "forbidden-availability")

    assert known_groups([killed(10, "A", "B"), began(20, "A"), keys(0)]) == 0
    assert not checked().judged
    assert checked().summary.startswith("not judged: no event names the members of a partition")
    assert known_groups([keys(0, "A", "B", "C"), keys(1, "A", "B")]) == 1
    for known in ("known_groups", "journalled"):
        check = checked(**{known: 1})
        assert (check.judged, check.checked) == (True, 204)
        assert check.summary == "no node answered without a majority or beside a survivor"

"""Document `high-availability`: who counts as a holder of a partition's data when it is reset or
its chain is unwound, in groups that a file gives and in those that events made (holes 7 and 9)."""

from __future__ import annotations

from typing import Any

import pytest

ZONE = (
    "zone: {partitions: 1, replicas: 3, consistencyMode: HighAvailability, "
    "partitionDistributionResetTimeout: 5, dataNodesAutoAdjustScaleUp: 0}\n"
)
FIVE = "topology: {A: {}, B: {}, C: {}, D: {}, E: {}}\n"
ONE_LINK = "chain: [{nodes: [A, B, C], term: 1, index: 1}]"
LOGS = (
    "replicas: {0: {A: {term: 1, index: 10}, D: {term: 1, index: 10}, E: {term: 1, index: 11}}}\n"
)
TO_ADE = "- {at: 1, target: {partition: 0, nodes: [A, D, E]}}\n"
GRANTED = "- {at: 2, caughtUp: {partition: 0, peers: [A, D, E]}}\n"


def given(keys: str) -> str:
    return f"partitions: {{0: {{{keys}}}}}\n"


def links(answer: Any, seconds: float) -> list[tuple[str, int, int]]:
    found = answer.keys(seconds)["chain"]
    return [("".join(link["nodes"]), link["term"], link["index"]) for link in found]


@pytest.mark.parametrize("lost", ["B, C", "A, B, C"])
def test_hole_7_members_of_a_granted_pending_are_candidates(ask: Any, lost: str) -> None:
    events = f"events:\n{TO_ADE}{GRANTED}- {{at: 3, leave: [{lost}]}}\n"
    answer = ask(FIVE + ZONE + given("stable: [A, B, C], " + ONE_LINK) + LOGS + events)
    assert answer.keys(2)["pendingLock"]
    assert answer.sets(8)[1:] == ("E!", "DE*" if "A" in lost else "ADE*")


def test_hole_7_members_of_a_granted_pending_that_the_file_gives_are_candidates(ask: Any) -> None:
    keys = given("stable: [A, B, C], pending: [A, D, E], pendingLock: true, " + ONE_LINK)
    answer = ask(FIVE + ZONE + keys + LOGS + "events:\n- {at: 1, leave: [B, C]}\n")
    assert answer.sets(6) == ("ABC", "E!", "ADE*")


def test_a_granted_change_that_the_file_gives_without_its_leader_was_joint(ask: Any) -> None:
    topology = "topology: {D: {}, E: {}, F: {}}\n"
    keys = given("stable: [A, B, C], pending: [A, D, E], pendingLock: true, " + ONE_LINK)
    answer = ask(topology + ZONE + keys + LOGS + "events:\n- {at: 1, leave: [F]}\n")
    assert answer.sets(6) == ("ABC", "E!", "DE*")


def test_hole_7_members_that_are_being_caught_up_are_candidates(ask: Any) -> None:
    keys = given("stable: [A, B, C], " + ONE_LINK)
    logs = "replicas: {0: {A: {term: 1, index: 10}, D: {term: 1, index: 4}}}\n"
    events = "events:\n" + TO_ADE + "- {at: 3, leave: [B, C]}\n"
    answer = ask(FIVE + ZONE + keys + logs + events)
    assert answer.sets(8) == ("ABC", "A!", "ADE*")


@pytest.mark.parametrize(("lock", "pending"), [("false", "ABC*"), ("true", "B!")])
def test_after_a_reset_only_the_grant_shows_that_peers_hold_its_lineage(
    ask: Any, lock: str, pending: str
) -> None:
    keys = given(
        "stable: [A], pending: {nodes: [A, B, C], fromReset: true}, "
        f"pendingLock: {lock}, "
        "chain: [{nodes: [A, B, C], term: 1, index: 5}, {nodes: [A], term: 2, index: 7}]"
    )
    logs = "replicas: {0: {A: {term: 2, index: 8}, B: {term: 2, index: 8}}}\n"
    events = "events:\n- {at: 1, leave: [A]}\n"
    answer = ask("topology: {A: {}, B: {}, C: {}}\n" + ZONE + keys + logs + events)
    assert answer.sets(6)[1] == pending


def test_a_link_shows_the_term_and_index_of_the_report_that_made_it(ask: Any) -> None:
    keys = given(
        "stable: [A, B, C], pending: {nodes: [A], force: true}, "
        "planned: {nodes: [A, B], fromReset: true}, "
        "chain: [{nodes: [A, B, C], term: 9, index: 99}]"
    )
    events = (
        "events:\n"
        "- {at: 1, applied: {partition: 0, peers: [A], term: 1, index: 3}}\n"
        "- {at: 2, leaderElected: {partition: 0, node: A, term: 8}}\n"
        "- {at: 3, applied: {partition: 0, peers: [A, B], term: 2, index: 4}}\n"
    )
    answer = ask("topology: {A: {}, B: {}, C: {}}\n" + ZONE + keys + events)
    assert links(answer, 1) == [("ABC", 9, 99), ("A", 1, 3)]
    assert links(answer, 3)[:2] == [("ABC", 9, 99), ("AB", 2, 4)]


def test_hole_9_nodes_that_were_away_when_the_file_begins_come_back_with_their_logs(
    ask: Any,
) -> None:
    keys = given(
        "stable: [G], chain: [{nodes: [A, B, C, D, E, F, G], term: 1, index: 3}, "
        "{nodes: [E, F, G], term: 2, index: 7}, {nodes: [G], term: 3, index: 9}]"
    )
    log = "{{term: 1, index: {0}, lastUserCmdTerm: 1, lastUserCmdIdx: {0}}}"
    logs = (
        f"replicas: {{0: {{A: {log.format(10)}, E: {log.format(5)}, F: {log.format(5)}, "
        f"G: {log.format(5)}}}}}\n"
    )
    events = (
        "events:\n- {at: 1, leave: [G]}\n- {at: 10, join: {E: {}, F: {}}}\n"
        "- {at: 12, join: {G: {}}}\n- {at: 14, join: {A: {}}}\n"
    )
    zone = ZONE.replace("replicas: 3", "replicas: 7")
    answer = ask("topology: {G: {}}\n" + zone + keys + logs + events)
    assert not any("resetPeers" in action for action in answer.actions(12))
    assert answer.sets(14) == ("G", "A!", "AEFG*")

"""Highly available and volatile zones on a real node: the documents' own examples.

What each run shows is the analysis's to say: the expectations are in the scenarios.
"""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

SHORT = "times={beforeSeconds: 5, afterSeconds: 3}"


def stables(judged: Any) -> list[list[str]]:
    """The stable sets of partition 0, by the last character of their nodes' names."""
    found: list[list[str]] = []
    for event in judged.events("partition.changed"):
        names = [node[-1] for node in event["data"]["stable"]]
        if event["partition"] == 0 and names and found[-1:] != [names]:
            found.append(names)
    return found


def test_a_survivor_goes_on_alone_and_gives_up_exactly_what_it_lacked(run_scenario: Any) -> None:
    """The A-D scenario of the document high-availability."""
    judged = run_scenario("ha-loss", SHORT, "load.registerRate=50", "load.listRate=30")
    assert judged.exit_code == 0, judged.output
    sets = stables(judged)
    assert sets[:2] == [["0", "1", "2"], ["0"]]
    assert sets[-1] == ["0", "1", "2"]
    assert {event["node"][-1] for event in judged.events("group.reset")} == {"0"}
    print(judged.says("sacrificed-writes"))
    print(judged.says("availability"))


@pytest.mark.long
def test_the_first_node_back_of_a_stopped_group_waits_for_the_others(run_scenario: Any) -> None:
    """Steps 4 to 6 of the A-D scenario: nothing is reset, and no acknowledged write lost."""
    judged = run_scenario("ha-stopped", SHORT)
    assert judged.exit_code == 0, judged.output
    assert not judged.events("group.reset")
    assert stables(judged) == [["0", "1", "2"]]
    print(judged.says("availability"))


@pytest.mark.long
def test_behind_a_survivor_that_died_uncopied_a_person_lets_the_others_go_on(
    run_scenario: Any,
) -> None:
    """What node 2 took alone is given up, and its replicas are erased when it comes back."""
    judged = run_scenario("ha-dead-survivor", SHORT)
    assert judged.exit_code == 0, judged.output
    assert stables(judged)[:2] == [["0", "1", "2"], ["2"]]
    assert stables(judged)[-1] == ["0", "1"]
    (proof,) = [
        event["data"]["proof"]
        for event in judged.events("fault.effective")
        if event["data"]["type"] == "reset_by_hand"
    ]
    by_hand = {(one["partition"], one["token"], one["survivor"][-1]) for one in proof["partitions"]}
    told = {
        (event["partition"], event["data"]["lineage"], event["node"][-1])
        for event in judged.events("group.reset")
    }
    assert by_hand <= told
    assert {(number, node) for number, _, node in by_hand} == {(0, "0"), (1, "0")}
    assert {(number, node) for number, _, node in told - by_hand} == {(0, "2"), (1, "2")}
    for one in proof["partitions"]:
        assert one["given_up"][0].startswith("all that was written since the reset to zq-default-2")
    cleaned = [
        event["data"]["message"]
        for event in judged.events("kubernetes.event")
        if event["data"]["reason"] == "ReplicaCleaned"
    ]
    assert any(message.startswith("The replica on zq-default-2 is") for message in cleaned)
    audits = {
        (event["partition"], event["data"]["lineage"], event["node"][-1])
        for event in judged.events("replica.audit")
    }
    assert audits == {(number, token, node) for number, token, _ in by_hand for node in "01"}
    print(judged.says("resets"))
    print(judged.says("sacrificed-writes"))


@pytest.mark.long
def test_a_chain_is_unwound_to_the_last_set_that_was_written_to(run_scenario: Any) -> None:
    """Example 2 of the document high-availability: [A … G], then [E, F, G], then [G]."""
    judged = run_scenario("chain-example-2", SHORT)
    assert judged.exit_code == 0, judged.output
    last = max(judged.events("group.reset"), key=lambda event: event["data"]["lineage"])
    assert last["node"][-1] in "45", "E or F has what was written to [E, F, G]"
    print(judged.says("resets"))
    print(judged.says("restored-writes"))


@pytest.mark.long
def test_a_volatile_member_leaves_its_group_before_it_comes_back_to_it(run_scenario: Any) -> None:
    """The example of the document in-memory-reconfiguration."""
    judged = run_scenario("in-memory-restart", SHORT)
    assert judged.exit_code == 0, judged.output
    changes = [event["data"] for event in judged.events("partition.changed")]
    reduced = {node for change in changes for node in change["switch_reduce"]}
    appended = {node for change in changes for node in change["switch_append"]}
    assert appended
    assert appended <= reduced

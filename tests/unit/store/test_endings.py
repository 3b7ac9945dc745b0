"""What proves that a peer's process has ended, and what doesn't."""

from __future__ import annotations

import pytest

from zonequake_store.network.endings import EndDetector, Failure

REFUSED = Failure.REFUSED
AT, ELSEWHERE = "10.0.0.7:7001", "10.0.0.8:7001"


def spoken_to() -> EndDetector:
    ending = EndDetector()
    assert ending.greeted(AT, "p1") is None
    return ending


def test_a_connection_ended_by_the_peer_and_then_a_refusal_prove_it_once() -> None:
    ending = spoken_to()
    ending.lost(by_peer=True)
    assert ending.lost_address == AT
    assert ending.failed(AT, REFUSED) == "p1"
    assert ending.failed(AT, REFUSED) is None
    assert ending.lost_address is None


def test_another_incarnation_where_it_was_proves_it() -> None:
    ending = spoken_to()
    ending.lost(by_peer=True)
    assert ending.greeted(AT, "p2") == "p1"
    ending.lost(by_peer=True)
    assert ending.failed(AT, REFUSED) == "p2"


def test_another_incarnation_that_calls_from_where_it_was_proves_it() -> None:
    ending = spoken_to()
    assert ending.heard(AT, "p2") == "p1"
    assert ending.greeted(AT, "p2") is None


def test_a_refusal_alone_is_no_proof() -> None:
    ending = spoken_to()
    assert ending.failed(AT, REFUSED) is None
    assert EndDetector().failed(AT, REFUSED) is None


def test_a_connection_that_the_network_ended_is_no_proof() -> None:
    ending = spoken_to()
    ending.lost(by_peer=False)
    assert ending.lost_address is None
    assert ending.failed(AT, REFUSED) is None


def test_a_refusal_elsewhere_is_no_proof() -> None:
    ending = spoken_to()
    ending.lost(by_peer=True)
    assert ending.failed(ELSEWHERE, REFUSED) is None
    assert ending.failed(AT, REFUSED) == "p1"


def test_a_process_that_greets_again_lives() -> None:
    ending = spoken_to()
    ending.lost(by_peer=True)
    assert ending.greeted(AT, "p1") is None
    assert ending.failed(AT, REFUSED) is None


def test_another_incarnation_elsewhere_proves_nothing_of_the_old_one() -> None:
    ending = spoken_to()
    ending.lost(by_peer=True)
    assert ending.heard(ELSEWHERE, "p2") is None
    assert ending.failed(AT, REFUSED) is None, "p1 is not who the node is any more"
    ending = spoken_to()
    ending.lost(by_peer=True)
    assert ending.greeted(ELSEWHERE, "p2") is None


def test_a_call_that_comes_late_is_a_wrong_proof() -> None:
    ending = EndDetector()
    assert ending.greeted(AT, "p2") is None
    assert ending.heard(AT, "p1") == "p2", "p1 called before p2 began, and was heard after it"


@pytest.mark.parametrize("how", [Failure.SILENT, Failure.UNREACHABLE])
def test_an_attempt_that_only_fails_is_no_proof(how: Failure) -> None:
    ending = spoken_to()
    ending.lost(by_peer=True)
    assert ending.failed(AT, how) is None
    assert ending.failed(AT, REFUSED) == "p1", "and doesn't hide one"

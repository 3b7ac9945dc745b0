"""The suite on stores that are made up: a sound one keeps it, and each fault is said."""

from __future__ import annotations

import pytest

from tests.unit.targets.made_up_store import (
    Store,
    clean,
    suite_of,
    with_fault,
)
from zonequake_chaos.conformance import lost_answers
from zonequake_chaos.conformance.lost_answers import LOSSES
from zonequake_load.operation import Outcome, Type
from zonequake_load.pod.control import OperationRequest


async def test_a_sound_store_keeps_every_step() -> None:
    suite = suite_of(Store())
    assert clean(await suite.answers())
    assert clean(await suite.transactions())
    lost = await suite.lost_answers()
    assert clean(lost)
    assert lost.note == "5 unknown; a planted lie about 5 more was noticed"
    assert clean(await suite.replayed_request())


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("places", "without a place in the claimed order"),
        ("loses", "reads found"),
        ("compares", "a cas that expects another value came to"),
    ],
)
async def test_answers_that_are_wrong_are_said(fault: str, words: str) -> None:
    result = await suite_of(with_fault(**{fault: not getattr(Store, fault)})).answers()
    assert any(words in problem for problem in result.problems), result


@pytest.mark.parametrize("member", [None, "192.0.2.7:2379"])
async def test_answers_that_name_no_member_are_said(member: str | None) -> None:
    store = Store()
    store.member = member
    problems = (await suite_of(store).answers()).problems
    assert len(problems) == 6, "each answer"
    assert all(f"by {member!r}, expected the name of a member: m0, m1" in one for one in problems)


async def test_one_place_for_all_answers_is_no_order() -> None:
    result = await suite_of(with_fault(same_place=True)).answers()
    assert len(result.problems) == 4
    assert all("has the place (0, 0, 1) in the claimed" in problem for problem in result.problems)


async def test_places_are_not_asked_for_of_a_target_that_claims_no_order() -> None:
    suite = suite_of(with_fault(places=False), order="")
    assert clean(await suite.answers())


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("tears", "after two transactions reads found"),
        ("loses", "a transaction that reads"),
        ("compares", "a transaction whose cas expects another value came to"),
    ],
)
async def test_transactions_that_are_done_in_part_are_said(fault: str, words: str) -> None:
    store = with_fault(**{fault: not getattr(Store, fault)})
    result = await suite_of(store).transactions()
    assert any(words in problem for problem in result.problems), result


async def test_transactions_that_are_not_claimed_are_not_asked_for() -> None:
    result = await suite_of(with_fault(tears=True), repeats=False).transactions()
    assert clean(result)
    assert result.note == "not claimed"


async def test_a_client_that_takes_errors_for_certain_is_noticed() -> None:
    result = await suite_of(with_fault(lies=True)).lost_answers()
    assert any("certainly failed, as the client says" in problem for problem in result.problems)


async def test_a_client_that_takes_errors_of_transactions_for_certain_is_noticed() -> None:
    lying = with_fault(lies_of_transactions=True)
    problems = (await suite_of(lying).lost_answers()).problems
    assert len(problems) == 2, "each of its writes"
    assert all("certainly failed, as the client says" in problem for problem in problems)
    assert clean(await suite_of(lying, repeats=False).lost_answers()), "they are not claimed"


async def test_a_client_that_sends_again_what_may_have_happened_is_noticed() -> None:
    result = await suite_of(with_fault(resends=True, knows_ids=False)).lost_answers()
    assert any("was carried out 2 times" in problem for problem in result.problems)


@pytest.mark.parametrize("fault", ["loses", "ignores_lost"])
async def test_cuts_that_let_nothing_through_decide_nothing(fault: str) -> None:
    store = with_fault(**{fault: True})
    result = await suite_of(store).lost_answers()
    assert not result.problems
    (unknown,) = result.unknown
    assert "had an effect, in 3 losses, so that neither a wrong outcome nor a planted" in unknown
    assert store.cuts == LOSSES


async def test_a_cut_that_lets_nothing_through_is_repeated() -> None:
    store = Store()
    store.ignored_cuts = LOSSES - 1
    result = await suite_of(store).lost_answers()
    assert clean(result)
    assert result.note == "15 unknown; a planted lie about 5 more was noticed"
    assert store.cuts == LOSSES + 1


async def test_a_client_that_prepares_its_statements_is_warm_before_a_loss() -> None:
    store = with_fault(prepares=True)
    result = await suite_of(store).lost_answers()
    assert clean(result)
    assert "more was noticed" in result.note
    assert store.cuts == 2


async def test_a_lie_that_can_not_show_is_undecided() -> None:
    store = with_fault(ignores_liars=True)
    result = await suite_of(store).lost_answers()
    assert not result.problems
    (unknown,) = result.unknown
    assert unknown.startswith("a planted lie could not show")
    assert store.cuts == 1 + LOSSES


async def test_a_lie_that_is_not_told_is_a_problem() -> None:
    result = await suite_of(with_fault(plants_lies=False)).lost_answers()
    (problem,) = result.problems
    assert problem.startswith("a planted lie was not noticed: 5 lost operations had an effect")
    assert "told 5 unknown, expected that each of them failed" in problem


async def test_a_judge_that_takes_failures_as_they_are_told_is_found_by_the_lie(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lost_answers, "contradictions", lambda asked, found: [])
    (problem,) = (await suite_of(Store()).lost_answers()).problems
    assert problem.startswith("a planted lie was not noticed")
    assert "told 5 failed" in problem


async def test_a_store_that_applies_a_repeated_request_twice_is_noticed_if_it_claims_not_to() -> (
    None
):
    claimed = await suite_of(with_fault(knows_ids=False)).replayed_request()
    assert any("was carried out 2 times" in problem for problem in claimed.problems)
    other = await suite_of(with_fault(knows_ids=False), repeats=False).replayed_request()
    assert clean(other)
    assert other.note.startswith("not claimed")


async def test_a_store_that_forgets_requests_whose_answer_was_lost_is_noticed() -> None:
    sound = await suite_of(Store()).replayed_request()
    assert "a request whose answer was lost was sent again" in sound.note
    result = await suite_of(with_fault(forgets_lost_ids=True)).replayed_request()
    assert any("was carried out 2 times" in problem for problem in result.problems), result


async def test_without_a_lost_answer_a_replay_decides_nothing_of_it() -> None:
    result = await suite_of(with_fault(ignores_lost=True)).replayed_request()
    assert not result.problems
    (unknown,) = result.unknown
    assert "expected an effect and an unknown outcome" in unknown
    result = await suite_of(Store(), cuts_links=False).replayed_request()
    assert not result.problems
    assert "faultAgent.enabled=true" in result.unknown[0]


@pytest.mark.parametrize(
    ("value", "type_", "words"),
    [(9, Type.OK, "found 9, which was never written"), (None, Type.FAIL, "read ended fail")],
)
async def test_a_bounded_read_that_is_of_nothing_is_said(
    value: int | None, type_: Type, words: str
) -> None:
    class Strange(Store):
        async def _execute(self, asked: OperationRequest) -> Outcome:
            (step, *_) = asked.steps
            if step.bounded:
                return Outcome(type=type_, attempts=1, value=value)
            return await super()._execute(asked)

    result = await suite_of(Strange()).answers()
    assert any(words in problem for problem in result.problems), result

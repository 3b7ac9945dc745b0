"""The few operations that show why a register whose values repeat has no order."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from tests.histories.repeated_values import as_reference, hot_register, small_histories
from tests.unit.analysis.made_up_evidence import finding
from zonequake_analysis.checks.search.named_witness import witness_of
from zonequake_analysis.checks.search.order_search import Answer, search
from zonequake_analysis.checks.search.order_witness import MOST_SHOWN, Few, without_order
from zonequake_analysis.checks.search.reference import is_linearizable
from zonequake_analysis.checks.search.register_step import Step
from zonequake_analysis.checks.search.witness import Witness, WitnessOperation
from zonequake_analysis.inputs.shapes import NEVER_NS, Function


def operations(history: Sequence[Step]) -> list[WitnessOperation]:
    return [
        WitnessOperation(
            op=f"1-{number}",
            process=1,
            node="",
            role="load",
            outcome="info" if step.fin_ns == NEVER_NS else "ok",
            step=step,
            term=None,
            index=None,
            key="k",
        )
        for number, step in enumerate(as_reference(history))
    ]


def shown(history: Sequence[Step], kind: str = "no-order") -> Witness:
    return witness_of(operations(history), finding(kind, check="search", zone="z", op="", at_ns=0))


def names(witness: Witness) -> list[str]:
    return [o.op for o in witness.operations]


def test_a_stale_read_is_shown_with_the_write_it_shows_and_the_one_that_hid_it() -> None:
    history = [
        step
        for at in range(0, 400, 10)
        for step in (
            Step(Function.WRITE, at, at + 4, at % 3),
            Step(Function.READ, at + 5, at + 9, at % 3),
        )
    ]
    stale = Step(Function.READ, 400, 401, (390 - 10) % 3)
    found = shown([*history, stale])
    assert found.proven
    assert names(found) == ["1-76", "1-78", f"1-{len(history)}"]


def test_the_witness_of_a_hot_register_is_small_and_alone_has_no_order() -> None:
    history = hot_register(1000, clients=12, values=3)
    end = max(step.fin_ns for step in history)
    wrong = [Step(Function.WRITE, end + 1, end + 2, 0), Step(Function.READ, end + 3, end + 4, 1)]
    found = shown([*history, *wrong])
    assert found.proven
    assert len(found.operations) <= 3


def test_what_is_left_of_a_history_with_an_order_has_one_too() -> None:
    """Else an operation was left out that an answer may have observed."""
    rng, tested = Random(9), 0
    for history in small_histories(rng, 800):
        if search(history).answer is not Answer.ORDER:
            continue
        few = Few(history, range(len(history)))
        for _ in range(4):
            some = [place for place in range(len(history)) if rng.random() < 0.7]
            tested += 1
            assert not few.has_no_order(some), (history, some)
    assert tested > 1600


def test_a_spoilt_history_has_a_witness_and_most_prove_themselves() -> None:
    proven, spoilt = 0, 0
    for history in small_histories(Random(10), 800):
        few = without_order(operations(history))
        assert bool(few) == (search(history).answer is Answer.NO_ORDER)
        spoilt += bool(few)
        proven += not is_linearizable([o.step for o in few])
        assert len(few) <= MOST_SHOWN
    assert 0.9 * spoilt < proven


def test_a_search_that_gave_up_has_no_proof() -> None:
    history = hot_register(30, clients=5)
    found = shown(history, "gave-up")
    assert not found.proven

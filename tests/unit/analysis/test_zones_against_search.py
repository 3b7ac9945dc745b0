"""The zone sweep over arrays against exhaustive search, over many random register histories."""

from random import Random

from tests.histories.small_histories import histories, steps
from zonequake_analysis.checks.search.reference import ReferenceStep, is_linearizable
from zonequake_analysis.checks.search.witness import lists_fail, registers_fail
from zonequake_analysis.inputs.shapes import Function


def test_zones_agree_with_search_on_six_thousand_register_histories() -> None:
    illegal = 0
    for case in histories(Random(3), 6000, lists=False, spoil=0.7):
        given = steps(case)
        legal = is_linearizable(given)
        illegal += not legal
        assert registers_fail(given) == (not legal), case
    assert illegal > 500


def test_prefixes_agree_with_search_on_six_thousand_list_histories() -> None:
    illegal = 0
    for case in histories(Random(4), 6000, lists=True, spoil=0.7):
        given = steps(case)
        legal = is_linearizable(given)
        illegal += not legal
        assert lists_fail(given) == (not legal), case
    assert illegal > 500


def test_search_knows_the_classic_stale_read() -> None:
    write = ReferenceStep(f=Function.WRITE, inv_ns=0, fin_ns=1, value=1)
    assert is_linearizable([write, ReferenceStep(f=Function.READ, inv_ns=2, fin_ns=3, value=1)])
    assert not is_linearizable(
        [write, ReferenceStep(f=Function.READ, inv_ns=2, fin_ns=3, value=None)]
    )

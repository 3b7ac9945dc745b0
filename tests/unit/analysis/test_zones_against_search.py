"""The zone sweep over arrays against exhaustive search, over many random register histories."""

from random import Random

import numpy as np
import pytest

from tests.histories.small_histories import histories, steps
from zonequake_analysis.checks.register_zones import KINDS, Clusters, violations
from zonequake_analysis.checks.search.reference import ReferenceStep, is_linearizable
from zonequake_analysis.checks.search.witness import lists_fail, registers_fail
from zonequake_analysis.inputs.shapes import NEVER_NS, Function


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


def test_a_value_that_is_written_again_by_a_cas_is_named_and_not_taken_for_a_cycle() -> None:
    """Write 0, cas 0 → 1, cas 1 → 0: an order exists, and the zones can't tell."""
    codes = violations(
        Clusters(
            key=np.zeros(2, np.int64),
            value=np.array([0, 1]),
            first_finish=np.array([1, 3]),
            last_start=np.array([4, 2]),
            write_start=np.array([4, 2]),
            first_read_end=np.full(2, NEVER_NS),
            writes=np.array([2, 1]),
            answered=np.array([2, 1]),
            by_cas=np.array([True, True]),
            expected=np.array([1, 0]),
        )
    )
    assert "value-twice" in {KINDS[code] for code in codes}


@pytest.mark.parametrize("value", [-(2**62), -3, -1, 0, 1, 7, 2**62])
@pytest.mark.parametrize("by_cas", [False, True])
def test_a_fork_is_found_whatever_number_the_two_cas_expected(value: int, by_cas: bool) -> None:
    """No number stands for "no cas"."""
    written = ReferenceStep(f=Function.WRITE, inv_ns=0, fin_ns=1, value=11 if by_cas else value)
    again = ReferenceStep(f=Function.CAS, inv_ns=2, fin_ns=3, value=value, expected=11)
    before = [written, again] if by_cas else [written]
    forks = [
        ReferenceStep(f=Function.CAS, inv_ns=at, fin_ns=at + 1, value=at, expected=value)
        for at in (20, 30)
    ]
    assert not registers_fail([*before, forks[0]])
    assert registers_fail([*before, *forks])
    assert not is_linearizable([*before, *forks])

"""Cycles among transactions: planted anomalies, and thousands of small histories against search."""

from collections import Counter
from random import Random
from typing import Any

import pytest

from tests.histories.small_transactions import has_order, small, worst_kind
from zonequake_analysis.checks.transactions.cycles import (
    MOST_BEGINNINGS,
    Cycle,
    CycleKind,
    Dependency,
    _path,
    cycles,
)
from zonequake_analysis.checks.transactions.recorded import ListTransaction
from zonequake_analysis.inputs.shapes import OutcomeCode

Lists = dict[str, list[int]]


def transaction(
    op: str, appends: dict[str, int] | None = None, reads: Lists | None = None, **more: object
) -> ListTransaction:
    made = ListTransaction(op=op, inv_ns=0, fin_ns=9, appends=appends or {}, reads=reads or {})
    return made if not more else ListTransaction(**{**_fields(made), **more})  # type: ignore[arg-type]


def _fields(one: ListTransaction) -> dict[str, object]:
    return {name: getattr(one, name) for name in ListTransaction.__dataclass_fields__}


def told(cycle: Cycle) -> tuple[CycleKind, set[str], list[str]]:
    """The kind, the operations, and the kinds of edges."""
    return cycle.kind, {one.op for one in cycle.transactions}, sorted(k for k, _ in cycle.edges)


def test_two_transactions_append_in_different_orders() -> None:
    found = cycles(
        [
            transaction("1", {"a": 1, "b": 1}),
            transaction("2", {"a": 2, "b": 2}),
            transaction("3", reads={"a": [1, 2]}),
            transaction("4", reads={"b": [2, 1]}),
        ]
    )
    assert [told(one) for one in found] == [(CycleKind.G0, {"1", "2"}, ["ww", "ww"])]


def test_two_transactions_show_each_other() -> None:
    found = cycles(
        [
            transaction("1", {"a": 1}, {"b": [2]}),
            transaction("2", {"b": 2}, {"a": [1]}),
        ]
    )
    assert [told(one) for one in found] == [(CycleKind.G1C, {"1", "2"}, ["wr", "wr"])]


def test_a_read_shows_one_append_and_not_the_other() -> None:
    found = cycles(
        [
            transaction("1", {"a": 1, "b": 1}),
            transaction("2", reads={"a": [1], "b": []}),
            transaction("3", reads={"b": [1]}),
        ]
    )
    assert [told(one) for one in found] == [(CycleKind.G_SINGLE, {"1", "2"}, ["rw", "wr"])]


def test_an_append_that_no_read_shows_comes_after_every_read() -> None:
    found = cycles(
        [
            transaction("1", {"a": 1, "b": 1}, outcome=OutcomeCode.INFO),
            transaction("2", reads={"a": [1], "b": []}),
        ]
    )
    assert [told(one) for one in found] == [(CycleKind.G_SINGLE, {"1", "2"}, ["rw", "wr"])]


def test_write_skew_needs_two_reads_that_miss() -> None:
    found = cycles(
        [
            transaction("1", {"a": 1}, {"b": []}),
            transaction("2", {"b": 2}, {"a": []}),
        ]
    )
    assert [told(one) for one in found] == [(CycleKind.G2, {"1", "2"}, ["rw", "rw"])]


def skewed(*places: int | None) -> list[ListTransaction]:
    """Two transactions that miss each other's append, and one that shows the first of them."""
    first, second, third = places
    return [
        transaction("1", {"a": 1, "c": 3}, {"b": []}, position=first),
        transaction("2", {"b": 2}, {"a": []}, position=second),
        transaction("3", reads={"c": [3]}, position=third),
    ]


@pytest.mark.parametrize(
    ("places", "claimed"),
    [((1, 2, 3), True), ((1, 2, None), True), ((1, None, 3), False), ((None,) * 3, False)],
)
def test_a_cycle_contradicts_an_order_if_all_that_are_on_it_claim_a_place(
    places: tuple[int | None, ...], claimed: bool
) -> None:
    (found,) = cycles(skewed(*places))
    assert found.kind is CycleKind.G2
    assert found.claims_an_order is claimed


def test_a_transaction_without_an_answer_claims_nothing_and_excuses_nothing() -> None:
    (found,) = cycles(
        [
            transaction("1", {"a": 1}, {"b": []}, position=1),
            transaction("2", {"b": 2, "c": 3}, outcome=OutcomeCode.INFO),
            transaction("3", reads={"c": [3], "a": []}, position=2),
        ]
    )
    assert told(found) == (CycleKind.G2, {"1", "2", "3"}, ["rw", "rw", "wr"])
    assert found.claims_an_order


def test_few_paths_are_followed_in_a_store_whose_reads_all_miss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    followed: list[int] = []

    def noted(*of: Any) -> Any:
        followed.append(of[1])
        return _path(*of)

    monkeypatch.setattr(f"{cycles.__module__}._path", noted)
    skewed = [
        transaction(str(number), {f"k{number}": number}, {f"k{(number + 1) % 1_000}": []})
        for number in range(1_000)
    ]
    (found,) = cycles(skewed)
    assert (found.kind, len(found.transactions)) == (CycleKind.G2, 1_000)
    assert len(followed) == MOST_BEGINNINGS


def test_a_long_cycle_is_told_whole_with_the_key_of_each_edge() -> None:
    (found,) = cycles(
        [
            transaction("1", {"a": 1}, {"c": [3]}),
            transaction("2", {"b": 2}, {"a": [1]}),
            transaction("3", {"c": 3}, {"b": [2]}),
        ]
    )
    assert found.kind is CycleKind.G1C
    assert [one.op for one in found.transactions] == ["1", "2", "3"]
    assert found.edges == tuple((Dependency.WR, key) for key in "abc")


def test_an_open_transaction_without_effect_proves_nothing() -> None:
    assert not list(
        cycles(
            [
                transaction("1", {"a": 1, "b": 1}, outcome=OutcomeCode.INFO),
                transaction("2", reads={"a": [], "b": []}),
            ]
        )
    )


def test_a_key_without_an_order_gives_no_edges() -> None:
    assert not list(
        cycles(
            [
                transaction("1", {"a": 1, "b": 1}),
                transaction("2", {"a": 2, "b": 2}),
                transaction("3", reads={"a": [1, 2]}),
                transaction("4", reads={"b": [2, 1]}),
                transaction("5", reads={"b": [1]}),
            ]
        )
    )


@pytest.mark.parametrize("seed", range(20))
def test_small_histories_against_search(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{cycles.__module__}._TOGETHER", 1 + seed % 3)
    rng = Random(seed)
    seen = Counter[str | None]()
    for _ in range(150):
        history = small(rng)
        found = [one.kind.value for one in cycles(history)]
        expected = worst_kind(history)
        assert (found[0] if found else None) == expected, history
        assert has_order(history) is (expected is None), history
        seen[expected] += 1
    assert seen[None]
    assert seen["G-single"]

"""Locks on keys, with a queue (document `update-counters`, Lock(k)); a transaction's parts."""

from __future__ import annotations

from zonequake_protocol.client import Append, Cas, Read, RequestId, Transaction, Write
from zonequake_store.replica.requests import begin_of
from zonequake_store.state.transactions import StepKind, TransactionId, TransactionStep
from zonequake_store.transactions.locks import LockTable


def tx(number: int) -> TransactionId:
    return TransactionId("g", 1, number)


def test_a_lock_is_exclusive_and_goes_to_the_one_that_has_waited_longest() -> None:
    locks = LockTable()
    assert locks.request(tx(1), ["a"])
    assert locks.request(tx(2), ["c"]), "another key"
    assert not locks.request(tx(3), ["a", "b"])
    assert not locks.request(tx(4), ["b"]), "b is free, but tx 3 came before"
    assert not locks.request(tx(5), ["a"])
    assert locks.release(tx(2)) == []
    assert locks.release(tx(1)) == [tx(3)]
    assert locks.release(tx(3)) == [tx(4), tx(5)]
    assert not locks.is_waited_for


def test_who_gives_up_waiting_lets_those_behind_it_pass() -> None:
    locks = LockTable()
    assert locks.request(tx(1), ["a"])
    assert not locks.request(tx(2), ["a", "b"])
    assert not locks.request(tx(3), ["b"])
    assert locks.release(tx(2)) == [tx(3)]


def test_a_transaction_is_split_by_groups_each_with_its_own_steps_and_their_places() -> None:
    begin = begin_of(
        Transaction(
            group="g0",
            steps=[
                Write(group="g0", key="a", value=1),
                Read(group="g1", key="b"),
                Append(group="g0", key="c", value=2),
                Cas(group="g1", key="d", expected=3, value=4),
            ],
            request_id=RequestId("c", 1),
            nodes={"g0": ["n0"], "g1": ["n1", "n2"]},
        )
    )
    assert begin.steps == {
        "g0": (TransactionStep(StepKind.WRITE, "a", 1), TransactionStep(StepKind.APPEND, "c", 2)),
        "g1": (TransactionStep(StepKind.READ, "b"), TransactionStep(StepKind.CAS, "d", 4, 3)),
    }
    assert begin.places == {"g0": (0, 2), "g1": (1, 3)}
    assert begin.nodes == {"g0": ("n0",), "g1": ("n1", "n2")}

"""Orders are repeated without end, ever more slowly."""

from __future__ import annotations

import itertools

from zonequake_operator.pacing import MAX_DELAY_S, Pacer
from zonequake_operator.plan import SendOrder
from zonequake_store.admin_protocol import StopReplica


def send(token: int) -> SendOrder:
    return SendOrder(node="A", order=StopReplica(group="g", token=token, incarnation="i"))


def test_an_order_is_repeated_with_growing_delays_and_never_given_up() -> None:
    pacer = Pacer()
    times = [t / 10 for t in range(1000) if pacer.due([send(1)], t / 10)]
    gaps = [b - a for a, b in itertools.pairwise(times)]
    assert times[0] == 0
    assert gaps[0] < 0.5
    assert all(a <= b + 0.2 for a, b in itertools.pairwise(gaps))
    assert MAX_DELAY_S - 0.2 <= gaps[-1] <= MAX_DELAY_S + 0.2


def test_another_order_goes_at_once() -> None:
    pacer = Pacer()
    assert pacer.due([send(1)], 0.0) == [send(1)]
    assert pacer.due([send(1), send(2)], 0.1) == [send(2)]


def test_an_order_that_was_not_wanted_meanwhile_is_new_again() -> None:
    pacer = Pacer()
    pacer.due([send(1)], 0.0)
    pacer.due([], 0.1)
    assert pacer.due([send(1)], 0.2) == [send(1)]

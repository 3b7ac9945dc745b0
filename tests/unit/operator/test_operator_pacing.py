"""Orders are repeated without end, ever more slowly."""

from __future__ import annotations

import itertools
from dataclasses import replace

from zonequake_operator.controller.pacing import KEEP_S, MAX_DELAY_S, MAX_RETRY_DELAY_S, Pacer
from zonequake_operator.planning.zone_orders import SendOrder
from zonequake_operator.resources.model import ChangeAttempts
from zonequake_protocol.admin import ChangePeers, PeerName, StopReplica


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
    assert times[-1] > 100 - MAX_DELAY_S - 0.2


def test_another_order_goes_at_once() -> None:
    pacer = Pacer()
    assert pacer.due([send(1)], 0.0) == [send(1)]
    assert pacer.due([send(1), send(2)], 0.1) == [send(2)]


def test_an_order_that_was_not_wanted_meanwhile_is_new_again() -> None:
    pacer = Pacer()
    pacer.due([send(1)], 0.0)
    pacer.due([], 0.1)
    assert pacer.due([send(1)], 0.2) == [send(1)]


def change(token: int, term: int = 1) -> SendOrder:
    order = ChangePeers(group="g", term=term, token=token, peers=[PeerName("A", "1")])
    return SendOrder(node="A", order=order)


def test_a_change_that_failed_is_asked_for_ever_more_seldom_and_without_end() -> None:
    """While its leader tries, it isn't wanted; that must not make the next attempt a first one."""
    pacer = Pacer()
    times, wait_until_s = [], 0.0
    for tenth in range(6000):
        now_s = tenth / 10
        if now_s < wait_until_s:
            assert pacer.due([], now_s) == []
        elif pacer.due([change(5)], now_s):
            times.append(now_s)
            wait_until_s = now_s + 0.2  # it fails at once
    gaps = [b - a for a, b in itertools.pairwise(times)]
    assert gaps[0] < 0.5
    assert all(a <= b + 0.2 for a, b in itertools.pairwise(gaps))
    assert MAX_RETRY_DELAY_S - 0.2 <= gaps[-1] <= MAX_RETRY_DELAY_S + 0.2
    assert times[-1] > 600 - MAX_RETRY_DELAY_S - 1, "it is never given up"
    assert pacer.attempts == {"g": ChangeAttempts(token=5, count=len(times))}


def test_a_new_leader_is_asked_at_once_and_another_change_begins_at_one() -> None:
    pacer = Pacer()
    for second in range(20):
        pacer.due([change(5)], float(second))
    asked = pacer.attempts["g"].count
    assert pacer.due([change(5, term=2)], 20.0), "onLeaderElected"
    assert pacer.attempts["g"].count == asked + 1
    assert pacer.due([change(6, term=2)], 20.1)
    assert pacer.attempts["g"] == ChangeAttempts(token=6, count=1)


def test_a_change_that_ended_is_forgotten() -> None:
    pacer = Pacer()
    pacer.due([change(5)], 0.0)
    pacer.due([], KEEP_S)
    assert pacer.attempts == {}


def test_an_erasure_with_patience_leaves_once_it_was_called_for_so_long() -> None:
    def erasure(token: int) -> SendOrder:
        return replace(send(token), patience_s=3.0)

    pacer = Pacer()
    assert pacer.due([erasure(1)], 0.0) == []
    assert pacer.due([erasure(2)], 2.9) == [], "another wish, and still not this one's"
    assert pacer.due([erasure(2)], 3.0) == [erasure(2)]
    pacer.due([], 4.0)
    assert pacer.due([erasure(4)], 5.0) == [], "it was wanted meanwhile"

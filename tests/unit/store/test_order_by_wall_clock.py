"""The planted fault `order-by-wall-clock`: which writes it takes for older than the last one."""

from __future__ import annotations

from zonequake_store.replica.planted_faults import WallOrder


def test_no_write_is_late_while_the_clock_goes_forward() -> None:
    times = iter([1, 1, 2, 5])
    order = WallOrder(lambda: next(times))
    assert not any(order.is_late("z.0", "k") for _ in range(4))


def test_a_write_is_late_until_the_clock_is_past_the_latest_one_of_its_key() -> None:
    now = [100]
    order = WallOrder(lambda: now[0])
    assert not order.is_late("z.0", "k")
    now[0] = 50
    assert order.is_late("z.0", "k")
    assert not order.is_late("z.0", "another key")
    assert not order.is_late("z.1", "k"), "of another group"
    now[0] = 99
    assert order.is_late("z.0", "k"), "a late one doesn't become the latest"
    now[0] = 100
    assert not order.is_late("z.0", "k")

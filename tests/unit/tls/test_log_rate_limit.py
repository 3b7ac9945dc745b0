"""How often strangers come to be told of."""

from __future__ import annotations

import logging

from zonequake_tls.http_server import LogFilter
from zonequake_tls.log_rate_limit import MINUTE_S, LogRateLimit


class Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def test_so_many_a_minute_are_said_and_the_others_counted_when_it_is_over() -> None:
    clock, held = Clock(), list[int]()
    limit = LogRateLimit(3, now_s=clock, held=held.append)
    assert [limit.passes() for _ in range(8)] == [True] * 3 + [False] * 5
    clock.now_s += MINUTE_S - 0.1
    limit.tick()
    assert held == []
    clock.now_s += 0.1
    limit.tick()
    assert held == [5]
    assert [limit.passes() for _ in range(4)] == [True, True, True, False]
    clock.now_s += MINUTE_S
    assert limit.passes()
    assert held == [5, 1]


def test_a_quiet_minute_is_not_spoken_of() -> None:
    clock, held = Clock(), list[int]()
    limit = LogRateLimit(3, now_s=clock, held=held.append)
    assert limit.passes()
    for _ in range(5):
        clock.now_s += MINUTE_S
        limit.tick()
    assert held == []


def test_what_a_stranger_said_is_taken_out_of_a_record() -> None:
    log_filter = LogFilter(now_s=Clock())
    secret = ValueError("do-not-write-me-down")
    record = logging.LogRecord("a", logging.ERROR, "f", 1, "Error", (), (ValueError, secret, None))
    assert log_filter.filter(record)
    assert record.getMessage() == "Error: ValueError"
    assert record.exc_info is None

"""A scenario of a team's own, as a test: `pytest --zonequake-context CONTEXT test_orders.py`."""

import pytest


@pytest.mark.zonequake(zones={"orders": {"partitions": 4, "replicas": 3}}, seed=7)
def test_orders_outlive_their_leaders(zonequake):
    zonequake.load(register_rate=150, list_rate=100, processes=64)
    zonequake.times(before_s=4, after_s=3)
    zonequake.inject("process_kill", role="leader", when="settled", times=2, pause_s=2)
    zonequake.expect(lost=0, stale=0, max_window_ms=10_000)

    result = zonequake.run()

    assert result.passed
    assert result.checks["lost-writes"].checked > 100

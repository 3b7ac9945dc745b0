"""A zone's timer on the real API server fires at its second, whatever becomes of the operator."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from tests.kube.operator.api_server import wait_until
from tests.kube.operator.rebalances import FOURTH, Move, Rebalances, name, rebalances
from tests.kube.operator.relay import Moment, Way

if TYPE_CHECKING:
    from tests.kube.operator.api_server import ApiServer

pytestmark = pytest.mark.kube

WAIT_S = 30
"""Longer than a rebalance with a killed operator takes on a busy machine."""
RESTART_S = 8.0
"""So long the next operator may take until it answers, on a busy machine."""
ZONE = "timed"


@pytest.fixture(scope="module")
def running(
    api_server: ApiServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Rebalances]:
    with rebalances(api_server, tmp_path_factory.mktemp("timers")) as found:
        found.api.create_zone(
            ZONE, partitions=1, dataNodesAutoAdjustScaleUp=WAIT_S, dataNodesAutoAdjustScaleDown=0
        )
        wait_until(lambda: status(found).get("dataNodeCount") == 3)
        yield found


def status(running: Rebalances) -> dict[str, Any]:
    return running.api.get("dz", ZONE).get("status") or {}


def fired_at(running: Rebalances, timer: dict[str, Any]) -> float:
    """When the fourth node became a data node, unix seconds; until then this timer is armed."""

    def has_fired() -> bool:
        found = status(running)
        if name(FOURTH) in found["dataNodes"]:
            return True
        assert found["scaleUp"] == timer, "no operator arms it again"
        return False

    wait_until(has_fired)
    return time.time()


def seconds(rfc3339: str) -> float:
    return datetime.fromisoformat(rfc3339).timestamp()


@pytest.mark.long
@pytest.mark.parametrize("way", [Way.AFTER, Way.LAST])
def test_a_timer_goes_on_if_the_operator_dies_as_it_arms_or_holds_it(
    running: Rebalances, way: Way
) -> None:
    """At the write that accepts the joined node, and again while the timer runs."""
    armed = Moment(number=1, way=way, of="distributionzones: revision")
    joined_s = time.time()
    assert running.go(Move.JOIN, armed).problems == []
    timer = status(running)["scaleUp"]
    deadline_s = seconds(timer["deadline"])
    assert timer["nodes"] == [name(FOURTH)]
    assert joined_s <= seconds(timer["armedAt"]) == deadline_s - WAIT_S
    if time.time() < deadline_s - RESTART_S:
        running.replace_operator()
    assert deadline_s <= fired_at(running, timer)
    assert "scaleUp" not in status(running)
    assert running.go(Move.LOSS).problems == []
    wait_until(lambda: status(running)["dataNodeCount"] == 3)

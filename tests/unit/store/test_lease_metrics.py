"""What a node tells Prometheus of its Lease, also while the API server is away."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.store.one_node import OneNode
from zonequake_store.lease.clock import boottime_s
from zonequake_store.lease.rules.node_lease import LeaseRecord
from zonequake_store.serving.metrics import NodeCollector


def told(node: OneNode) -> tuple[float, float, float]:
    """Needed, held, unrenewed for so long."""
    samples = {
        sample.name: sample.value
        for metric in NodeCollector(node.host, list).collect()
        for sample in metric.samples
    }
    names = ("needed", "held", "unrenewed_seconds")
    needed, held, unrenewed_s = (samples[f"zonequake_store_lease_{name}"] for name in names)
    return needed, held, unrenewed_s


async def test_a_lease_is_needed_and_held_and_no_longer_held(tmp_path: Path) -> None:
    async with OneNode(tmp_path) as node:
        lease, now_s = node.host.lease, boottime_s()
        assert told(node) == (0, 0, 0)
        lease.want(True)
        lease.next_call(now_s)
        assert told(node)[:2] == (1, 0)
        lease.found(None, None)
        lease.next_call(now_s)
        lease.stored("1")
        assert told(node)[:2] == (1, 1)
        lease.next_call(now_s + lease.duration_s)
        lease.refused()
        lease.next_call(now_s + lease.duration_s)
        lease.found(LeaseRecord(holder="another", session=2), "2")
        needed, held, unrenewed_s = told(node)
        assert (needed, held) == (1, 0)
        assert unrenewed_s == pytest.approx(boottime_s() - now_s, abs=1.0)

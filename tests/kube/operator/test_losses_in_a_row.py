"""Nodes that are lost one after the other are counted out as their ends are seen, though others
hang: beside a real API server, with the real operator."""

from __future__ import annotations

import time
from functools import partial

import pytest

from tests.kube.operator import patient_operator
from tests.kube.operator.api_server import wait_until
from tests.kube.operator.light_nodes import LightNodes, light_nodes
from tests.kube.operator.losses_in_a_row import create, measure, request
from tests.kube.operator.machine import Machine
from tests.kube.operator.patient_operator import HANGS_S

pytestmark = pytest.mark.kube

LOST = (2, 5, 20)
STAYS = 2
"""One answers, and one hangs all the time."""
LIMIT_S = HANGS_S / 2
"""A round that waits for a node that hangs takes longer. On an idle machine it takes a tenth of a
second (benchmarks/operator/bench_losses.py)."""


def lose(nodes: LightNodes, ordinal: int) -> float:
    nodes.hanging.add(ordinal)
    said_s = time.monotonic()
    request(nodes.api, "PATCH", nodes.path(ordinal), {"status": nodes.ended(ordinal)}).close()
    return said_s


def test_a_timer_is_armed_by_the_last_loss_at_once_however_many_were_lost(
    machine: Machine,
) -> None:
    count = STAYS + sum(LOST)
    machine.want(count)
    with light_nodes(machine.api, count) as nodes:
        machine.start_operator(patient_operator.__file__)
        create(machine.api, replicas=3, reset_timeout_s=600)
        wait_until(lambda: machine.status().get("dataNodeCount") == count)
        nodes.hanging.add(0)
        took_s, next_one = {}, STAYS
        for lost in LOST:
            ordinals = range(next_one, next_one + lost)
            next_one += lost
            names = {f"zq-default-{ordinal}" for ordinal in ordinals}
            losses = [partial(lose, nodes, ordinal) for ordinal in ordinals]
            took_s[lost] = measure(machine.api, names, losses, reset_timeout_s=600).decided_s
        group = "/apis/coordination.k8s.io/v1"
        path = f"{group}/namespaces/{machine.api.namespace}/leases"
        leases = machine.api.read(path)["items"]
    fenced = {lease["metadata"]["name"] for lease in leases if _is_fenced(lease)}
    assert fenced == {f"zq-default-{n}" for n in range(STAYS, next_one)}
    assert max(took_s.values()) < LIMIT_S, took_s


def _is_fenced(lease: dict[str, dict[str, dict[str, str]]]) -> bool:
    return "zonequake.io/fenced" in lease["metadata"].get("annotations", {})

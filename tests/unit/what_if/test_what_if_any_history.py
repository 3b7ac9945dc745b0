"""Whatever happens, once all nodes are back a persistent partition is where a pure function of
(topology, zone) wants it, and a restart of the operator at any point changes nothing."""

from __future__ import annotations

import random
from typing import Any

import pytest
import yaml

from zonequake_operator.nodes.affinity import rendezvous

NODES = "ABCDE"
WISHED = 3
HISTORIES = 90


def history(seed: int) -> dict[str, Any]:
    """Some nodes, a zone, and joins, leaves and other wishes; in the end all nodes are back."""
    rng = random.Random(seed)
    present = {node for node in NODES if rng.random() < 0.8}
    zone: dict[str, Any] = {
        "partitions": 1,
        "replicas": rng.randint(1, 4),
        "changePeers": rng.choice(["Queue", "Update", "Cancel"]),
        "dataNodesAutoAdjustScaleUp": rng.choice([0, 3]),
        "dataNodesAutoAdjustScaleDown": rng.choice([0, 3, 50]),
    }
    if rng.random() < 0.4:
        zone["consistencyMode"] = "HighAvailability"
        zone["partitionDistributionResetTimeout"] = rng.choice([0, 2, 5])
    events: list[dict[str, Any]] = []
    topology: dict[str, Any] = {node: {} for node in sorted(present)}
    at = 0
    for _ in range(rng.randint(2, 9)):
        at += rng.choice([0, 1, 2, 5, 10])
        node = rng.choice(NODES)
        if rng.random() < 0.2:
            events.append({"at": at, "alter": {"replicas": rng.randint(1, 4)}})
        elif node in present:
            present.remove(node)
            events.append({"at": at, "leave": [node]})
        else:
            present.add(node)
            events.append({"at": at, "join": {node: {}}})
    for node in sorted(set(NODES) - present):
        at += 100
        events.append({"at": at, "join": {node: {}}})
    events.append({"at": at + 200, "alter": {"replicas": WISHED}})
    return {"topology": topology, "zone": zone, "events": events, "until": at + 900}


def with_restarts(question: dict[str, Any], seed: int) -> dict[str, Any]:
    rng, events = random.Random(seed), []
    for event in question["events"]:
        events.append(event)
        if rng.random() < 0.5:
            events.append({"at": event["at"], "operatorRestart": True})
    return {**question, "events": events}


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_a_partition_ends_where_its_zone_and_topology_want_it(ask: Any, seed: int) -> None:
    answer = ask(yaml.safe_dump({**history(seed), "autoApply": True}))
    last = answer.lines[-1]
    target = "".join(sorted(rendezvous(last["dataNodes"], 1, WISHED)[0]))
    assert last["dataNodes"] == list(NODES)
    assert answer.sets(last["at"]) == (target, "", "")


@pytest.mark.parametrize("auto_apply", [False, True])
@pytest.mark.parametrize("seed", range(HISTORIES // 3))
def test_a_restarted_operator_decides_the_same(ask: Any, seed: int, auto_apply: bool) -> None:
    question = {**history(seed), "autoApply": auto_apply}
    straight = ask(yaml.safe_dump(question))
    interrupted = ask(yaml.safe_dump(with_restarts(question, seed)))
    for event in question["events"]:
        assert straight.sets(event["at"]) == interrupted.sets(event["at"])
        assert straight.at(event["at"])["timers"] == interrupted.at(event["at"])["timers"]

"""Faults of single processes, of the operator and of the API server, on a real node and a sound
store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(900)]

SETTLED = {"when": "settled"}
ONE = {"role": "nodes", "nodes": ["default-0"]}
FAULTS = [
    {
        "name": "clock",
        "type": "clock_step",
        "trigger": SETTLED,
        "target": {"role": "leader"},
        "stepSeconds": -86400,
        "holdSeconds": 3,
    },
    {"name": "nothing-decided", "type": "operator_pause", "trigger": SETTLED, "holdSeconds": 3},
    {"name": "next-operator", "type": "operator_kill", "trigger": SETTLED},
    {"name": "no-api", "type": "component_kill", "trigger": SETTLED, "holdSeconds": 4},
    {
        "name": "syncs",
        "type": "failed_fsync",
        "trigger": SETTLED,
        "target": ONE,
        "heldUntil": "again",
    },
    {
        "name": "a-while",
        "type": "reached",
        "trigger": {"when": "time", "afterSeconds": 3, "since": "syncs"},
    },
    {"name": "again", "type": "process_kill", "target": ONE},
]
RUN = {
    "apiVersion": "zonequake.io/v1alpha1",
    "kind": "ChaosRun",
    "metadata": {"name": "single-pods"},
    "spec": {
        "pools": [{"name": "default", "replicas": 3}],
        "zones": [{"name": "chaos", "partitions": 4, "replicas": 3}],
        "load": {"registerRate": 100, "listRate": 50},
        "times": {"beforeSeconds": 3, "afterSeconds": 3},
        "faults": FAULTS,
    },
}


def test_a_sound_store_goes_through_each_of_them_and_each_is_proven(
    run_scenario: Any, tmp_path: Path
) -> None:
    file = tmp_path / "single-pods.yaml"
    file.write_text(yaml.safe_dump(RUN))
    judged = run_scenario(str(file))
    assert judged.exit_code == 0, judged.output
    proofs = {e["data"]["fault"]: e["data"]["proof"] for e in judged.events("fault.effective")}
    (off_s,) = proofs["clock"]["off_seconds"].values()
    assert off_s == pytest.approx(-86400, abs=60)
    assert proofs["no-api"]["refused"] is True
    assert all(proofs["syncs"]["failed"].values())
    assert judged.events("storage.failed"), "and the node said itself why it was down"

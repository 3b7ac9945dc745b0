"""Builds the target that a plan names."""

from __future__ import annotations

import random

from zonequake_load.client.client import Client
from zonequake_load.client.connection import Connections
from zonequake_load.errors import PlanError
from zonequake_load.pod.control import LoadPlan, ReadsAt
from zonequake_load.targets.etcd.target import EtcdTarget
from zonequake_load.targets.protocol import Target
from zonequake_load.targets.zonequake import ZonequakeTarget


def target_for(plan: LoadPlan, rng: random.Random, connections: Connections) -> Target:
    """Raises PlanError if the plan names an unknown target. `connections` lead to data nodes."""
    match plan.target:
        case "zonequake":
            anywhere = plan.reads_at is not ReadsAt.LEADER
            client = Client(
                plan.zone, plan.seeds, rng=rng, reads_anywhere=anywhere, connections=connections
            )
            return ZonequakeTarget(client)
        case "etcd":
            return EtcdTarget(plan.zone, plan.seeds, rng=rng)
        case other:
            raise PlanError(f"found target {other!r} in the plan, expected 'zonequake' or 'etcd'")

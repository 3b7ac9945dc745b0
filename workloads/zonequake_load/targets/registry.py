"""Builds the target that a plan names."""

from __future__ import annotations

import random

from zonequake_load.client import Client
from zonequake_load.control import LoadPlan, ReadsAt
from zonequake_load.errors import PlanError
from zonequake_load.target import Target
from zonequake_load.targets.zonequake import ZonequakeTarget


def target_for(plan: LoadPlan, rng: random.Random) -> Target:
    """Raises PlanError if the plan names an unknown target."""
    match plan.target:
        case "zonequake":
            anywhere = plan.reads_at is ReadsAt.ANY
            return ZonequakeTarget(Client(plan.zone, plan.seeds, rng=rng, reads_anywhere=anywhere))
        case other:
            raise PlanError(f"found target {other!r} in the plan, expected 'zonequake'")

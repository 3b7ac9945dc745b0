"""Builds the client that a plan names, as MODULE:FUNCTION (`zonequake_load.targets.context`)."""

from __future__ import annotations

import importlib
import random
from pathlib import Path

from zonequake_load.errors import PlanError
from zonequake_load.pod.control import CLIENT_FOLDER, LoadPlan
from zonequake_load.targets.context import ClientContext, Connect
from zonequake_load.targets.protocol import Target
from zonequake_tls.credentials import Credentials


def client_for(plan: LoadPlan, rng: random.Random, credentials: Credentials | None) -> Target:
    """Returns the client, not opened yet. Raises PlanError if there is no such function."""
    return _connect(plan.client)(
        ClientContext(
            zone=plan.zone,
            seeds=plan.seeds,
            reads_at=plan.reads_at,
            rng=rng,
            credentials=credentials,
            secret=Path(CLIENT_FOLDER) if plan.secret else None,
        )
    )


def _connect(named: str) -> Connect:
    module, _, function = named.partition(":")
    try:
        found: Connect = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise PlanError(
            f"found client {named!r} in the plan, which can't be loaded ({error}); expected "
            "MODULE:FUNCTION of a package that this image holds or the run mounts"
        ) from error
    return found

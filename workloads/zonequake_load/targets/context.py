"""The things that a load pod gives to the client of a target. Plain values."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from zonequake_load.pod.control import ReadsAt
from zonequake_load.targets.protocol import Target
from zonequake_tls.credentials import Credentials


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientContext:
    """The place and the manner of a client's work; the fields are those of `LoadPlan`.

    `rng` is seeded by the plan. `credentials`: the pod's certificate as a client of the release;
    None if that has no TLS. `secret`: the folder with the files of the Secret that the scenario
    names for the client (`target.clientSecret`); None without one.
    """

    zone: str
    seeds: Sequence[str]
    reads_at: ReadsAt
    rng: random.Random
    credentials: Credentials | None = None
    secret: Path | None = None


Connect = Callable[[ClientContext], Target]
"""Builds a client that is not opened yet: the function that a plan's `client` names."""

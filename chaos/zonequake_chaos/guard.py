"""Chaos only where it was agreed to: a foreign namespace must carry a label."""

from __future__ import annotations

from zonequake_chaos.errors import GuardError, NotFound, UsageError
from zonequake_chaos.kube import Kube
from zonequake_chaos.load_objects import Installation

LABEL, ALLOWED = "zonequake.io/chaos", "allowed"


async def check_consent(kube: Kube, *, embedded: bool) -> None:
    """Raises GuardError if a foreign namespace doesn't carry the label."""
    if embedded:
        return
    try:
        labels = await kube.namespace_labels()
    except NotFound as error:
        raise UsageError(f"there is no namespace {kube.namespace}: zonequake install") from error
    if labels.get(LABEL) != ALLOWED:
        raise GuardError(
            f"namespace {kube.namespace} does not allow chaos: its label {LABEL} is "
            f"{labels.get(LABEL)!r}, expected {ALLOWED!r}; "
            f"kubectl label namespace {kube.namespace} {LABEL}={ALLOWED}"
        )


async def installation(kube: Kube, release: str) -> Installation:
    """What the release says of itself. Raises UsageError if it isn't installed."""
    try:
        return Installation.of(await kube.get("ConfigMap", f"{release}-harness"))
    except NotFound as error:
        raise UsageError(
            f"release {release} is not installed in namespace {kube.namespace}: zonequake install"
        ) from error

"""All scripts by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import ModuleType

from tests.simulation.scripts import (
    freshness,
    losses,
    membership,
    overlaps,
    rebalances,
    replication,
    resets,
    transactions,
)


def _named(modules: Iterable[ModuleType]) -> dict[str, Callable[[], None]]:
    return {
        script.__name__.replace("_", "-"): script for module in modules for script in module.SCRIPTS
    }


OPERATED = _named((rebalances, losses, overlaps))
"""Those over a whole cluster with the real operator."""
SCRIPTS = _named((replication, freshness, membership, resets, transactions)) | OPERATED

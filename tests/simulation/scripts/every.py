"""All scripts by name."""

from __future__ import annotations

from scripts import (
    freshness,
    losses,
    membership,
    overlaps,
    rebalances,
    replication,
    resets,
    transactions,
)

SCRIPTS = {
    script.__name__.replace("_", "-"): script
    for module in (
        replication,
        freshness,
        membership,
        resets,
        transactions,
        rebalances,
        losses,
        overlaps,
    )
    for script in module.SCRIPTS
}

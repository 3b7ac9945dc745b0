"""All scripts by name."""

from __future__ import annotations

from scripts import membership, replication, resets

SCRIPTS = {
    script.__name__.replace("_", "-"): script
    for script in (*replication.SCRIPTS, *membership.SCRIPTS, *resets.SCRIPTS)
}

"""How long tests wait for what comes anyway."""

from __future__ import annotations

PATIENCE_S = 120.0
"""The limit of such a wait. It costs nothing where that comes, and a machine that is busy, or
stands still for seconds, may take long."""

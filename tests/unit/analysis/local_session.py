"""Stands for a session of a local master, of which a test wants nothing else."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


def local_session(**_: Any) -> Any:
    """Returns it, whatever session was asked for."""
    return SimpleNamespace(_sc=SimpleNamespace(master="local[2]"))

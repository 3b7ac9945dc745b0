"""The client programs, always our own: of known versions, built once with the node."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from zonequake_cluster.instance import find_instance
from zonequake_cluster.supply.toolchain import ensure_programs


def kubectl_path(say: Callable[[str], None] = print) -> Path:
    """The kubectl of the embedded node; builds it if need be. Raises BuildFailed."""
    return ensure_programs(programs_folder(), say=say).kubectl


def helm_path(say: Callable[[str], None] = print) -> Path:
    """Helm 3; builds it if need be. Raises BuildFailed."""
    return ensure_programs(programs_folder(), say=say).helm


def programs_folder() -> Path:
    """Where this installation's programs lie, or will."""
    return find_instance().bin

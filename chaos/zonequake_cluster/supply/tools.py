"""The client programs: our own, of known versions, built once with the node."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from zonequake_cluster.instance import find_instance
from zonequake_cluster.supply.toolchain import are_built, ensure_programs

OLDEST_HELM = 3


def kubectl_path(say: Callable[[str], None] = print) -> Path:
    """Returns the kubectl of the embedded node; builds it if needed. Raises BuildFailed."""
    return ensure_programs(programs_folder(), say=say).kubectl


def helm_path(say: Callable[[str], None] = print) -> Path:
    """Returns our own Helm if it is built, else the machine's if it is Helm 3 or later, else builds
    ours. Raises BuildFailed.

    An installation into a foreign cluster needs no node, and must not build one only for Helm.
    """
    if not are_built(programs_folder()) and (found := _machines_helm()) is not None:
        return found
    return ensure_programs(programs_folder(), say=say).helm


def _machines_helm() -> Path | None:
    helm = shutil.which("helm")
    if helm is None:
        return None
    done = subprocess.run([helm, "version", "--short"], capture_output=True, text=True, check=False)
    match = re.match(r"v(\d+)\.", done.stdout)
    return Path(helm) if match and int(match.group(1)) >= OLDEST_HELM else None


def programs_folder() -> Path:
    """Returns the folder of this installation's programs, which may not exist yet."""
    return find_instance().bin

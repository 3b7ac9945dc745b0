"""`zonequake version`: of this program, and of the release that is installed."""

from __future__ import annotations

import platform
from importlib.metadata import version

from zonequake_cluster.own_files import find_own_files
from zonequake_ctl.context import ReleasePlace
from zonequake_ctl.release.installed import InstalledRelease, look_at_release

VersionRows = list[tuple[str, str]]
_NAME_WIDTH = 14


def client_rows() -> VersionRows:
    """Returns this program's version, and the place that it runs from."""
    checkout = find_own_files().checkout
    origin = f"the clone {checkout}" if checkout else "an installed wheel"
    return [
        ("client", f"{version('zonequake')}, Python {platform.python_version()}, from {origin}")
    ]


async def release_rows(place: ReleasePlace) -> VersionRows:
    """Returns the versions that run at `place`. Raises UsageError, ClusterError."""
    async with await place.connect() as kube:
        found = await look_at_release(kube, place.release)
    where = f"{place.release} in namespace {place.namespace}"
    rows = [("Kubernetes", found.kubernetes)]
    rows.append(("resources", ", ".join(found.served) or "none: zonequake.io is not served"))
    if not found.workloads:
        return [*rows, ("release", f"no {where}: install it by `zonequake install`")]
    return [
        *rows,
        ("release", f"{', '.join(found.versions)}: {where}{_advice(found)}"),
        *(
            (each.name, f"{each.image}, {each.ready} of {each.wanted} ready")
            for each in found.workloads
        ),
    ]


def _advice(found: InstalledRelease) -> str:
    if found.versions == [version("zonequake")]:
        return ""
    return " (not the client's version: `zonequake install` upgrades it)"


def row_lines(rows: VersionRows) -> list[str]:
    """Returns a line for each row, names in a column of their own."""
    return [f"{name:<{_NAME_WIDTH}} {text}" for name, text in rows]

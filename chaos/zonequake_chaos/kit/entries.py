"""Lists the installed targets by their entry points, without loading one."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

from zonequake_kube.errors import UsageError

GROUP = "zonequake.targets"


def target_names() -> list[str]:
    """Returns the names of the installed targets, sorted. Raises UsageError."""
    return sorted(target_entries())


def target_entries() -> dict[str, EntryPoint]:
    """Returns the entry points by name. Raises UsageError if two packages have one name."""
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=GROUP):
        other = found.setdefault(entry.name, entry)
        if other.value != entry.value:
            raise UsageError(
                f"two packages have a target {entry.name!r}: {other.value} and {entry.value}; "
                "uninstall one of them"
            )
    return found

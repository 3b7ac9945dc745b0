"""Lists the installed targets by their entry points, without loading one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points

from zonequake_kube.errors import UsageError

GROUP = "zonequake.targets"
MOST_CHARS = 30
"""A target's name is a part of its pods' names."""

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def check_name(name: str) -> None:
    """Raises UsageError for a name that a target can't have."""
    if not _NAME.fullmatch(name) or len(name) > MOST_CHARS:
        raise UsageError(
            f"found the name {name!r} of {len(name)} characters, expected at most {MOST_CHARS} "
            "small letters and digits, with a letter first and single dashes between words"
        )


def target_names() -> list[str]:
    """Returns the names of the installed targets, sorted."""
    return sorted(target_entries())


def target_entries() -> Mapping[str, Sequence[EntryPoint]]:
    """Returns the entry points by name: several where packages of one name name other objects."""
    found: dict[str, dict[str, EntryPoint]] = {}
    for entry in entry_points(group=GROUP):
        found.setdefault(entry.name, {}).setdefault(entry.value, entry)
    return {name: list(entries.values()) for name, entries in found.items()}

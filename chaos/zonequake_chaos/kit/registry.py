"""Loads installed targets."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from importlib.metadata import EntryPoint

from zonequake_chaos.kit.entries import GROUP, target_entries
from zonequake_chaos.kit.target import TargetPackage
from zonequake_kube.errors import UsageError


def find_target(name: str) -> TargetPackage:
    """Returns the installed target of that name; an empty name is that of the release's own.

    Raises UsageError if there is none, or if it can't be loaded.
    """
    entries = target_entries()
    if not name:
        return _own(entries.values())
    if name not in entries:
        known = ", ".join(sorted(entries)) or "none"
        raise UsageError(
            f"found no target {name!r}; installed are: {known}. Install the package that has it "
            f"(an entry point in the group {GROUP}), or see `zonequake target list`"
        )
    return _loaded(entries[name])


def _loaded(entry: EntryPoint) -> TargetPackage:
    try:
        target = entry.load()
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"target {entry.name!r} can't be loaded from {entry.value} ({error}): install its "
            "package again"
        ) from error
    if not isinstance(target, TargetPackage):
        raise UsageError(
            f"target {entry.name!r}: found {type(target).__name__} at {entry.value}, expected an "
            "object of a class that extends zonequake_chaos.kit.target.TargetPackage"
        )
    if target.name != entry.name:
        raise UsageError(
            f"target {entry.name!r}: its package calls it {target.name!r}; give the entry point "
            "and the package one name"
        )
    return target


def _own(entries: Iterable[EntryPoint]) -> TargetPackage:
    own = []
    for entry in entries:
        with contextlib.suppress(UsageError):  # a broken package must not break runs without it
            target = _loaded(entry)
            own += [target] if target.in_release else []
    if len(own) != 1:
        found = ", ".join(target.name for target in own) or "none"
        raise UsageError(
            f"found {found} as targets that a release itself is, expected one: name the target, as "
            "in --target NAME"
        )
    return own[0]

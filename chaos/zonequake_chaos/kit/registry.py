"""Loads installed targets."""

from __future__ import annotations

from importlib.metadata import EntryPoint

from zonequake_chaos.kit.entries import GROUP, target_entries
from zonequake_chaos.kit.target import TargetPackage
from zonequake_kube.errors import UsageError, in_words

_REQUIRED = ("name", "about", "claims", "client")
"""The attributes of a package that have no default."""


def find_target(name: str) -> TargetPackage:
    """Returns the installed target of that name; an empty name is that of the release's own.

    Raises UsageError if there is none, or if it can't be loaded.
    """
    entries = target_entries()
    if not name:
        return _own()
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
    except Exception as error:  # a package of others may raise anything as it is imported
        raise UsageError(
            f"target {entry.name!r} can't be loaded from {entry.value} ({in_words(error)}): mend "
            "its package, or install it again"
        ) from error
    if not isinstance(target, TargetPackage):
        raise UsageError(
            f"target {entry.name!r}: found {type(target).__name__} at {entry.value}, expected an "
            "object of a class that extends zonequake_chaos.kit.target.TargetPackage"
        )
    lacking = [name for name in _REQUIRED if not hasattr(target, name)]
    if lacking:
        raise UsageError(
            f"target {entry.name!r}: {type(target).__name__} lacks {', '.join(lacking)}: give the "
            "class a value for each"
        )
    if target.name != entry.name:
        raise UsageError(
            f"target {entry.name!r}: its package calls it {target.name!r}; give the entry point "
            "and the package one name"
        )
    unknown = list(target.refuses.unknown())
    if unknown:
        raise UsageError(f"target {entry.name!r} refuses what there isn't: {'; '.join(unknown)}")
    return target


def all_targets() -> tuple[list[TargetPackage], list[str]]:
    """Returns the installed targets that can be loaded, by name, and why others can't."""
    found, problems = [], []
    for _, entry in sorted(target_entries().items()):
        try:
            found.append(_loaded(entry))
        except UsageError as error:
            problems.append(str(error))
    return found, problems


def find_model() -> TargetPackage:
    """Returns the target that a new one is made from. Raises UsageError if there is none."""
    models = [target for target in all_targets()[0] if target.model_test]
    if len(models) != 1:
        raise UsageError(
            f"found {len(models)} targets to make a new one from, expected one: install zonequake "
            "again"
        )
    return models[0]


def _own() -> TargetPackage:
    # A broken package must not break runs that don't name it.
    own = [target for target in all_targets()[0] if target.in_release]
    if len(own) != 1:
        found = ", ".join(target.name for target in own) or "none"
        raise UsageError(
            f"found {found} as targets that a release itself is, expected one: name the target, as "
            "in --target NAME"
        )
    return own[0]

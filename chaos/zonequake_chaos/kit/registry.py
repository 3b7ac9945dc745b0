"""Loads installed targets. A package that is broken is an error only of what names it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import EntryPoint
from types import UnionType

from zonequake_analysis.inputs.prometheus.server_metrics import ServerMetric
from zonequake_chaos.kit.alteration import Alteration
from zonequake_chaos.kit.client_code import ClientCode
from zonequake_chaos.kit.entries import GROUP, check_name, target_entries
from zonequake_chaos.kit.limits.refusals import Refusals
from zonequake_chaos.kit.target import TargetClaims, TargetPackage, TargetVersions
from zonequake_kube.errors import UsageError, in_words

_TYPES: Mapping[str, type | UnionType] = {
    "name": str,
    "about": str,
    "claims": TargetClaims,
    "client": ClientCode,
    "refuses": Refusals,
    "in_release": bool,
    "has_control": bool,
    "server_metrics": tuple,
    "versions": TargetVersions | None,
    "members": int,
    "alters": Alteration | None,
    "model_test": str,
}
"""The attributes of a package; `TargetPackage` says which have a default."""

_CLAIMS: Mapping[str, type | UnionType] = {"order": str, "repeats": bool, "transactions": bool}


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
    return _loaded(name, entries[name])


def _loaded(name: str, entries: Sequence[EntryPoint]) -> TargetPackage:
    if len(entries) > 1:
        places = " and ".join(entry.value for entry in entries)
        raise UsageError(f"two packages have a target {name!r}: {places}; uninstall one of them")
    (entry,) = entries
    try:
        target = entry.load()
        problem = _problem(target, entry)
    except (Exception, SystemExit) as error:  # a package of others may raise anything
        raise UsageError(
            f"target {name!r} can't be loaded from {entry.value} ({in_words(error)}): mend "
            "its package, or install it again"
        ) from error
    if problem:
        raise UsageError(f"target {name!r}: {problem}")
    assert isinstance(target, TargetPackage)
    return target


def _problem(target: object, entry: EntryPoint) -> str:
    """Returns why the object can't be a target; empty if it can."""
    if not isinstance(target, TargetPackage):
        return (
            f"found {type(target).__name__} at {entry.value}, expected an object of a class that "
            "extends zonequake_chaos.kit.target.TargetPackage"
        )
    own = type(target).__name__
    lacking = [name for name in _TYPES if not hasattr(target, name)]
    if lacking:
        return f"{own} lacks {', '.join(lacking)}: give the class a value for each"
    wrong = list(_wrong(target, _TYPES, own))
    wrong = wrong or list(_wrong(target.claims, _CLAIMS, f"{own}.claims"))
    wrong = wrong or list(_wrong_metrics(target, own))
    if wrong:
        return "; ".join(wrong)
    if target.members < 1:
        return f"{own}.members is {target.members}, expected at least 1"
    check_name(target.name)
    if target.name != entry.name:
        return (
            f"its package calls it {target.name!r}; give the entry point and the package one name"
        )
    unknown = "; ".join(target.refuses.unknown())
    return f"refuses what there isn't: {unknown}" if unknown else ""


def _wrong(holder: object, types: Mapping[str, type | UnionType], place: str) -> Iterator[str]:
    """Yields each attribute of another type than expected, as text."""
    for name, expected in types.items():
        found = getattr(holder, name, None)
        if not isinstance(found, expected):
            wanted = expected.__name__ if isinstance(expected, type) else str(expected)
            yield f"{place}.{name} is of type {type(found).__name__}, expected {wanted}"


def _wrong_metrics(target: TargetPackage, own: str) -> Iterator[str]:
    for place, one in enumerate(target.server_metrics):
        kind = type(one).__name__
        wrong = f"is of type {kind}, expected ServerMetric"
        problem = one.problem if isinstance(one, ServerMetric) else wrong
        if problem:
            yield f"{own}.server_metrics[{place}]: {problem}"


def all_targets() -> Mapping[str, TargetPackage | UsageError]:
    """Returns the installed targets by name, sorted; in place of one that can't be used, why."""
    found: dict[str, TargetPackage | UsageError] = {}
    for name, entries in sorted(target_entries().items()):
        try:
            found[name] = _loaded(name, entries)
        except UsageError as error:
            found[name] = error
    return found


def _sound() -> list[TargetPackage]:
    return [found for found in all_targets().values() if isinstance(found, TargetPackage)]


def find_model() -> TargetPackage:
    """Returns the target that a new one is made from. Raises UsageError if there is none."""
    models = [target for target in _sound() if target.model_test]
    if len(models) != 1:
        raise UsageError(
            f"found {len(models)} targets to make a new one from, expected one: install zonequake "
            "again"
        )
    return models[0]


def _own() -> TargetPackage:
    own = [target for target in _sound() if target.in_release]
    if len(own) != 1:
        found = ", ".join(target.name for target in own) or "none"
        broken = [str(each) for each in all_targets().values() if isinstance(each, UsageError)]
        raise UsageError(
            f"found {found} as targets that a release itself is, expected one: name the target, as "
            "in --target NAME" + "".join(f"; {why}" for why in broken)
        )
    return own[0]

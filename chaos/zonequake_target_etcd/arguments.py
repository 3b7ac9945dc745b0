"""The options of etcd that a scenario gives its members, and those that it must not. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

LEAST_HEARTBEATS = 5
"""The least election time-out that etcd accepts, in heartbeats."""

_VARIABLE = "ETCD_"
"""Begins the variables that stand for options."""

_HEARTBEAT, _ELECTION = "heartbeat-interval", "election-timeout"
_DEFAULT_MS = {_HEARTBEAT: 100, _ELECTION: 1_000}


def unsuited_arguments(args: Sequence[str], own: frozenset[str]) -> Iterator[str]:
    """Yields each option that the run sets itself (`own`) or that etcd would refuse, as text."""
    given = options(args)
    for name in given:
        if name in own:
            yield f"target.args has --{name}, which the run sets itself: leave it out"
    times_ms = dict(_DEFAULT_MS)
    for name in _DEFAULT_MS:
        value = given.get(name)
        if value is None:
            continue
        if not value.isdecimal():
            yield f"target.args has --{name} {value!r}: expected milliseconds, a whole number"
            return
        times_ms[name] = int(value)
    if times_ms[_ELECTION] < LEAST_HEARTBEATS * times_ms[_HEARTBEAT]:
        yield (
            f"--{_ELECTION} {times_ms[_ELECTION]} must be at least {LEAST_HEARTBEATS} times "
            f"--{_HEARTBEAT} {times_ms[_HEARTBEAT]} (target.args)"
        )


def unsuited_environment(env: Iterable[str], own: frozenset[str]) -> Iterator[str]:
    """Yields each variable that stands for an option that the run sets itself, as text: etcd does
    not start with both.
    """
    for name in env:
        option = name.removeprefix(_VARIABLE).lower().replace("_", "-")
        if name.startswith(_VARIABLE) and option in own:
            yield f"target.env has {name}, whose option the run sets itself: leave it out"


def options(args: Sequence[str]) -> dict[str, str]:
    """Returns options by their names, `--name=value` and `--name value`; the last of a name counts,
    and one without a value is empty.
    """
    found: dict[str, str] = {}
    for word, after in zip_longest(args, args[1:], fillvalue="--"):
        if not word.startswith("-"):
            continue
        name, separator, value = word.lstrip("-").partition("=")
        found[name] = value if separator or after.startswith("-") else after
    return found

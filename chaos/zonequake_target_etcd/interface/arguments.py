"""The options of etcd that a scenario gives its members, and those that it must not. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

LEAST_HEARTBEATS = 5
"""The least election time-out that etcd accepts, in heartbeats."""

_VARIABLE = "ETCD_"
"""Begins the variables that stand for options."""

CLIENTS_TLS, PEERS_TLS = "cert-file", "peer-cert-file"
"""The options with which members speak TLS to clients, and to each other."""

_KEYS = {CLIENTS_TLS: "key-file", PEERS_TLS: "peer-key-file"}
_UNVERIFIED = ("auto-tls", "peer-auto-tls")

_NAME_FILES = (
    "whose certificates can't be verified: name files by "
    f"--{CLIENTS_TLS} or --{PEERS_TLS} in target.args"
)

_HEARTBEAT, _ELECTION = "heartbeat-interval", "election-timeout"
_DEFAULT_MS = {_HEARTBEAT: 100, _ELECTION: 1_000}


def unsuited_arguments(args: Sequence[str], own: frozenset[str]) -> Iterator[str]:
    """Yields each option that the run sets itself (`own`) or that etcd would refuse, as text."""
    given = options(args)
    for name in given:
        if name in own:
            yield f"target.args has --{name}, which the run sets itself: leave it out"
        if name in _UNVERIFIED:
            yield f"target.args has --{name}, {_NAME_FILES}"
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
        if not name.startswith(_VARIABLE):
            continue
        if option in own:
            yield f"target.env has {name}, whose option the run sets itself: leave it out"
        if option in _UNVERIFIED:
            yield f"target.env has {name}, {_NAME_FILES}"
        if option in {*_KEYS, *_KEYS.values()}:
            yield (
                f"target.env has {name}, and the run sees only in target.args whether members "
                f"speak TLS: give --{option} there"
            )


def unsuited_secret(args: Sequence[str], client_secret: str | None) -> Iterator[str]:
    """Yields where members and clients would not both speak TLS, and where etcd would not start, as
    text.
    """
    given = options(args)
    for pair in _KEYS.items():
        for has, lacks in (pair, pair[::-1]):
            if given.get(has) and not given.get(lacks):
                yield f"target.args has --{has}, and no --{lacks}: give both, or none"
    speaks = CLIENTS_TLS in given
    if speaks and client_secret is None:
        yield (
            f"target.args has --{CLIENTS_TLS}, and no target.clientSecret: name a Secret with the "
            "authority of the members' certificates as ca.crt, and if they demand a certificate "
            "of clients, with that as tls.crt and its key as tls.key"
        )
    if client_secret is not None and not speaks:
        yield (
            f"target.clientSecret is {client_secret}, and target.args has no --{CLIENTS_TLS}: give "
            "members a certificate by --cert-file and --key-file, of a Secret in target.secrets"
        )


def scheme(args: Sequence[str], tls: str) -> str:
    """Returns the scheme of the URLs that the option `tls` is about."""
    return "https" if tls in options(args) else "http"


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

"""The options of etcd that a scenario gives its members, and those that it must not. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest

LEAST_HEARTBEATS = 5
"""The least election time-out that etcd accepts, in heartbeats."""

MOST_ELECTION_MS = 50_000
"""The longest election time-out that etcd accepts."""

_VARIABLE = "ETCD_"
"""Begins the variables that stand for options."""

CLIENTS_TLS, PEERS_TLS = "cert-file", "peer-cert-file"
"""The options with which members speak TLS to clients, and to each other."""

_KEYS = {CLIENTS_TLS: "key-file", PEERS_TLS: "peer-key-file"}

_UNVERIFIED = (
    "whose certificates can't be verified: name files by "
    f"--{CLIENTS_TLS} or --{PEERS_TLS} in target.args"
)
_NO_SETTING = "which is no setting of a member: leave it out"

_REFUSED = {
    "auto-tls": _UNVERIFIED,
    "peer-auto-tls": _UNVERIFIED,
    "unsafe-no-fsync": (
        "which the run sets by the zone's fsync, and records: say zones.0.fsync=false"
    ),
    "force-new-cluster": "which would make each member a cluster of its own: leave it out",
    "listen-client-http-urls": (
        "and the run asks members at their port for clients, by HTTP too: leave it out"
    ),
    "help": _NO_SETTING,
    "h": _NO_SETTING,
    "version": _NO_SETTING,
}
"""The options that are refused with any value, and why."""

_DISCOVERY = "discovery"
"""Begins the options by which members find each other without the run."""

_GATEWAY = "enable-grpc-gateway"
_TRUE = frozenset({"", "1", "t", "T", "true", "TRUE", "True"})
"""What etcd takes for true; an option without a value is true, and an empty variable isn't read."""

_SWITCHES = frozenset(
    {
        "client-cert-auth",
        _GATEWAY,
        "enable-log-rotation",
        "enable-pprof",
        "initial-election-tick-advance",
        "memory-mlock",
        "peer-client-cert-auth",
        "peer-skip-client-san-verification",
        "pre-vote",
        "socket-reuse-address",
        "socket-reuse-port",
        "strict-reconfig-check",
    }
)
"""Options that take no word after them as their value."""

_HEARTBEAT, _ELECTION = "heartbeat-interval", "election-timeout"
_DEFAULT_MS = {_HEARTBEAT: 100, _ELECTION: 1_000}


def unsuited_options(
    args: Sequence[str], env: Mapping[str, str], own: frozenset[str]
) -> Iterator[str]:
    """Yields each option, given as an argument or by its variable, that the run sets itself (`own`)
    or can't have, or that etcd would refuse, as text.
    """
    yield from _stray_words(args)
    arguments, variables = options(args), _by_variables(env)
    given = [
        (f"target.env has {_variable(name)}", name, value) for name, value in variables.items()
    ]
    given += [(f"target.args has --{name}", name, value) for name, value in arguments.items()]
    for has, name, value in given:
        if why := _why_refused(name, value, own):
            yield f"{has}, {why}"
    for name in variables:
        if name in {*_KEYS, *_KEYS.values()}:
            yield (
                f"target.env has {_variable(name)}, and the run sees only in target.args whether "
                f"members speak TLS: give --{name} there"
            )
        if name in arguments:
            yield (
                f"target.args has --{name}, and target.env has {_variable(name)}: etcd does not "
                "start with both, leave one out"
            )
    yield from _unsuited_times(given)


def _stray_words(args: Sequence[str]) -> Iterator[str]:
    """Yields each word that is neither an option nor the value of the one before it, as text."""
    may_be_value = False
    for word in args:
        name, separator, _ = word.lstrip("-").partition("=")
        if word.startswith("-") and name:
            may_be_value = not separator and name not in _SWITCHES
            continue
        if not may_be_value:
            yield f"target.args has {word!r}: expected --NAME=VALUE, an option of etcd"
        may_be_value = False


def _by_variables(env: Mapping[str, str]) -> dict[str, str]:
    """Returns the options that variables stand for, by the options' names."""
    return {
        name.removeprefix(_VARIABLE).lower().replace("_", "-"): value
        for name, value in env.items()
        if name.startswith(_VARIABLE)
    }


def _variable(option: str) -> str:
    return _VARIABLE + option.upper().replace("-", "_")


def _why_refused(name: str, value: str, own: frozenset[str]) -> str | None:
    if name in own:
        return "which the run sets itself: leave it out"
    if name.startswith(_DISCOVERY):
        return "by which members would find each other, and the run names them: leave it out"
    if name == _GATEWAY and value not in _TRUE:
        return f"with {value!r}, and only by that gateway the run sees members: leave it out"
    return _REFUSED.get(name)


def _unsuited_times(given: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    """Yields the times with which etcd would not start, as text; `given` has, for each option,
    where it is given, its name and its value, and the last of a name counts.
    """
    times_ms = dict(_DEFAULT_MS)
    places = []
    for has, name, value in given:
        if name not in times_ms:
            continue
        if not value.isdecimal() or int(value) == 0:
            yield f"{has} {value!r}: expected milliseconds, a whole number above 0"
            return
        times_ms[name] = int(value)
        places.append(has.partition(" ")[0])
    if times_ms[_ELECTION] < LEAST_HEARTBEATS * times_ms[_HEARTBEAT]:
        yield (
            f"--{_ELECTION} {times_ms[_ELECTION]} must be at least {LEAST_HEARTBEATS} times "
            f"--{_HEARTBEAT} {times_ms[_HEARTBEAT]} ({', '.join(dict.fromkeys(places))})"
        )
    if times_ms[_ELECTION] > MOST_ELECTION_MS:
        yield (
            f"--{_ELECTION} {times_ms[_ELECTION]} must be at most {MOST_ELECTION_MS} "
            f"({', '.join(dict.fromkeys(places))})"
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

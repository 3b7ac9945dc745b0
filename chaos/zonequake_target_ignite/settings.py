"""Settings of a node that a scenario gives among its arguments. Pure.

Ignite's own program takes no settings, only the file with all of them, and its three options are
the run's. So each argument is `ignite.NAME=VALUE`, a setting by its whole name, such as
`ignite.raft.responseTimeoutMillis=5000`, and goes into that file.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from zonequake_chaos.scenario.run import RunTarget
from zonequake_kube.errors import UsageError

PREFIX = "ignite."
SPEAKS_TLS = "clientConnector.ssl.enabled"
CLIENT_AUTH = "clientConnector.ssl.clientAuth"

OWN: Mapping[str, Any] = {"failureHandler": {"handler": {"type": "stopOrHalt"}}}
"""Settings of the run's that a scenario may change."""

TEXTS = frozenset({"password", "path"})
"""The last names of settings that are text, also if they look like numbers."""

KEPT = {
    "network.port": "the run sets it itself",
    "network.nodeFinder": "the run sets it itself",
    "clientConnector.port": "the run sets it itself",
    "rest": "probes and the harness ask every node by it",
    "raft.fsync": "the zone's fsync says it",
    "storage.profiles": "the zone's storage says it",
}
"""The settings that are refused, with all below them, and why."""


def settings_of(args: Sequence[str]) -> dict[str, object]:
    """Returns the settings by their names without `ignite.`; a value is JSON, or else text.

    Raises UsageError for a word that is none, and for a group of settings: each has its own word.
    """
    found: dict[str, object] = {}
    for word in args:
        name, separator, text = word.removeprefix(PREFIX).partition("=")
        if not word.startswith(PREFIX) or not separator or not all(name.split(".")):
            raise UsageError(
                f"target.args has {word!r}: expected {PREFIX}NAME=VALUE, a setting of a node; "
                "options of its Java are in target.env, as JAVA_TOOL_OPTIONS"
            )
        if name in found:
            raise UsageError(f"target.args has {PREFIX}{name} twice: leave one out")
        found[name] = _value(name, text)
        if isinstance(found[name], dict):
            raise UsageError(
                f"target.args has {word!r}, a group of settings: give each by its whole name"
            )
    for name in found:
        for other in found:
            if other.startswith(f"{name}."):
                raise UsageError(
                    f"target.args has {PREFIX}{name} and {PREFIX}{other}: the first is a value, "
                    "and can't be a group, too"
                )
    return found


def _value(name: str, text: str) -> object:
    """Returns a value as it is meant: numbers, true and false, lists and quoted text are JSON."""
    try:
        value = json.loads(text, parse_constant=_no_number)
    except ValueError:
        return text
    is_text = name.rpartition(".")[2] in TEXTS
    return text if is_text and not isinstance(value, str) else value


def _no_number(constant: str) -> object:
    raise ValueError(constant)


def added(own: Mapping[str, Any], settings: Mapping[str, object]) -> dict[str, Any]:
    """Returns the configuration with these settings. Raises UsageError where one is below a value
    of the run.
    """
    all_of_them = copy.deepcopy(dict(own))
    for name, value in settings.items():
        place = all_of_them
        *groups, last = name.split(".")
        for group in groups:
            place = place.setdefault(group, {})
            if not isinstance(place, dict):
                raise UsageError(
                    f"target.args has {PREFIX}{name}: {group} is a value, and no group of settings"
                )
        place[last] = value
    return all_of_them


def speaks_tls(args: Sequence[str]) -> bool:
    """Returns whether clients must speak TLS. Raises UsageError."""
    return settings_of(args).get(SPEAKS_TLS) is True


def unsuited_settings(target: RunTarget) -> Iterator[str]:
    """Yields the settings that a run can't have, and where nodes and clients would not both speak
    TLS, as text.
    """
    try:
        settings = settings_of(target.args)
        added(OWN, settings)
    except UsageError as error:
        yield str(error)
        return
    for name in settings:
        for kept, why in KEPT.items():
            if f"{name}.".startswith(f"{kept}.") or kept.startswith(f"{name}."):
                yield f"target.args has {PREFIX}{name}, and {why}: leave it out"
    if str(settings.get(CLIENT_AUTH)).lower() == "require":  # Ignite takes it in any case
        yield (
            f"target.args has {PREFIX}{CLIENT_AUTH}=require, and the program beside each node, "
            "which asks it for its state, has no certificate: leave it out"
        )
    speaks = settings.get(SPEAKS_TLS, False)
    secret = target.client_secret
    if not isinstance(speaks, bool):
        yield f"target.args has {PREFIX}{SPEAKS_TLS}={speaks}: expected true or false"
    elif speaks and secret is None:
        yield (
            f"target.args has {PREFIX}{SPEAKS_TLS}=true, and no target.clientSecret: name a Secret "
            "with the authority of the nodes' certificates as ca.crt"
        )
    elif secret is not None and not speaks:
        yield (
            f"target.clientSecret is {secret}, and target.args has no "
            f"{PREFIX}{SPEAKS_TLS}=true: add it, with a keyStore of a Secret in target.secrets"
        )

"""The fields of the library's configuration that a scenario gives its members, and those that it
must not.
"""

from __future__ import annotations

import argparse
import difflib
import json
import math
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

EXPECTED = (
    'expected --conf and fields as a JSON object, for instance --conf and {"raftMaxTimeout": 0.8}'
)

_OWN = "which the run sets itself"
_FUNCTION = "which is a function of Python, and JSON has none"
_KEPT = {
    "bindAddress": _OWN,
    "journalFile": _OWN,
    "fullDumpFile": _OWN,
    "dynamicMembershipChange": "and the members of a run are fixed",
    "autoTick": "and members do nothing without it",
    "password": "for which the library needs another one that members don't have",
    "onReady": _FUNCTION,
    "onStateChanged": _FUNCTION,
    "onCodeVersionChanged": _FUNCTION,
    "serializer": _FUNCTION,
    "serializeChecker": _FUNCTION,
    "deserializer": _FUNCTION,
}
"""The fields that are refused, and why."""

_CHOICES: dict[str, tuple[str | None, ...]] = {
    "pollerType": ("auto", "poll", "select"),
    "preferredAddrType": ("ipv4", "ipv6", None),
    "tcp_keepalive": (None,),  # or a tuple of Python, and JSON has none
}
_SECONDS = frozenset({"logCompactionMinTime"})
"""Whole numbers by their defaults that may be any."""


def unsuited_settings(args: Sequence[str]) -> Iterator[str]:
    """Yields the arguments that are no `--conf`, and its fields that the library doesn't know, that
    members can't have, or with which the library would not start, as text.
    """
    said = f"target.args has {' '.join(args)}"
    options = argparse.ArgumentParser(exit_on_error=False, add_help=False, allow_abbrev=False)
    options.add_argument("--conf", action="append", default=[])
    try:
        given, others = options.parse_known_args(args)
        fields = [json.loads(text) for text in given.conf]
    except argparse.ArgumentError:
        yield f"{said}: {EXPECTED}"
        return
    except ValueError as error:
        yield f"{said}, which is no JSON ({error}): {EXPECTED}"
        return
    if others or not all(isinstance(each, dict) for each in fields):
        yield f"{said}: {EXPECTED}"
    elif len(fields) > 1:
        yield f"{said}, with --conf more than once: give all fields in one"
    elif fields:
        yield from _unsuited_fields(fields[0])


def _unsuited_fields(conf: Mapping[str, Any]) -> Iterator[str]:
    from pysyncobj import SyncObjConf

    defaults = vars(SyncObjConf())
    problems = []
    for field, value in sorted(conf.items()):
        if why := _why_refused(field, value, defaults):
            problems.append(f"target.args has --conf with {field}{why}")
    yield from problems
    if not problems and (broken := _broken_rule(conf)):
        yield f"target.args has --conf with {json.dumps(conf)}: the library expects {broken}"


def _why_refused(field: str, value: object, defaults: Mapping[str, Any]) -> str | None:
    if field not in defaults:
        near = difflib.get_close_matches(field, defaults, n=1)
        return f": did you mean {near[0]}?" if near else ", expected one of SyncObjConf's"
    if field in _KEPT:
        return f", {_KEPT[field]}: leave it out"
    expected = _expected(field, value, defaults[field])
    return expected and f" {json.dumps(value)}: expected {expected}"


def _expected(field: str, value: object, default: object) -> str | None:
    """Returns what the field's value should have been, None if it is that."""
    if field in _CHOICES:
        choices = _CHOICES[field]
        return None if value in choices else " or ".join(map(json.dumps, choices))
    if isinstance(default, bool):
        return None if isinstance(value, bool) else "true or false"
    if isinstance(default, int) and field not in _SECONDS:
        sound = _is_amount(value) and isinstance(value, int)
        return None if sound else "a whole number that isn't negative"
    return None if _is_amount(value) else "a number that isn't negative"


def _is_amount(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value) and value >= 0
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _broken_rule(conf: Mapping[str, Any]) -> str | None:
    """Returns the first rule of the library's that these fields break, together with those that the
    server gives.
    """
    from zonequake_target_pysyncobj.server import settings_of

    try:
        settings_of("own:1", Path("/"), dict(conf)).validate()
    except AssertionError as error:
        rule = traceback.extract_tb(error.__traceback__)[-1].line or "others"
        return rule.removeprefix("assert ").replace("self.", "")
    return None

"""Checks what a target and a scenario give their members against what Kubernetes takes. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from zonequake_chaos.kit.client_code import MOST_BYTES
from zonequake_chaos.kit.limits.one_group import POD_VARIABLE
from zonequake_kube.errors import UsageError
from zonequake_kube.objects import HANDS_CONTAINER, Json

MOST_CHARS = 63
MOST_CHARS_OF_SET = 52
"""A StatefulSet's name and a hash of 10 characters are one label of its pods."""

_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_PROGRAM = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")

OWN_KEYS = frozenset(
    {"name", "image", "imagePullPolicy", "ports", "securityContext", "volumeMounts"}
)
"""The keys of a member's container that the kit sets."""


def check_names(*, members: str, target: str, program: str) -> None:
    """Raises UsageError for a name that the members' objects can't have."""
    for what, name, most, pattern, advice in (
        ("set of members", members, MOST_CHARS_OF_SET, _NAME, "shorten release, target or pool"),
        ("target", target, MOST_CHARS, _NAME, "give it another name"),
        ("program", program, MOST_CHARS, _PROGRAM, "name its process otherwise"),
    ):
        if len(name) > most or not pattern.fullmatch(name):
            letters = "small letters" if pattern is _NAME else "letters, '_', '.'"
            raise UsageError(
                f"{what} {name!r}: found {len(name)} characters, expected 1 to {most} of "
                f"{letters}, digits and '-', with no '-' at the ends: {advice}"
            )
    if target == HANDS_CONTAINER:
        raise UsageError(
            f"target {target!r}: a container beside each member has that name: give it another"
        )


def check_files(
    own: Mapping[str, str], given: Mapping[str, str], *, folders: Iterable[str]
) -> None:
    """Raises UsageError for files of the target (`own`) and of the scenario (`given`) that can't be
    mounted together, or into one of the `folders` that are volumes.
    """
    for path in sorted(set(own) & set(given)):
        raise UsageError(f"target.files has {path}, which the target brings: give it another path")
    paths = {*own, *given}
    for path in sorted(paths):
        above = {path[:end] for end, char in enumerate(path) if char == "/" and end}
        for other in sorted(above & paths):
            raise UsageError(f"files of the members: {other} is a file, and {path} is below it")
        for folder in folders:
            if path == folder or folder in above:
                raise UsageError(
                    f"files of the members: {path} is in {folder}, a volume of each member: "
                    "give it another path"
                )
    size = sum(len(text.encode()) for text in (*own.values(), *given.values()))
    if size > MOST_BYTES:
        raise UsageError(
            f"files of the members: found {size} bytes, of the target and of target.files, "
            f"expected at most {MOST_BYTES}, which one ConfigMap holds: build an image with them"
        )


def check_folders(secrets: Collection[str], *, taken: Collection[str]) -> None:
    """Raises UsageError for folders of Secrets of which one is, holds or lies in another one, or a
    path that is `taken`.
    """
    for folder in sorted(secrets):
        for other in sorted({*taken, *(each for each in secrets if each != folder)}):
            if f"{other}/".startswith(f"{folder}/") or folder.startswith(f"{other}/"):
                raise UsageError(
                    f"target.secrets has {folder}, and {other} is mounted into the members, too, "
                    "as a volume, a file or a Secret: give it a folder beside these"
                )


def check_container(target: str, container: Json) -> None:
    """Raises UsageError for a container that sets what the kit sets."""
    doubled = [*sorted(OWN_KEYS & set(container))]
    doubled += [
        f"the variable {POD_VARIABLE}"
        for each in container.get("env", [])
        if each["name"] == POD_VARIABLE
    ]
    if doubled:
        raise UsageError(
            f"target {target!r}: its container has {', '.join(doubled)}, which the kit sets: leave "
            "it out"
        )

"""Makes the files of a new target package from those of another one. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from zonequake_kube.errors import UsageError

NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
MOST_CHARS = 30
"""A target's name is a part of its pods' names."""

_PYPROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "zonequake-target-{name}"
version = "0.1.0"
dependencies = ["zonequake[chaos]"]

[project.entry-points."zonequake.targets"]
{name} = "{package}.package:TARGET"

[tool.hatch.build.targets.wheel]
packages = ["{package}"]
"""


def check_name(name: str) -> None:
    """Raises UsageError for a name that a target can't have."""
    if not NAME.fullmatch(name) or len(name) > MOST_CHARS:
        raise UsageError(
            f"found the name {name!r}, expected at most {MOST_CHARS} small letters and digits, "
            "with a letter first and single dashes between words"
        )


def skeleton(name: str, *, model: str, sources: Mapping[str, str], test: str) -> dict[str, str]:
    """Returns all files of the new package by their paths: `sources` of the package of the target
    `model`, and its `test`, with the new name in place of the model's.
    """
    package = package_of(name)
    files = {
        f"{package}/{path}": _renamed(text, model, name) for path, text in sorted(sources.items())
    }
    files[f"{package}/py.typed"] = ""
    files[f"tests/test_{package.removeprefix(package_of(''))}.py"] = _renamed(test, model, name)
    files["pyproject.toml"] = _PYPROJECT.format(name=name, package=package)
    return files


def package_of(name: str) -> str:
    """Returns the name of the Python package of a target."""
    return f"zonequake_target_{name.replace('-', '_')}"


_MODELS_OWN = re.compile(r"^ +model_test = .*\n", re.MULTILINE)
"""The line by which a target is the one that is copied."""


def _renamed(text: str, old: str, new: str) -> str:
    text = _MODELS_OWN.sub("", text)
    text = text.replace(package_of(old), package_of(new))
    text = text.replace(old.capitalize(), "".join(map(str.capitalize, new.split("-"))))
    return re.sub(rf"(?<![\w-]){re.escape(old)}(?![\w-])", new, text)

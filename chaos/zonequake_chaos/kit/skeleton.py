"""Makes the files of a new target package from those of another one. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

_PYPROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "zonequake-target-{name}"
version = "0.1.0"
dependencies = ["zonequake[chaos,testing]"]

[project.entry-points."zonequake.targets"]
{name} = "{package}.package:TARGET"

[tool.hatch.build.targets.wheel]
packages = ["{package}"]
"""


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


def next_steps(name: str, folder: str) -> list[tuple[str, list[str]]]:
    """Returns the steps from the folder to a verdict: what each is for, and its commands."""
    one = "--set zones.0.replicas=1 --set pools.0.replicas=1"
    sync = "--set 'target.args=[--sync]'"
    return [
        ("Install it, in the environment that has zonequake", [f"pip install -e {folder}"]),
        ("Run its own tests, without a cluster", [f"pytest {folder}"]),
        ("Have a release: on this machine", ["zonequake cluster up && zonequake install"]),
        (
            "or on another cluster, with the agent that cuts links there",
            ["zonequake install --context CONTEXT --set faultAgent.enabled=true"],
        ),
        (
            "Hold it to what the checks rely on: ends with 1, as a kill loses writes; with --sync "
            "with 2, as one member can't be compared",
            [f"zonequake target check {name}", f"zonequake target check {name} {sync}"],
        ),
        (
            "Run a scenario: it must end as violated, and with --sync as passed",
            [
                f"zonequake run kill-all --target {name} {one}",
                f"zonequake run kill-all --target {name} {one} {sync}",
            ],
        ),
    ]


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

from __future__ import annotations

import re
import tomllib
from functools import cache

import pytest

from tests.unit.images.test_hardening import unpinned
from tests.unit.repository.sources import imported
from tests.unit.repository.test_layout import ROOT, tracked_files

MODULES = {
    "cyclonedx-python-lib": "cyclonedx",
    "google-re2": "re2",
    "grpcio": "grpc",
    "packageurl-python": "packageurl",
    "protobuf": "google.protobuf",
    "pyyaml": "yaml",
}
"""What is imported by another name than its package's."""

NOT_IMPORTED = {
    "editables": "hatchling calls it",
    "hatchling": "[build-system]",
    "import-linter": "the program lint-imports",
    "mkdocs-material": "mkdocs.yml",
    "mkdocstrings": "mkdocs.yml",
    "mypy": "a program",
    "pre-commit": ".pre-commit-config.yaml",
    "pandas": "pyspark imports it; named to hold its version",
    "pytest-asyncio": "asyncio_mode",
    "pytest-timeout": "the option timeout",
    "pytest-xdist": "pytest -n",
    "ruff": "a program",
    "types-protobuf": "mypy reads it",
    "types-pyyaml": "mypy reads it",
    "uv": "scripts/lock.sh",
}
"""Direct dependencies that something else uses, and what."""


def test_no_lock_names_an_address() -> None:
    locks = sorted((ROOT / "requirements").glob("*.txt"))
    assert [lock.stem for lock in locks] == [
        "all",
        "analysis",
        "docs",
        "go",
        "operator",
        "patroni",
        "release",
        "store",
    ]
    for lock in locks:
        assert "://" not in lock.read_text(), lock.name
        assert "index-url" not in lock.read_text(), lock.name


def pinned(lock: str) -> dict[str, str]:
    text = (ROOT / "requirements" / f"{lock}.txt").read_text()
    return dict(re.findall(r"^([a-z0-9._-]+)==(\S+)", text, flags=re.MULTILINE))


@pytest.mark.parametrize("lock", ["store", "operator", "analysis", "patroni"])
def test_an_image_has_the_versions_that_the_tests_have(lock: str) -> None:
    everything = pinned("all")
    assert pinned(lock)
    assert pinned(lock).items() <= everything.items()


def wanted_of(*groups: str) -> set[str]:
    """Names of what the distribution needs, with all of its extras and with these groups."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    assert extras["all"] == [f"zonequake[{','.join(name for name in extras if name != 'all')}]"]
    wanted = [
        *project["project"]["dependencies"],
        *(each for name, extra in extras.items() if name != "all" for each in extra),
        *(each for group in groups for each in project["dependency-groups"][group]),
    ]
    return {re.match(r"[A-Za-z0-9._-]+", each).group() for each in wanted}  # type: ignore[union-attr]


def test_every_dependency_is_in_the_lock() -> None:
    assert {name.lower() for name in wanted_of("dev")} - set(pinned("all")) == set()


def test_the_site_needs_nothing_of_the_tests_and_they_nothing_of_it() -> None:
    everything = pinned("all")
    assert "mkdocs-material" not in everything
    shared = pinned("docs").keys() & everything.keys()
    assert {name: pinned("docs")[name] for name in shared} == {n: everything[n] for n in shared}


def test_every_direct_dependency_has_its_reason_written_down() -> None:
    page = (ROOT / "docs" / "dependencies.md").read_text()
    wanted = {name for name in wanted_of("dev", "docs") if not name.startswith("types-")}
    assert [name for name in sorted(wanted) if f"`{name}`" not in page] == []


def test_a_release_is_made_with_the_versions_that_the_tests_have() -> None:
    assert {"hatchling", "uv"} <= pinned("release").keys()
    assert pinned("release").items() <= pinned("all").items()
    assert wanted_of("release") - wanted_of() <= pinned("release").keys()


def test_the_workflow_of_a_release_installs_nothing_but_from_its_lock() -> None:
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    installs = re.findall(
        r"^ *(?:run: )?((?:\S*pip|uv|pipx|python -m pip) .*)$", workflow, re.MULTILINE
    )
    assert [each for each in installs if "install" in each] == [
        "pip install --require-hashes --requirement requirements/release.txt"
    ]
    assert unpinned((ROOT / "requirements" / "release.txt").read_text()) == []


@cache
def imported_anywhere() -> frozenset[str]:
    """All modules that Python files of the repository import, and the packages around them."""
    names = {name for path in tracked_files() if path.suffix == ".py" for name, _ in imported(path)}
    return frozenset(name.rsplit(".", up)[0] for name in names for up in range(name.count(".") + 1))


def test_every_direct_dependency_is_imported_or_has_another_user() -> None:
    unused = {
        name
        for name in wanted_of("dev", "docs")
        if MODULES.get(name, name.replace("-", "_")) not in imported_anywhere()
    }
    assert unused == NOT_IMPORTED.keys()


def test_what_mypy_knows_no_types_of_is_imported() -> None:
    mypy = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]
    excused = [
        name
        for each in mypy["overrides"]
        if each.get("ignore_missing_imports")
        for name in each["module"]
    ]
    assert [name for name in excused if name.removesuffix(".*") not in imported_anywhere()] == []


def test_mypy_looks_at_every_script_but_those_of_the_site() -> None:
    mypy = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]
    scripts = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in (ROOT / "scripts").rglob("*.py")
        if "docs" not in path.relative_to(ROOT).parts
    }
    assert scripts
    assert scripts - set(mypy["packages"]) == set()

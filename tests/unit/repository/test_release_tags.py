"""A release's tag points to the commit whose chart has the release's version."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.unit.repository.test_layout import ROOT

CHART = "charts/zonequake/Chart.yaml"


def git(repository: Path, *words: str) -> str:
    return subprocess.run(
        ["git", "-C", str(repository), "-c", "user.name=a", "-c", "user.email=a@b", *words],
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def misplaced(repository: Path) -> list[str]:
    """Returns what is wrong with the tags of releases; nothing in a clone without tags."""
    found = []
    for tag in git(repository, "tag", "--list", "v*").split():
        if re.fullmatch(r"v\d+\.\d+\.\d+", tag):
            version = yaml.safe_load(git(repository, "show", f"{tag}:{CHART}"))["version"]
            if tag != f"v{version}":
                commit = git(repository, "log", "-1", "--format=%h %s", tag).strip()
                found.append(f"{tag} is at {commit}, whose {CHART} says {version}")
    return found


def test_a_release_s_tag_is_at_the_commit_of_its_version() -> None:
    assert misplaced(ROOT) == []


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository whose first commit is 0.1.0 and whose second one begins 0.2.0."""
    git(tmp_path, "init", "--quiet")
    chart = tmp_path / CHART
    chart.parent.mkdir(parents=True)
    for version in ("0.1.0", "0.2.0"):
        chart.write_text(f"name: zonequake\nversion: &version {version}\nappVersion: *version\n")
        git(tmp_path, "add", ".")
        git(tmp_path, "commit", "--quiet", "--message", f"Begin {version}")
    return tmp_path


def test_a_tag_at_the_commit_that_begins_the_next_version_is_found(repository: Path) -> None:
    git(repository, "tag", "v0.1.0")
    (wrong,) = misplaced(repository)
    assert re.fullmatch(rf"v0\.1\.0 is at \w+ Begin 0\.2\.0, whose {CHART} says 0\.2\.0", wrong)


def test_a_tag_at_its_version_passes_and_so_do_a_clone_without_tags_and_other_tags(
    repository: Path,
) -> None:
    assert misplaced(repository) == []
    git(repository, "tag", "v0.1.0", "HEAD~")
    git(repository, "tag", "--annotate", "--message", "a", "v0.2.0")
    git(repository, "tag", "v2-of-something")
    assert misplaced(repository) == []

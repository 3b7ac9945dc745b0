"""A release holds every image that a user would otherwise have to build."""

from __future__ import annotations

import re
from typing import Any

import yaml

from tests.unit.repository.test_layout import ROOT
from zonequake_cluster.images.content import IMAGES

MANIFESTS = "scripts/release/manifests.sh"
RELEASED = tuple(spec.name for spec in IMAGES if spec.sources)
"""What `zonequake images push` pushes."""

NOT_RELEASED = {
    "Dockerfile.ignite": "another project's jars, which `zonequake images ignite` gets and checks",
    "Dockerfile.prometheus": "a machine's own package: elsewhere the chart runs the official image",
}
"""Dockerfiles whose images are in no release, and why."""


def joined(script: str) -> list[str]:
    """Returns the images whose architectures the script joins under one tag."""
    found = re.search(r"^for name in (.+); do$", script, flags=re.MULTILINE)
    assert found, MANIFESTS
    return found[1].split()


def attested(workflow: dict[str, Any]) -> list[str]:
    """Returns the images that get a provenance, each for its own digest."""
    names = []
    for step in workflow["jobs"]["publish"]["steps"]:
        subject = step.get("with", {}).get("subject-name", "")
        if step.get("uses", "").startswith("actions/attest-build-provenance@") and subject:
            name = subject.rpartition("/")[2]
            assert step["with"]["subject-digest"] == f"${{{{ steps.images.outputs.{name} }}}}"
            assert step["with"]["push-to-registry"] is True
            names.append(name)
    return names


def test_every_dockerfile_is_that_of_a_released_image_or_has_a_reason() -> None:
    released = {spec.dockerfile for spec in IMAGES if spec.name in RELEASED}
    there = {path.name for path in ROOT.glob("Dockerfile*")}
    assert there == released | NOT_RELEASED.keys()
    assert released & NOT_RELEASED.keys() == set()


def test_every_released_image_is_joined_and_attested() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())
    assert joined((ROOT / MANIFESTS).read_text()) == [*RELEASED]
    assert attested(workflow) == [*RELEASED]


def test_every_architecture_that_is_built_is_joined() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())["jobs"]
    built = [each["arch"] for each in jobs["images"]["strategy"]["matrix"]["include"]]
    (step,) = [step for step in jobs["publish"]["steps"] if step.get("id") == "images"]
    assert (
        f'{MANIFESTS} "${{REPOSITORY,,}}" "${{GITHUB_REF_NAME#v}}" {" ".join(built)} |'
        in step["run"]
    )


def test_the_page_about_releases_names_every_image() -> None:
    page = (ROOT / "docs" / "releasing.md").read_text()
    assert [name for name in RELEASED if f"`{name}`" not in page] == []

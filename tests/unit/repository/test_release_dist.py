"""A release's wheel, sdist and chart name the images of the release."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
REPOSITORY = "registry.example/team/zonequake"
VALUES = Path("charts/zonequake/values.yaml")
HELM = """#!/bin/sh
test "$1" = package && cp "$2/values.yaml" "$4/packaged.yaml"
"""


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release")
    helm = folder / "helm"
    helm.write_text(HELM)
    helm.chmod(0o755)
    done = subprocess.run(
        [str(ROOT / "scripts/release/dist.sh"), str(folder / "dist"), REPOSITORY],
        cwd=folder,
        env={**os.environ, "PYTHON": sys.executable, "HELM": str(helm)},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "dist"


def repository(values: bytes) -> object:
    return yaml.safe_load(values)["images"]["repository"]


def test_the_wheels_chart_names_the_images_of_the_release(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        assert repository(packed.read(f"zonequake_cluster/shipped/{VALUES}")) == REPOSITORY


def test_the_sdists_chart_names_the_images_of_the_release(dist: Path) -> None:
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as packed:
        values = packed.extractfile(f"{sdist.name.removesuffix('.tar.gz')}/{VALUES}")
        assert values is not None
        assert repository(values.read()) == REPOSITORY


def test_the_packaged_chart_names_the_images_of_the_release(dist: Path) -> None:
    assert repository((dist / "packaged.yaml").read_bytes()) == REPOSITORY


def test_the_clones_chart_keeps_its_own_name(dist: Path) -> None:
    assert repository((ROOT / VALUES).read_bytes()) == "zonequake"

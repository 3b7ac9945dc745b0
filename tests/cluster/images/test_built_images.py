from __future__ import annotations

import json
import tarfile
import time
from pathlib import Path

import pytest

from zonequake_chaos.images.build import BuiltImage, build_all, planned_images
from zonequake_chaos.images.checkout import find_checkout

# The first build makes the base and downloads the wheels.
pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def images() -> dict[str, BuiltImage]:
    return build_all(progress=print)


def blob(archive: Path, digest: str) -> dict:
    with tarfile.open(archive) as tar:
        member = tar.extractfile(f"blobs/{digest.replace(':', '/')}")
        assert member
        return json.load(member)


def configuration(image: BuiltImage) -> dict:
    with tarfile.open(image.archive) as tar:
        member = tar.extractfile("index.json")
        assert member
        [entry] = json.load(member)["manifests"]
    assert entry["annotations"]["org.opencontainers.image.ref.name"] == image.ref
    manifest = blob(image.archive, entry["digest"])
    return blob(image.archive, manifest["config"]["digest"])["config"]


@pytest.mark.parametrize("name", ["store", "operator", "prometheus"])
def test_an_image_runs_without_root_below_an_init(images: dict[str, BuiltImage], name: str) -> None:
    config = configuration(images[name])
    assert config["User"] == "65532:65532"
    assert config["Entrypoint"][:2] == ["/usr/bin/tini", "--"]


@pytest.mark.parametrize("name", ["store", "operator", "prometheus"])
def test_an_image_says_nothing_of_the_machine_that_built_it(
    images: dict[str, BuiltImage], name: str
) -> None:
    config = configuration(images[name])
    assert not [v for v in config.get("Env", []) if "proxy" in v.lower() or "://" in v]


def test_nothing_is_built_twice(images: dict[str, BuiltImage]) -> None:
    written = {name: image.archive.stat().st_mtime_ns for name, image in images.items()}
    said: list[str] = []
    start_s = time.monotonic()
    again = build_all(progress=said.append)
    assert time.monotonic() - start_s < 5
    assert again == images
    assert {name: image.archive.stat().st_mtime_ns for name, image in again.items()} == written
    assert all(sentence.endswith("is up to date") for sentence in said)


def test_the_plan_names_what_was_built(images: dict[str, BuiltImage]) -> None:
    planned = planned_images(find_checkout())
    assert {name: planned[name] for name in images} == images
    assert {*planned} - {*images} == {"agent"}, "only it is built when it is asked for"
    assert all(image.archive.is_file() for image in images.values())

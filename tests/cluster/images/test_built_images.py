from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any, cast

import pytest

from tests.cluster.images.image_files import ImageFiles, set_uid
from zonequake_cluster.images.base import base_of_this_machine
from zonequake_cluster.images.bill import PLACE
from zonequake_cluster.images.build import BuiltImage, build_all, planned_images
from zonequake_cluster.own_files import find_own_files

# The first build makes the base and downloads the wheels.
pytestmark = pytest.mark.cluster


Document = dict[str, Any]


@pytest.fixture(scope="module")
def images() -> dict[str, BuiltImage]:
    return build_all(progress=print)


def blob(archive: Path, digest: str) -> Document:
    with tarfile.open(archive) as tar:
        member = tar.extractfile(f"blobs/{digest.replace(':', '/')}")
        assert member
        return cast("Document", json.load(member))


def configuration(image: BuiltImage) -> Document:
    with tarfile.open(image.archive) as tar:
        member = tar.extractfile("index.json")
        assert member
        [entry] = json.load(member)["manifests"]
    assert entry["annotations"]["org.opencontainers.image.ref.name"] == image.ref
    manifest = blob(image.archive, entry["digest"])
    return cast("Document", blob(image.archive, manifest["config"]["digest"])["config"])


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


@pytest.fixture(scope="module")
def files(images: dict[str, BuiltImage]) -> dict[str, ImageFiles]:
    return {name: ImageFiles(image.archive) for name, image in images.items()}


def test_no_image_has_a_program_by_which_a_process_becomes_another_user(
    files: dict[str, ImageFiles],
) -> None:
    assert {name: set_uid(found) for name, found in files.items()} == {name: [] for name in files}
    base = base_of_this_machine(find_own_files().archives).archive
    with tarfile.open(base) as tar:
        before = [m.name for m in tar if m.isfile() and m.mode & 0o6000]
    assert "./usr/bin/su" in before or "./bin/su" in before, "they were there to be taken away"


def test_an_image_holds_its_bill_of_materials_and_nothing_of_python_that_it_lacks(
    images: dict[str, BuiltImage], files: dict[str, ImageFiles]
) -> None:
    for name, found in files.items():
        bill = found.read(f"{PLACE[1:]}/image.cdx.json")
        assert bill == images[name].bill.read_bytes()
        components = json.loads(bill)["components"]
        named = {c["name"] for c in components if c["purl"].startswith("pkg:pypi/")}
        there = {
            path.rpartition("/")[2].partition("-")[0].lower().replace("_", "-")
            for path in found.found
            if path.startswith("opt/zonequake/") and path.endswith(".dist-info")
        }
        assert named == there, name
        assert bool(there) == (name != "prometheus")
        packages = {c["name"] for c in components if c["purl"].startswith("pkg:deb/")}
        status = found.read("var/lib/dpkg/status").decode()
        listed = [line.split()[1] for line in status.splitlines() if line.startswith("Package: ")]
        assert packages == {*listed}
        assert {"libc6", "python3-minimal"} <= packages


def test_an_image_holds_no_key_and_no_trace_of_a_package_index(
    files: dict[str, ImageFiles],
) -> None:
    for name, found in files.items():
        bad = [
            path
            for path in found.found
            if path.endswith((".key", "/pip.conf", ".netrc", "/.git")) or "/.ssh/" in path
        ]
        assert bad == [], name


def test_nothing_is_built_twice(images: dict[str, BuiltImage]) -> None:
    written = {name: image.archive.stat().st_mtime_ns for name, image in images.items()}
    said: list[str] = []
    again = build_all(progress=said.append)
    assert again == images
    assert {name: image.archive.stat().st_mtime_ns for name, image in again.items()} == written
    assert all(sentence.endswith("is up to date") for sentence in said)


def test_the_plan_names_what_was_built(images: dict[str, BuiltImage]) -> None:
    planned = planned_images(find_own_files())
    assert {name: planned[name] for name in images} == images
    asked_for = {*planned} - {*images}
    assert asked_for == {"agent", "analysis", "patroni"}
    assert all(image.archive.is_file() for image in images.values())

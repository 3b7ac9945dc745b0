"""How images are made: without root, without set-uid programs, and of pinned versions."""

from __future__ import annotations

import io
import json
import re
import tarfile
from pathlib import Path

import pytest

from zonequake_cluster.images.content import IMAGES, ImageSpec
from zonequake_cluster.supply.image_import import program_archive

ROOT = Path(__file__).resolve().parents[3]
STRIPPED = "RUN find / -xdev -type f -perm /6000 -exec chmod a-s {} +"
AS_ROOT = {"agent"}
"""docs/security.md: what acts on nodes is root on them."""
REQUIREMENT = re.compile(r"^[a-z0-9].*", re.MULTILINE | re.IGNORECASE)


def words(spec: ImageSpec) -> list[tuple[str, str]]:
    """The instructions of the last stage: what the image itself is made by."""
    text = (ROOT / spec.dockerfile).read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    found = [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in lines]
    last = max(index for index, (word, _) in enumerate(found) if word == "FROM")
    return found[last:]


def unpinned(lock: str) -> list[str]:
    """Requirements without a version and a hash."""
    entries = lock.replace("\\\n", " ")
    return [
        entry.split()[0]
        for entry in REQUIREMENT.findall(entries)
        if not re.match(r"\S+==\S+ .*--hash=sha256:[0-9a-f]{64}", entry)
    ]


@pytest.mark.parametrize("spec", IMAGES, ids=lambda spec: spec.name)
def test_an_image_ends_as_a_numbered_user_who_is_not_root(spec: ImageSpec) -> None:
    users = [argument for word, argument in words(spec) if word == "USER"]
    assert re.fullmatch(r"\d+:\d+", users[-1]), "a kubelet can't tell whether a name is root"
    assert (users[-1] == "0:0") == (spec.name in AS_ROOT)


@pytest.mark.parametrize("spec", IMAGES, ids=lambda spec: spec.name)
def test_programs_lose_their_set_uid_bits_before_anything_is_added(spec: ImageSpec) -> None:
    instructions = [f"{word} {argument}" for word, argument in words(spec)]
    first = next(i for i, each in enumerate(instructions) if each.startswith("COPY"))
    assert STRIPPED in instructions[:first]


@pytest.mark.parametrize("spec", [s for s in IMAGES if s.lock], ids=lambda spec: spec.name)
def test_python_packages_are_pinned_by_version_and_hash(spec: ImageSpec) -> None:
    assert spec.lock is not None
    lock = (ROOT / spec.lock).read_text()
    assert len(REQUIREMENT.findall(lock)) > 5
    assert unpinned(lock) == []
    assert "--require-hashes" in (ROOT / spec.dockerfile).read_text()
    loose = re.sub(r"^(msgspec)==\S+", r"\1>=0", lock, flags=re.MULTILINE)
    assert unpinned(loose) == ["msgspec>=0"], "a loose one is found"


@pytest.mark.parametrize("spec", IMAGES, ids=lambda spec: spec.name)
def test_a_base_that_is_pulled_has_a_version(spec: ImageSpec) -> None:
    text = (ROOT / spec.dockerfile).read_text()
    for base in re.findall(r"^ARG BASE=(\S+)$", text, flags=re.MULTILINE):
        assert re.search(r":\d", base), base
    for base in re.findall(r"^FROM (\S+)", text, flags=re.MULTILINE):
        assert base == "${BASE}"


def test_images_of_one_program_run_without_root() -> None:
    archive = program_archive(b"\x7fELF", image="zonequake/etcd:1", machine="x86_64", path="etcd")
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        blobs = [tar.extractfile(m) for m in tar.getmembers() if m.name.startswith("blobs/")]
        configs = [json.loads(text) for blob in blobs if blob and (text := blob.read())[:1] == b"{"]
    (config,) = [each["config"] for each in configs if "rootfs" in each]
    assert config["User"] == "65535:65535"

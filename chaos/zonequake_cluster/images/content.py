"""The sources of an image, and the hash over them that names the image.

The hash is over content and relative names alone, so that the same sources give the same tag in
every clone and in the wheel, and an unchanged image is neither built nor loaded again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

HASH_DIGITS = 12
AGENT_PACKAGES = ("iptables", "procps", "python3", "strace")
"""Packages for faults on a node; only the fault agent's image has them. `nsenter` is in every
base.
"""
ANALYSIS_PACKAGES = (
    "ca-certificates", "default-jre-headless", "libstdc++6", "procps", "python3", "python3-venv",
    "tini",
)  # fmt: skip
"""The common base's packages (`base.PACKAGES`) and Java, which Spark runs on."""
PATRONI_PACKAGES = (
    "ca-certificates", "libstdc++6", "patroni", "postgresql", "procps", "python3",
    "python3-kubernetes", "python3-venv", "tini",
)  # fmt: skip
"""The common base's packages, PostgreSQL and Patroni."""
_IGNORED_FOLDERS = {"__pycache__"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSpec:
    """One image of ours.

    `extra` names the distribution's extra and so the lock file `requirements/<extra>.txt`;
    `sources` are its packages' folders in the repository. `program` is a program of this machine
    that is copied in, instead of Python code. `base` and `packages` name a base other than the
    common one, and its packages. `asked_for`: built only if it is requested by name.
    """

    name: str
    dockerfile: str
    extra: str | None = None
    sources: tuple[str, ...] = ()
    program: str | None = None
    base: str = "base"
    packages: tuple[str, ...] | None = None
    asked_for: bool = False

    @property
    def lock(self) -> str | None:
        """The lock file's path in the repository."""
        return f"requirements/{self.extra}.txt" if self.extra else None


class NamedFile(NamedTuple):
    """A file, and its name in the repository and in the context of a build."""

    name: str
    path: Path


IMAGES = (
    ImageSpec(
        name="store",
        dockerfile="Dockerfile",
        extra="store",
        sources=(
            "workloads/zonequake_protocol",
            "workloads/zonequake_store",
            "workloads/zonequake_load",
            "workloads/zonequake_tls",
        ),
    ),
    ImageSpec(
        name="operator",
        dockerfile="Dockerfile",
        extra="operator",
        sources=(
            "operator/zonequake_operator",
            "workloads/zonequake_protocol",
            "workloads/zonequake_tls",
        ),
    ),
    ImageSpec(
        name="agent",
        dockerfile="Dockerfile.agent",
        sources=("chaos/zonequake_agent",),
        base="node-base",
        packages=AGENT_PACKAGES,
        asked_for=True,
    ),
    ImageSpec(
        name="analysis",
        dockerfile="Dockerfile.analysis",
        extra="analysis",
        sources=("analysis/zonequake_analysis",),
        base="java-base",
        packages=ANALYSIS_PACKAGES,
        asked_for=True,
    ),
    ImageSpec(
        name="patroni",
        dockerfile="Dockerfile.patroni",
        extra="patroni",
        sources=(
            "workloads/zonequake_protocol",
            "workloads/zonequake_load",
            "workloads/zonequake_tls",
            "chaos/zonequake_target_patroni/image",
        ),
        base="patroni-base",
        packages=PATRONI_PACKAGES,
        asked_for=True,
    ),
    ImageSpec(name="prometheus", dockerfile="Dockerfile.prometheus", program="prometheus"),
)


def source_files(name: str, folder: Path) -> Iterator[NamedFile]:
    """Returns all files below `folder` that belong to an image, sorted; `name` is the folder's."""
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if path.is_file() and not _IGNORED_FOLDERS.intersection(inside.parts):
            yield NamedFile(f"{name}/{inside.as_posix()}", path)


def content_hash(files: Iterable[NamedFile], facts: Iterable[str]) -> str:
    """Returns the first 12 hex digits of a SHA-256 over facts, names of files and their contents.

    The length of each part is hashed too, so that moving a byte between parts changes the hash.
    """
    digest = hashlib.sha256()

    def add(part: bytes) -> None:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)

    for fact in facts:
        add(fact.encode())
    for file in files:
        add(file.name.encode())
        add(file.path.read_bytes())
    return digest.hexdigest()[:HASH_DIGITS]

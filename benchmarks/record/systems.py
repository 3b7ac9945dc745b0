"""What a run of the record needs of its system: an image of the release, or a changed library."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import as_file, files
from pathlib import Path

from benchmarks.record.entries import Entry
from benchmarks.record.patching import apply_patch
from benchmarks.record.runs import ROOT
from zonequake_cluster.embedded import EmbeddedCluster
from zonequake_cluster.images.etcd import build_etcd_release
from zonequake_kube.errors import UsageError

PATCHES = Path(__file__).with_name("patches")
CHANGED = ROOT / ".zonequake" / "record-libraries"
LIBRARY = "pysyncobj"


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """The image of the members, and a folder of packages that stand before the installed ones;
    empty: the target's own.
    """

    image: str = ""
    python_path: str = ""


def prepared(entry: Entry, release: str) -> Prepared:
    """Prepares one release of an entry's system. Raises ChaosError, ImageError."""
    return _BY_SYSTEM[entry.system](entry, release)


def _etcd(entry: Entry, release: str) -> Prepared:
    built = build_etcd_release(release, progress=print)
    cluster = EmbeddedCluster(None, say=print)
    if built.ref not in cluster.images():
        cluster.load_image(built.archive)
    return Prepared(image=built.ref)


def _pysyncobj(entry: Entry, release: str) -> Prepared:
    """The target mounts the library that Python finds: the installed one, or a changed copy."""
    try:
        installed = version(LIBRARY)
    except PackageNotFoundError:
        installed = "none"
    if installed != entry.release:
        raise UsageError(
            f"found {LIBRARY} {installed}, expected {entry.release}: "
            f"pip install 'zonequake[{LIBRARY}]' has it"
        )
    if release == entry.release:
        return Prepared()
    patch = PATCHES / f"{entry.name}.patch"
    return Prepared(python_path=str(changed_library(LIBRARY, patch, CHANGED / release)))


def changed_library(name: str, patch: Path, folder: Path) -> Path:
    """Copies an installed package into a folder, patched; returns the folder. Raises ImageError."""
    shutil.rmtree(folder, ignore_errors=True)
    with as_file(files(name)) as package:
        shutil.copytree(package, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    apply_patch(patch, folder)
    return folder


_BY_SYSTEM: Mapping[str, Callable[[Entry, str], Prepared]] = {
    "etcd": _etcd,
    LIBRARY: _pysyncobj,
}

"""The image of etcd for the embedded cluster: its node's own binary, under the name `etcd`.

That binary contains every program of the node and selects one by the name it is called with. It is
static, so the image holds nothing else.
"""

from __future__ import annotations

import os
import platform

from zonequake_cluster.images.build import REGISTRY, BuiltImage, Progress
from zonequake_cluster.own_files import find_own_files
from zonequake_cluster.supply.image_import import program_archive
from zonequake_cluster.supply.toolchain import ensure_programs
from zonequake_cluster.supply.tools import programs_folder

PATH = "usr/local/bin/etcd"
_TAG_DIGITS = 12
_COMPRESSION = 1
"""Compression level 1: the file of 140 MB is read twice as fast as level 9 compresses it, and is
stored there once.
"""


def build_etcd(*, progress: Progress) -> BuiltImage:
    """Brings the image up to date. Raises BuildFailed, ImageError."""
    folder = programs_folder()
    programs = ensure_programs(folder, say=progress)
    digest = (folder / "built-from").read_text()[:_TAG_DIGITS]
    ref = f"{REGISTRY}/zonequake/etcd:{digest}"
    archives = find_own_files().archives
    archive = archives / f"etcd-{digest}.tar"
    if archive.exists():
        progress(f"image {ref} is up to date")
        return BuiltImage(ref=ref, archive=archive)
    progress(f"building image {ref}")
    archives.mkdir(parents=True, exist_ok=True)
    unfinished = archive.with_suffix(f".{os.getpid()}")
    unfinished.write_bytes(
        program_archive(
            programs.node.read_bytes(),
            image=ref,
            machine=platform.machine(),
            path=PATH,
            compression=_COMPRESSION,
        )
    )
    unfinished.replace(archive)
    return BuiltImage(ref=ref, archive=archive)

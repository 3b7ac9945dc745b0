"""Downloads the wheels of a lock file once on the host, so that builds need no network."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from pathlib import Path

from zonequake_cluster.images import programs
from zonequake_cluster.images.content import NamedFile, content_hash

# glibc versions that the wheels' platform tags may name, newest first; Debian 12 has 2.36.
_GLIBC_MINORS = (36, 35, 34, 31, 28, 27, 26, 24, 17)


def wheel_folder(wheels: Path, lock: NamedFile, python: str) -> Path:
    """Returns the folder of the wheels of this lock for this Python."""
    digest = content_hash([lock], [python, platform.machine()])
    return wheels / f"{lock.path.stem}-{digest}"


def download_wheels(folder: Path, lock: Path, python: str) -> None:
    """Downloads the lock's wheels, checks each file's hash, and then moves the folder into place.

    `python` is `major.minor` of the Python that will install them. Removes the folders of older
    versions of the same lock.
    """
    unfinished = folder.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    machine = platform.machine()
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in _GLIBC_MINORS]
    programs.run(
        [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--require-hashes",
            "--no-deps",
            "--only-binary=:all:",
            f"--python-version={python}",
            *(f"--platform={tag}" for tag in (*platforms, f"manylinux2014_{machine}")),
            f"--dest={unfinished}",
            f"--requirement={lock}",
        ]
    )
    for old in folder.parent.glob(f"{lock.stem}-*"):
        if old != unfinished:
            shutil.rmtree(old)
    os.replace(unfinished, folder)

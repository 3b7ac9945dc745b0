"""Downloads the wheels of a lock file once on the host, so that builds need no network.

A package that is published without a wheel is downloaded as its source, checked by the lock's hash,
and made a wheel of here. The folder then holds a copy of the lock that has this wheel's hash.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from zonequake_cluster.images import programs
from zonequake_cluster.images.content import NamedFile, content_hash

# glibc versions that the wheels' platform tags may name, newest first; Debian 12 has 2.36.
_GLIBC_MINORS = (36, 35, 34, 31, 28, 27, 26, 24, 17)
WITHOUT_WHEEL = ("pyspark",)
"""Packages that are published as source only; each is pure Python, so its wheel fits any Python."""
_PACKAGE = re.compile(r"^(?=[A-Za-z0-9])", re.MULTILINE)
_HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


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
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="lock-") as parts:
        published, sources = Path(parts, "published.txt"), Path(parts, "sources.txt")
        text = lock.read_text()
        published.write_text("".join(_packages(text, without=WITHOUT_WHEEL)))
        wanted = "".join(_packages(text, only=WITHOUT_WHEEL))
        sources.write_text(wanted)
        _pip(
            "download",
            "--only-binary=:all:",
            f"--python-version={python}",
            *(f"--platform={tag}" for tag in (*platforms, f"manylinux2014_{machine}")),
            f"--dest={unfinished}",
            f"--requirement={published}",
        )
        if wanted:
            before = set(unfinished.iterdir())
            _pip("wheel", "--use-pep517", f"--wheel-dir={unfinished}", f"--requirement={sources}")
            made = {path.name: path for path in set(unfinished.iterdir()) - before}
            (unfinished / lock.name).write_text(_with_hashes(text, made))
    for old in folder.parent.glob(f"{lock.stem}-*"):
        if old != unfinished:
            shutil.rmtree(old)
    os.replace(unfinished, folder)


def _pip(command: str, *options: str) -> None:
    words = [sys.executable, "-m", "pip", command, "--quiet", "--require-hashes", "--no-deps"]
    programs.run([*words, *options])


def _packages(lock: str, *, only: tuple[str, ...] = (), without: tuple[str, ...] = ()) -> list[str]:
    """Returns the lock's entries, one for each package, in their order."""
    entries = [entry for entry in _PACKAGE.split(lock) if "==" in entry]
    names = [entry.partition("==")[0] for entry in entries]
    return [
        entry
        for name, entry in zip(names, entries, strict=True)
        if name not in without and (not only or name in only)
    ]


def _with_hashes(lock: str, made: Mapping[str, Path]) -> str:
    """Returns the lock with the hash of each of these wheels in place of its source's."""
    for name, path in made.items():
        (old,) = _packages(lock, only=(name.partition("-")[0],))
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        lock = lock.replace(old, _HASH.sub(f"--hash=sha256:{digest}", old))
    return lock

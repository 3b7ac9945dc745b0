"""The first file of an executors' archive: which Python and which code of the analysis it holds.

Spark sends functions by their names and pickles the rest, so both sides must have the same Python
and the same code; without that a task ends in a stack that names neither.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tarfile
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec

from zonequake_analysis.errors import SessionError

MANIFEST = "environment.json"
ENVIRONMENT = "environment"
"""The name under which executors see the unpacked archive, in their own folder."""
PYTHON = f"./{ENVIRONMENT}/bin/python"
"""The executors' interpreter."""
PACKAGE = Path(__file__).parents[1]
"""The folder of the analysis's own code."""
ENDINGS = (".tar.gz", ".tgz")
"""Spark unpacks by the end of a name."""
_CAN_WRITE = "zonequake executor-archive"


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """`python`: major and minor version. `code`: digest of the analysis's own modules.

    `packages`: versions, and `machine` and `libc` the platform, for people who look into it.
    """

    python: str
    code: str
    machine: str
    libc: str
    packages: dict[str, str]


def own_python() -> str:
    """Returns this interpreter's version, as far as both sides must agree."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


@cache
def own_code() -> str:
    """Returns the digest of the modules that this process runs."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        digest.update(f"{path.relative_to(PACKAGE)}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def read_manifest(archive: Path) -> Manifest | None:
    """Returns what the archive says of itself; None if it says nothing.

    Raises SessionError if it is missing, or no archive.
    """
    try:
        with tarfile.open(archive, "r:gz") as opened:
            first = opened.next()
            if first is None or first.name != MANIFEST:
                return None
            content = opened.extractfile(first)
            assert content is not None
            return msgspec.json.decode(content.read(), type=Manifest)
    except FileNotFoundError as error:
        raise SessionError(
            f"--archives: found no file {archive}; write it: {_CAN_WRITE} {archive}"
        ) from error
    except (OSError, EOFError, tarfile.TarError, msgspec.MsgspecError) as error:
        raise SessionError(
            f"--archives: {archive} can't be read ({error}); write it again: {_CAN_WRITE} {archive}"
        ) from error


def check_fits(archive: Path) -> None:
    """Raises SessionError for an archive that has another Python or code than this process, or is
    none of `zonequake executor-archive`.
    """
    if not archive.name.endswith(ENDINGS):
        raise SessionError(
            f"--archives: found {archive}, expected a name that ends with {' or '.join(ENDINGS)}, "
            "since Spark unpacks by it"
        )
    manifest = read_manifest(archive)
    if manifest is None:
        raise SessionError(
            f"--archives: found no {MANIFEST} first in {archive}, expected an archive of "
            f"{_CAN_WRITE}; spark-submit's own --archives takes any other"
        )
    _check_same(archive, manifest)


def check_given(archives: str) -> None:
    """Checks those of Spark's own list `spark.archives` that `zonequake executor-archive` wrote.

    The others are their user's affair. Raises SessionError.
    """
    for name in filter(None, archives.split(",")):
        parts = urlsplit(name.strip())
        archive = Path(unquote(parts.path))
        if parts.scheme not in ("", "file") or not archive.name.endswith(ENDINGS):
            continue
        if os.access(archive, os.R_OK) and (manifest := read_manifest(archive)) is not None:
            _check_same(archive, manifest)


def _check_same(archive: Path, manifest: Manifest) -> None:
    if manifest.python != own_python():
        raise SessionError(
            f"{archive} has Python {manifest.python}, this process runs {own_python()}; Spark "
            f"needs the same on both sides: write it again with this one: {_CAN_WRITE} {archive}"
        )
    if manifest.code != own_code():
        raise SessionError(
            f"{archive} has other code of the analysis (digest {manifest.code}) than this process "
            f"({own_code()}); write it again: {_CAN_WRITE} {archive}"
        )

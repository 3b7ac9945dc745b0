"""Writes an executors' archive: an environment that runs wherever it is unpacked.

venv-pack and PEX leave the interpreter to the worker: they put a link to, or the name of, one that
must be there already. Here it is part of the archive. Of a worker's machine only its C library and
a shell are used.

    environment.json    what it holds (`manifest`)
    bin/python          a shell script: finds its own folder, then runs …
    bin/python3.11      … the interpreter
    lib/                shared libraries that it and the packages load
    lib/python3.11/     its own library; below `site-packages` the packages and the analysis
"""

from __future__ import annotations

import io
import platform
import tarfile
import uuid
from collections.abc import Mapping
from pathlib import Path

import msgspec

from zonequake_analysis.executors.contents import INTERPRETER, SITE, files, packages
from zonequake_analysis.executors.manifest import MANIFEST, Manifest, own_code, own_python

_COMPRESSION = 3
"""Half of the time of 6, for a few percent of size."""
_PYTHON = f"""#!/bin/sh
# Runs this environment's interpreter, from wherever it was unpacked.
here=$(CDPATH= cd -- "${{0%/*}}/.." && pwd -P) || exit 127
PYTHONHOME=$here
PYTHONNOUSERSITE=1
PYTHONPATH=$here/{SITE}${{PYTHONPATH:+:$PYTHONPATH}}
LD_LIBRARY_PATH=$here/lib${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}
export PYTHONHOME PYTHONNOUSERSITE PYTHONPATH LD_LIBRARY_PATH
exec "$here/{INTERPRETER}" "$@"
"""


def write_archive(out: Path) -> Manifest:
    """Writes the archive of this environment; it appears whole. Returns what it says of itself.

    Raises:
        ArchiveError: a package isn't installed, or the platform has no such archives.
        OSError: it can't be written.
    """
    found = packages()
    manifest = Manifest(
        python=own_python(),
        code=own_code(),
        machine=platform.machine(),
        libc=" ".join(platform.libc_ver()),
        packages={name: package.version for name, package in sorted(found.items())},
    )
    chosen = files(found.values())
    out.parent.mkdir(parents=True, exist_ok=True)
    draft = out.with_name(f".{out.name}.{uuid.uuid4().hex}")
    try:
        with tarfile.open(draft, "w:gz", compresslevel=_COMPRESSION) as archive:
            _add(archive, MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)), 0o644)
            _add(archive, "bin/python", _PYTHON.encode(), 0o755)
            _add_files(archive, chosen)
        draft.replace(out)
    finally:
        draft.unlink(missing_ok=True)
    return manifest


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))


def _add_files(archive: tarfile.TarFile, chosen: Mapping[str, Path]) -> None:
    """Adds files, never links: what a link names may not be there."""
    for name, path in sorted(chosen.items()):
        entry = tarfile.TarInfo(name)
        found = path.stat()
        # Compiled modules count only beside a source of the same time.
        entry.size, entry.mtime = found.st_size, int(found.st_mtime)
        entry.mode = 0o755 if found.st_mode & 0o100 else 0o644
        with path.open("rb") as content:
            archive.addfile(entry, content)

"""`zonequake pack`: run folders in one archive, for a pipeline to keep and to judge elsewhere.

The archive holds everything that a judgement needs, and not `tables/` and `columns/`, which are
derived from it. Everything that leads back to the cluster is replaced by a note: the kubeconfig's
path, and tokens and private keys that a pod may have logged.
"""

from __future__ import annotations

import io
import re
import tarfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from zonequake_analysis.errors import LocationError
from zonequake_analysis.run_argument import path_here
from zonequake_chaos.record.run_folder import RunFolder
from zonequake_kube.errors import UsageError

_DERIVED = ("tables", "columns")
_BINARY = {".parquet"}
_SECRETS = {
    "private key": re.compile(
        rb"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
    ),
    "token": re.compile(rb"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+"),
    "credential": re.compile(rb"(?i)(?<=bearer )[A-Za-z0-9._~+/=-]{16,}"),
}


@dataclass(slots=True, kw_only=True)
class PackResult:
    """The result of packing: the number of files, the archive's size, and the number of removals by
    kind.
    """

    files: int = 0
    size_bytes: int = 0
    removed: Counter[str] = field(default_factory=Counter)


def on_this_machine(given: str, option: str) -> Path:
    """Returns the path that the option names. Raises UsageError for a location in a store."""
    try:
        return path_here(given)
    except LocationError as error:
        raise UsageError(
            f"{option}: {error}: an archive is made here, of folders here; copy them by the "
            "store's own tools"
        ) from error


def pack_runs(folders: Sequence[Path], out: Path) -> PackResult:
    """Writes `out` (.tar.gz) with all files of `folders`. Raises UsageError, OSError."""
    for folder in folders:
        if not list(_runs(folder)):
            raise UsageError(f"{folder} is no run folder and holds none: there is no run.yaml")
    names = [folder.resolve().name for folder in folders]
    for name in {name for name in names if names.count(name) > 1}:
        raise UsageError(f"two folders are named {name}; pack the folder above them")
    packed = PackResult()
    with _created(out) as archive:
        for folder, name in zip(folders, names, strict=True):
            paths = [path for run in _runs(folder) if (path := _kubeconfig(run)) is not None]
            for file in _files(folder):
                if file.resolve() == out.resolve():
                    continue
                data = file.read_bytes()
                if file.suffix not in _BINARY:
                    data = _without_secrets(data, paths, packed.removed)
                entry = tarfile.TarInfo(f"{name}/{file.relative_to(folder).as_posix()}")
                entry.size, entry.mode, entry.mtime = len(data), 0o644, int(file.stat().st_mtime)
                archive.addfile(entry, io.BytesIO(data))
                packed.files += 1
    packed.size_bytes = out.stat().st_size
    return packed


def _created(out: Path) -> tarfile.TarFile:
    """Creates the archive. Raises UsageError."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        return tarfile.open(out, "w:gz")
    except OSError as error:
        raise UsageError(
            f"--out {out} can't be written: {error.strerror}, expected a file that can be created"
        ) from error


def _runs(folder: Path) -> Iterator[Path]:
    """Returns the run folders: the folder itself, or those in it."""
    for file in (folder / "run.yaml", *sorted(folder.glob("*/run.yaml"))):
        if file.is_file():
            yield file.parent


def _files(folder: Path) -> Iterator[Path]:
    derived = {run / name for run in _runs(folder) for name in _DERIVED}
    for file in sorted(folder.rglob("*")):
        if file.is_file() and not file.is_symlink() and not derived & set(file.parents):
            yield file


def _kubeconfig(run: Path) -> bytes | None:
    path = RunFolder.open(run).cluster().kubeconfig
    return path.encode() if path else None


def _without_secrets(data: bytes, paths: Sequence[bytes], removed: Counter[str]) -> bytes:
    for path in paths:
        removed["kubeconfig path"] += data.count(path)
        data = data.replace(path, b"(kubeconfig)")
    for what, pattern in _SECRETS.items():
        data, count = pattern.subn(f"({what} removed)".encode(), data)
        removed[what] += count
    return data

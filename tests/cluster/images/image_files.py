"""The files of an image in an OCI archive, as a container would see them."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

_GONE, _OPAQUE = ".wh.", ".wh..wh..opq"


class ImageFiles:
    """Every file, by its path without a leading slash; later layers stand over earlier ones."""

    def __init__(self, archive: Path) -> None:
        self.found: dict[str, tarfile.TarInfo] = {}
        self._layer_of: dict[str, str] = {}
        self._archive = archive
        with tarfile.open(archive) as tar:
            (entry,) = _json(tar, "index.json")["manifests"]
            for layer in _json(tar, _blob(entry["digest"]))["layers"]:
                self._add(tar, _blob(layer["digest"]))

    def read(self, path: str) -> bytes:
        with (
            tarfile.open(self._archive) as tar,
            tarfile.open(fileobj=tar.extractfile(self._layer_of[path]), mode="r:*") as layer,
        ):
            content = layer.extractfile(self.found[path])
            assert content is not None, f"{path} is no file"
            return content.read()

    def _add(self, tar: tarfile.TarFile, blob: str) -> None:
        with tarfile.open(fileobj=tar.extractfile(blob), mode="r|*") as layer:
            for member in layer:
                path = member.name.removeprefix("./").strip("/")
                folder, _, name = path.rpartition("/")
                if name == _OPAQUE:
                    self._remove(f"{folder}/", but_of=blob)
                elif name.startswith(_GONE):
                    gone = f"{folder}/{name.removeprefix(_GONE)}".strip("/")
                    self._remove(gone, but_of=blob)
                    self._remove(f"{gone}/", but_of=blob)
                else:
                    self.found[path], self._layer_of[path] = member, blob

    def _remove(self, path: str, *, but_of: str) -> None:
        """One file, or with a slash at the end all below it."""
        for each in list(self.found):
            hit = each.startswith(path) if path.endswith("/") else each == path
            if hit and self._layer_of[each] != but_of:
                del self.found[each], self._layer_of[each]


def set_uid(files: ImageFiles) -> list[str]:
    """Programs by which a process changes its user."""
    return sorted(
        path for path, info in files.found.items() if info.isfile() and info.mode & 0o6000
    )


def _blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _json(tar: tarfile.TarFile, name: str) -> Any:
    content = tar.extractfile(name)
    assert content is not None
    return json.load(content)

"""Imports images into a node's containerd, and builds the pause image that every pod needs."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import subprocess
import tarfile
from pathlib import Path

from zonequake_cluster.configuration import CONTAINERD_SOCKET
from zonequake_cluster.errors import ProviderError

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def program_archive(
    program: bytes, *, image: str, machine: str, path: str = "program", compression: int = 9
) -> bytes:
    """Returns an OCI archive of an image that holds only one static program, at `path`.

    `machine` is the kernel's name for the processor. The same input gives the same bytes.
    """
    layer = _tar({path: (program, 0o755)})
    packed = gzip.compress(layer, compression, mtime=0)
    config = _json(
        {
            "architecture": _ARCHITECTURES[machine],
            "os": "linux",
            "config": {"Entrypoint": [f"/{path}"], "User": "65535:65535"},
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        }
    )
    media = "application/vnd.oci.image"
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": f"{media}.manifest.v1+json",
            "config": _descriptor(f"{media}.config.v1+json", config),
            "layers": [_descriptor(f"{media}.layer.v1.tar+gzip", packed)],
        }
    )
    entry = _descriptor(f"{media}.manifest.v1+json", manifest)
    index = _json(
        {
            "schemaVersion": 2,
            "manifests": [entry | {"annotations": {"io.containerd.image.name": image}}],
        }
    )
    blobs = {
        f"blobs/sha256/{hashlib.sha256(blob).hexdigest()}": (blob, 0o644)
        for blob in (packed, config, manifest)
    }
    layout = (_json({"imageLayoutVersion": "1.0.0"}), 0o644)
    return _tar({"oci-layout": layout, "index.json": (index, 0o644), **blobs})


def import_archive(init_pid: int, archive: Path) -> str:
    """Imports an OCI or Docker archive and returns the image's name. Raises ProviderError.

    Uses standard input, because the node does not see all of the machine's folders.
    """
    with archive.open("rb") as content:
        done = subprocess.run(
            _ctr(init_pid, "images", "import", "--digests=false", "-"),
            check=False,
            stdin=content,
            capture_output=True,
            text=True,
        )
    # ctr says `unpacking NAME (sha256:…)...done` for each image.
    names = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("unpacking ")]
    if done.returncode != 0 or not names:
        said = (done.stderr or done.stdout).strip()
        raise ProviderError(f"image archive {archive} was not imported: {said or 'it has no name'}")
    return names[0]


def list_images(init_pid: int) -> list[str]:
    """Returns the names of the images without digests, sorted."""
    done = subprocess.run(
        _ctr(init_pid, "images", "list", "--quiet"), check=False, capture_output=True, text=True
    )
    if done.returncode != 0:
        raise ProviderError(f"containerd did not list its images: {done.stderr.strip()}")
    return sorted(name for name in done.stdout.split() if not name.startswith("sha256:"))


def _ctr(init_pid: int, *words: str) -> list[str]:
    enter = ["nsenter", "--target", str(init_pid), "--mount", "--pid"]
    return [*enter, "ctr", "--address", CONTAINERD_SOCKET, "--namespace", "k8s.io", *words]


def _tar(files: dict[str, tuple[bytes, int]]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, (content, mode) in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _descriptor(media_type: str, content: bytes) -> dict[str, object]:
    return {"mediaType": media_type, "digest": _digest(content), "size": len(content)}

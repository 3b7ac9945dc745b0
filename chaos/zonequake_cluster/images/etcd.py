"""Images of etcd that hold one static program and nothing else.

For the embedded cluster that is its node's own binary, under the name `etcd`: it contains every
program of the node and selects one by the name it is called with. Other releases are built from the
Go proxy.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from zonequake_cluster.errors import BuildFailed
from zonequake_cluster.images.build import REGISTRY, BuiltImage, Progress
from zonequake_cluster.images.releases import ETCD_EXPECTED, ETCD_PATTERN, FAILPOINTS
from zonequake_cluster.own_files import find_own_files
from zonequake_cluster.supply.image_import import program_archive
from zonequake_cluster.supply.toolchain import WITHOUT_DEBUGGING, ensure_programs, find_go
from zonequake_cluster.supply.tools import programs_folder
from zonequake_kube.errors import UsageError

PATH = "usr/local/bin/etcd"
SERVER = "go.etcd.io/etcd/server/v3"
GOFAIL, GOFAIL_VERSION = "go.etcd.io/gofail", "v0.2.0"
_TAG_DIGITS = 12
_COMPRESSION = 1
"""Compression level 1: the file of 140 MB is read twice as fast as level 9 compresses it, and is
stored there once.
"""
_BUILD_S = 1800.0


def build_etcd(*, progress: Progress) -> BuiltImage:
    """Brings the image up to date. Raises BuildFailed, ImageError."""
    folder = programs_folder()
    programs = ensure_programs(folder, say=progress)
    image = _image((folder / "built-from").read_text()[:_TAG_DIGITS])
    if not _is_there(image, progress):
        _write(image, programs.node)
    return image


def build_etcd_release(release: str, *, progress: Progress) -> BuiltImage:
    """Builds the server of a release, such as `3.5.2`, from the Go proxy; once. One with its
    failpoints is named `3.5.2+failpoints`.

    It is compiled with this machine's Go, newer than the one that the release was published with.
    Raises UsageError, BuildFailed.
    """
    if re.fullmatch(ETCD_PATTERN, release) is None:
        raise UsageError(f"found the release {release!r}, expected {ETCD_EXPECTED}")
    image = _image("v" + release.replace("+", "-"))  # an image's tag has no plus
    if _is_there(image, progress):
        return image
    go = find_go(progress)
    with tempfile.TemporaryDirectory(prefix="etcd-release-") as folder:
        _write(image, _compiled(go, Path(folder), release))
    return image


def _compiled(go: str, module: Path, release: str) -> Path:
    """Compiles a release in an empty folder; returns the program. Raises BuildFailed."""
    version = release.removesuffix(FAILPOINTS)
    lines = ["module release", "go 1.24", f"require {SERVER} v{version}"]
    if version != release:
        _copy_with_failpoints(go, module, version)
        lines += [f"require {GOFAIL} {GOFAIL_VERSION}", f"replace {SERVER} => ./server"]
    (module / "go.mod").write_text("\n".join(lines) + "\n")
    program = module / "etcd"
    options = [*WITHOUT_DEBUGGING, "-ldflags", "-s -w", "-o", str(program)]
    _run(go, ["build", *options, SERVER], module, version)
    return program


def _copy_with_failpoints(go: str, module: Path, version: str) -> None:
    """Copies the server's source into `module / "server"`, and turns its comments that name
    failpoints into code, as etcd's `make gofail-enable` does. Raises BuildFailed.
    """
    found = _run(go, ["mod", "download", "-json", f"{SERVER}@v{version}"], module, version)
    source = module / "server"
    shutil.copytree(json.loads(found)["Dir"], source, copy_function=shutil.copyfile)
    for folder in [source, *source.rglob("*/")]:  # the module cache is read-only
        folder.chmod(0o755)
    have = {file.parent for file in source.rglob("*.go") if "// gofail:" in file.read_text()}
    tool = f"{GOFAIL}@{GOFAIL_VERSION}"
    _run(go, ["run", tool, "enable", *map(str, sorted(have))], module, version)


def _run(go: str, words: Sequence[str], module: Path, version: str) -> str:
    done = subprocess.run(
        [go, *words],
        cwd=module,
        env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=mod"},
        capture_output=True,
        text=True,
        timeout=_BUILD_S,
        check=False,
    )
    if done.returncode != 0:
        tail = "\n".join(done.stderr.strip().splitlines()[-15:])
        raise BuildFailed(f"`go {words[0]}` of {SERVER} v{version} ended with an error:\n{tail}")
    return done.stdout


def _image(tag: str) -> BuiltImage:
    archive = find_own_files().archives / f"etcd-{tag}.tar"
    return BuiltImage(ref=f"{REGISTRY}/zonequake/etcd:{tag}", archive=archive)


def _is_there(image: BuiltImage, progress: Progress) -> bool:
    if image.archive.exists():
        progress(f"image {image.ref} is up to date")
        return True
    progress(f"building image {image.ref}")
    return False


def _write(image: BuiltImage, program: Path) -> None:
    image.archive.parent.mkdir(parents=True, exist_ok=True)
    unfinished = image.archive.with_suffix(f".{os.getpid()}")
    unfinished.write_bytes(
        program_archive(
            program.read_bytes(),
            image=image.ref,
            machine=platform.machine(),
            path=PATH,
            compression=_COMPRESSION,
        )
    )
    unfinished.replace(image.archive)

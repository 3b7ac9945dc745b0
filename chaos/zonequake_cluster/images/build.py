"""Builds all images of this installation, each one only if something in it has changed.

    base (mmdebstrap, once)  ─┐
    wheels (pip, per lock)   ─┼─► staged context ─► buildah bud ─► <name>-<hash>.tar
    sources, Dockerfile      ─┤
    bill of materials        ─┘                                    <name>-<hash>.cdx.json

The tag is the hash of all inputs, so a pod template that names the image changes exactly when its
code does.
"""

from __future__ import annotations

import fcntl
import hashlib
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from zonequake_cluster.images import programs
from zonequake_cluster.images.base import Base, base_of_this_machine, build_base, python_version
from zonequake_cluster.images.bill import PLACE, VERSION, BillItem, bill_of, packages_of, wheels_in
from zonequake_cluster.images.buildah import Buildah, mounts_below
from zonequake_cluster.images.content import (
    IMAGES,
    ImageSpec,
    NamedFile,
    content_hash,
    source_files,
)
from zonequake_cluster.images.wheels import download_wheels, wheel_folder
from zonequake_cluster.own_files import OwnFiles, find_own_files
from zonequake_kube.errors import UsageError

REGISTRY = "docker.io"  # the registry that a kubelet adds to a name without one
_REPOSITORY = re.compile(
    r"([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9a-fA-F:]+\])(:[0-9]{1,5})?"
    r"(/[a-z0-9]+((\.|__?|-+)[a-z0-9]+)*)*"
)
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")

Progress = Callable[[str], None]


class BuiltImage(NamedTuple):
    """An image that is ready to be loaded: the name for pods, and the OCI archive that holds it."""

    ref: str
    archive: Path

    @property
    def bill(self) -> Path:
        """The bill of materials (CycloneDX); the image contains the same."""
        return self.archive.with_suffix(".cdx.json")


def build_all(*, progress: Progress, also: Sequence[str] = ()) -> dict[str, BuiltImage]:
    """Brings every image up to date; returns them by name: `store`, `operator`, `prometheus`.

    `also`: images that are built only on request (`agent`, `analysis`, `patroni`). The load runs
    from the store's image.
    `progress` gets one sentence per step. Concurrent builds of one installation wait for each
    other. Raises ImageError.
    """
    own = find_own_files()
    planned = planned_images(own)
    specs = [spec for spec in IMAGES if not spec.asked_for or spec.name in also]
    wanted = {spec.name: planned[spec.name] for spec in specs}
    with only_build(own):
        missing = [spec for spec in specs if not wanted[spec.name].archive.exists()]
        for spec in specs:
            if spec not in missing:
                progress(f"image {wanted[spec.name].ref} is up to date")
        if missing or mounts_below(own.buildah):
            with Buildah.without_leftovers(own.buildah) as buildah:
                for spec in missing:
                    base = _base_of(own, spec)
                    prepare_base(buildah, base, progress)
                    _build_image(own, buildah, base, spec, wanted[spec.name], progress)
    return wanted


def push_all(
    repository: str, *, tag: str, plain_http: bool, progress: Progress
) -> dict[str, BuiltImage]:
    """Brings our images up to date and pushes each as `repository/name:tag`; returns them by name.

    Prometheus is not ours: a registry has its own. Raises UsageError before anything is built,
    ImageError.
    """
    check_names(repository, tag)
    own = find_own_files()
    built = build_all(progress=progress, also=[spec.name for spec in IMAGES if spec.asked_for])
    ours = {spec.name: built[spec.name] for spec in IMAGES if spec.sources}
    with only_build(own), Buildah.without_leftovers(own.buildah) as buildah:
        for name, image in ours.items():
            with _timed(f"push of {name}", progress):
                buildah.push(image.archive, f"{repository}/{name}:{tag}", plain_http=plain_http)
    return ours


def check_names(repository: str, tag: str) -> None:
    """Raises UsageError for a repository or tag that no registry takes."""
    if _REPOSITORY.fullmatch(repository) is None:
        raise UsageError(
            f"found the repository {repository!r}, expected a registry and a path in lower case, "
            "such as registry.example:5000/zonequake"
        )
    if _TAG.fullmatch(tag) is None:
        raise UsageError(
            f"--tag: found {tag!r}, expected up to 128 letters, digits, '.', '_' and '-', with a "
            "letter, a digit or '_' first"
        )


def planned_images(own: OwnFiles) -> dict[str, BuiltImage]:
    """Returns name and archive of each image for the present sources; an archive may not exist
    yet.
    """
    planned: dict[str, BuiltImage] = {}
    for spec in IMAGES:
        files = [_named(own, spec.dockerfile)]
        if spec.lock:
            files.append(_named(own, spec.lock))
        files += _sources(own, spec)
        facts = [spec.name, _base_of(own, spec).digest, VERSION]
        if spec.program:
            facts.append(_program_version(spec.program))
        digest = content_hash(files, facts)
        planned[spec.name] = BuiltImage(
            ref=f"{REGISTRY}/zonequake/{spec.name}:{digest}",
            archive=own.archives / f"{spec.name}-{digest}.tar",
        )
    return planned


def _named(own: OwnFiles, name: str) -> NamedFile:
    return NamedFile(name, own.find(name))


def _sources(own: OwnFiles, spec: ImageSpec) -> Iterator[NamedFile]:
    for folder in spec.sources:
        yield from source_files(folder, own.find(folder))


def _base_of(own: OwnFiles, spec: ImageSpec) -> Base:
    return base_of_this_machine(own.archives, name=spec.base, packages=spec.packages)


def _program_version(program: str) -> str:
    programs.require(program)
    return programs.run(["dpkg-query", "--show", "--showformat=${Version}", program])


def prepare_base(buildah: Buildah, base: Base, progress: Progress) -> None:
    """Makes sure that the storage holds a base, under its name."""
    if not base.archive.exists():
        progress(f"building the {base.name} image from {base.codename}'s packages")
        with _timed(f"{base.name} image", progress):
            build_base(base)
        _remove_others(base.archive, base.name)
    name = base_name(base)
    if not buildah.has(name):
        buildah.remove_others(name)
        buildah.import_root(base.archive, name)


def base_name(base: Base) -> str:
    """Returns the name of a base in the storage."""
    return f"localhost/zonequake/{base.name}:{base.digest}"


def _build_image(
    own: OwnFiles,
    buildah: Buildah,
    base: Base,
    spec: ImageSpec,
    image: BuiltImage,
    progress: Progress,
) -> None:
    arguments = {"BASE": base_name(base)}
    wheels: Path | None = None
    if spec.lock and spec.extra:
        arguments |= {"EXTRA": spec.extra, "PIP_OPTIONS": "--no-index --find-links=/build"}
        lock = _named(own, spec.lock)
        python = python_version(base)
        wheels = wheel_folder(own.wheels, lock, python)
        if not wheels.exists():
            with _timed(f"wheels of {spec.name}", progress):
                download_wheels(wheels, lock.path, python)
    progress(f"building image {image.ref}")
    with (
        _timed(f"image {image.ref}", progress),
        tempfile.TemporaryDirectory(dir=own.archives, prefix="context-") as context,
    ):
        bill = bill_of(image.ref, _parts(spec, base, wheels), made_s=base.archive.stat().st_mtime)
        image.bill.write_text(bill)
        _stage(own, spec, wheels, bill, Path(context))
        buildah.build(
            Path(context), dockerfile=spec.dockerfile, arguments=arguments, name=image.ref
        )
        buildah.save(image.ref, image.archive, image.ref)
    buildah.remove_others(image.ref)
    _remove_others(image.archive, spec.name)


def _remove_others(archive: Path, name: str) -> None:
    for old in archive.parent.glob(f"{name}-*.tar"):
        if old != archive:
            old.unlink()
            old.with_suffix(".cdx.json").unlink(missing_ok=True)


def _parts(spec: ImageSpec, base: Base, wheels: Path | None) -> Iterator[BillItem]:
    yield from packages_of(base.archive)
    if wheels:
        yield from wheels_in(wheels)
    for source in spec.sources:
        yield BillItem(kind="generic", name=Path(source).name, version=version("zonequake"))
    if spec.program:
        program = Path(programs.require(spec.program))
        yield BillItem(
            kind="generic",
            name=spec.program,
            version=_program_version(spec.program),
            sha256=hashlib.sha256(program.read_bytes()).hexdigest(),
        )


def _stage(own: OwnFiles, spec: ImageSpec, wheels: Path | None, bill: str, context: Path) -> None:
    """Writes the build context: only this image's files, so that no other change rebuilds it."""
    # Only in a staged context: `docker build .` of a clone has no bill (it makes its own with
    # --sbom).
    dockerfile = own.find(spec.dockerfile).read_text()
    (context / spec.dockerfile).write_text(f"{dockerfile}COPY image.cdx.json {PLACE}/\n")
    (context / "image.cdx.json").write_text(bill)
    for folder in ("operator", "workloads", "chaos", "analysis", "requirements"):
        (context / folder).mkdir()
    for file in _sources(own, spec):
        target = context / file.name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file.path, target)
    if spec.lock and wheels:
        shutil.copy2(own.find(spec.lock), context / "requirements")
        for path in wheels.iterdir():  # the lock too, where a wheel was made here
            shutil.copy2(path, context / "requirements")
    if spec.program:
        shutil.copy2(programs.require(spec.program), context)


@contextmanager
def _timed(what: str, progress: Progress) -> Iterator[None]:
    start_s = time.monotonic()
    yield
    progress(f"{what}: done in {time.monotonic() - start_s:.1f} s")


@contextmanager
def only_build(own: OwnFiles) -> Iterator[None]:
    """Waits until no other build of this installation runs, and keeps others waiting."""
    own.archives.mkdir(parents=True, exist_ok=True)
    with (own.archives / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield

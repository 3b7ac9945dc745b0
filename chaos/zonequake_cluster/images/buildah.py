"""buildah with its own storage, which shares nothing with the machine's."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from zonequake_cluster.images import programs
from zonequake_cluster.images.errors import ImageError, ProgramFailedError

_QUICK = ("--compression-format=gzip", "--compression-level=1")
"""Half of the time of the default level, for archives that are a tenth larger."""
_MOUNTS = Path("/proc/self/mountinfo")


def mounts_below(folder: Path) -> list[Path]:
    """Returns what is mounted below the folder, in the order to unmount it."""
    above = folder.resolve()
    mounted = [Path(_unescaped(line.split()[4])) for line in _MOUNTS.read_text().splitlines()]
    return [place for place in reversed(mounted) if above in place.parents]


def _unescaped(field: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), field)


class Buildah:
    """Builds from Dockerfiles in chroots; layers are cached between builds in its folder."""

    def __init__(self, folder: Path) -> None:
        """`folder` will hold storage, run time state and temporary files.

        Raises ProgramMissingError if buildah isn't installed.
        """
        programs.require("buildah")
        self._folder = folder
        self._temporary = folder / "tmp"
        self._temporary.mkdir(parents=True, exist_ok=True)
        self._driver = self._working_driver()

    @classmethod
    @contextmanager
    def without_leftovers(cls, folder: Path) -> Iterator[Buildah]:
        """Yields one that begins, and ends if it is interrupted, without what a build left.

        Expects that no other build uses the folder.
        """
        buildah = cls(folder)
        buildah.release()
        try:
            yield buildah
        except BaseException:
            with suppress(ImageError):  # what is left then, the next build releases
                buildah.release()
            raise

    def release(self) -> None:
        """Removes the containers that builds left, and unmounts everything below the folder.

        A killed buildah leaves both, and with them the folder can't be deleted.
        """
        self._run("rm", "--all")
        for place in mounts_below(self._folder):
            programs.run(["umount", str(place)])

    def has(self, name: str) -> bool:
        """Returns whether the storage holds an image of this name."""
        return any(line == name for line in self._images())

    def remove_others(self, keep: str) -> None:
        """Removes the images with this one's name and another tag; shared layers stay."""
        repository = keep.rpartition(":")[0]
        for name in self._images():
            if name.startswith(f"{repository}:") and name != keep:
                self._run("rmi", "--force", name)

    def import_root(self, archive: Path, name: str) -> None:
        """Makes an image of one layer from the tar of a root file system.

        Layers that no named image needs are dropped: they were cached for another root.
        """
        self._run("rmi", "--prune")
        container = self._run("from", "--quiet", "scratch").strip()
        try:
            self._run("add", "--quiet", container, str(archive), "/")
            self._run("commit", "--quiet", container, name)
        finally:
            self._run("rm", container)

    def build(
        self, context: Path, *, dockerfile: str, arguments: Mapping[str, str], name: str
    ) -> None:
        """Builds a Dockerfile of the context; nothing is pulled."""
        build_arguments = [f"--build-arg={key}={value}" for key, value in arguments.items()]
        self._run(
            "bud",
            "--isolation=chroot",
            "--layers",
            "--pull-never",
            f"--file={context / dockerfile}",
            *build_arguments,
            f"--tag={name}",
            str(context),
        )

    def save(self, name: str, archive: Path, reference: str) -> None:
        """Writes an image as an OCI archive that carries `reference` as its name."""
        unfinished = archive.with_suffix(".unfinished")
        unfinished.unlink(missing_ok=True)
        self._run("push", "--quiet", *_QUICK, name, f"oci-archive:{unfinished}:{reference}")
        os.replace(unfinished, archive)

    def push(self, archive: Path, destination: str, *, plain_http: bool) -> None:
        """Sends an OCI archive to a registry, with the credentials of `buildah login`."""
        name = self._run("pull", "--quiet", f"oci-archive:{archive}").strip()
        tls = ["--tls-verify=false"] if plain_http else []
        self._run("push", "--quiet", *tls, name, f"docker://{destination}")

    def _images(self) -> list[str]:
        listed = self._run("images", "--noheading", "--format={{.Name}}:{{.Tag}}")
        return [line.strip() for line in listed.splitlines()]

    def _working_driver(self) -> str:
        # overlay is quick and shares layers, but not every file system can carry it (overlay on
        # overlay, as inside a container); vfs copies and works everywhere.
        try:
            programs.run(self._command("overlay", "images"), environment=self._environment())
        except ProgramFailedError:
            return "vfs"
        return "overlay"

    def _run(self, *arguments: str) -> str:
        return programs.run(
            self._command(self._driver, *arguments), environment=self._environment()
        )

    def _command(self, driver: str, *arguments: str) -> list[str]:
        return [
            "buildah",
            f"--root={self._folder / driver}",
            f"--runroot={self._folder / f'{driver}-run'}",
            f"--storage-driver={driver}",
            *arguments,
        ]

    def _environment(self) -> dict[str, str]:
        return {"TMPDIR": str(self._temporary)}

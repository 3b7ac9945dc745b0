"""Images of Apache Ignite 3: a Java runtime, and the release's jars from Maven Central.

Each jar of a release is pinned by its SHA-256, in `requirements/ignite-<release>.sha256`; the
build ends if one is missing, or isn't pinned.
"""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from zonequake_cluster.errors import BuildFailed
from zonequake_cluster.images import programs
from zonequake_cluster.images.base import base_of_this_machine
from zonequake_cluster.images.build import (
    REGISTRY,
    BuiltImage,
    Progress,
    base_name,
    only_build,
    prepare_base,
)
from zonequake_cluster.images.buildah import Buildah
from zonequake_cluster.images.content import ANALYSIS_PACKAGES, NamedFile, content_hash
from zonequake_cluster.images.releases import IGNITE_EXPECTED, IGNITE_RELEASES
from zonequake_cluster.own_files import find_own_files
from zonequake_kube.errors import UsageError

DOCKERFILE = "Dockerfile.ignite"
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
_FETCH_S = 1800.0
_MOST_NAMED = 5
_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>zonequake</groupId>
  <artifactId>ignite-jars</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.ignite</groupId>
      <artifactId>ignite-runner</artifactId>
      <version>{release}</version>
    </dependency>
  </dependencies>
</project>
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class JarChange:
    """A change of a release: the name that its image gets, the files that it is made of, and what
    it does with the folder of the release's jars, which were checked before.
    """

    name: str
    files: Sequence[Path]
    apply: Callable[[Path], None]


def build_ignite_release(
    release: str, *, progress: Progress, change: JarChange | None = None
) -> BuiltImage:
    """Builds the image of a release, such as `3.1.0`, or of a change of it, once.

    Raises UsageError, BuildFailed, ImageError.
    """
    if release not in IGNITE_RELEASES:
        raise UsageError(f"found the release {release!r}, expected {IGNITE_EXPECTED}")
    own = find_own_files()
    files = [NamedFile(name, own.find(name)) for name in (DOCKERFILE, pins_of(release))]
    tag = f"v{release}"
    if change is not None:
        files += [NamedFile(path.name, path) for path in change.files]
        tag += f"-{change.name}"
    base = base_of_this_machine(own.archives, name="java-base", packages=ANALYSIS_PACKAGES)
    digest = content_hash(files, [base.digest])
    image = BuiltImage(
        ref=f"{REGISTRY}/zonequake/ignite:{tag}-{digest}",
        archive=own.archives / f"ignite-{tag}-{digest}.tar",
    )
    with only_build(own):
        if image.archive.exists():
            progress(f"image {image.ref} is up to date")
            return image
        with tempfile.TemporaryDirectory(dir=own.archives, prefix="context-") as folder:
            context = Path(folder)
            progress(f"fetching the jars of Ignite {release}")
            fetch_jars(release, context / "lib", pins=read_pins(own.find(pins_of(release))))
            if change is not None:
                progress(f"changing the jars: {change.name}")
                change.apply(context / "lib")
            (context / DOCKERFILE).write_text(own.find(DOCKERFILE).read_text())
            with Buildah.without_leftovers(own.buildah) as buildah:
                prepare_base(buildah, base, progress)
                progress(f"building image {image.ref}")
                arguments = {"BASE": base_name(base)}
                buildah.build(context, dockerfile=DOCKERFILE, arguments=arguments, name=image.ref)
                buildah.save(image.ref, image.archive, image.ref)
    return image


def pins_of(release: str) -> str:
    """Returns the path of a release's checksums in the repository."""
    return f"requirements/ignite-{release}.sha256"


def read_pins(path: Path) -> dict[str, str]:
    """Returns the SHA-256 of each jar by its name."""
    pairs = (line.split() for line in path.read_text().splitlines())
    return {name: digest for digest, name in pairs}


def fetch_jars(release: str, folder: Path, *, pins: Mapping[str, str]) -> None:
    """Fetches a release's jars by Maven into `folder`, and checks each.

    Raises ProgramMissingError, BuildFailed.
    """
    maven = programs.require("mvn", package="maven")
    with tempfile.TemporaryDirectory(prefix="ignite-jars-") as module:
        Path(module, "pom.xml").write_text(_POM.format(release=release))
        done = subprocess.run(
            [
                *(maven, "--batch-mode", "--quiet", _COPY),
                *("-DincludeScope=runtime", f"-DoutputDirectory={folder}"),
            ],
            cwd=module,
            capture_output=True,
            text=True,
            timeout=_FETCH_S,
            check=False,
        )
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
        raise BuildFailed(f"`mvn {_COPY}` of Ignite {release} ended with an error:\n{tail}")
    check_jars(folder, pins)


def check_jars(folder: Path, pins: Mapping[str, str]) -> None:
    """Raises BuildFailed unless the folder holds exactly the jars that are pinned."""
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*")}
    wrong = sorted(name for name in {*found, *pins} if found.get(name) != pins.get(name))
    if wrong:
        some = "; ".join(
            f"{name}: found {found.get(name, 'no file')}, expected {pins.get(name, 'no file')}"
            for name in wrong[:_MOST_NAMED]
        )
        raise BuildFailed(
            f"{len(wrong)} of Ignite's jars aren't those that are pinned ({some}): a release's "
            "jars never change, so find out where these come from before they are run"
        )

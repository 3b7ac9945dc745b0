"""Builds the control of what `leader-pause` found: Apache Ignite 3.1.0 with one line changed.

    python -m benchmarks.evidence_ignite.control

`control.patch` says which line, and why. The source comes from Maven Central and is compiled with
a JDK against the release's jars, as released and patched; the classes that differ replace those of
the release's `ignite-raft`, and all else is the release. Builds an image of it, and prints its name
and its archive; needs root, as each image does.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from benchmarks.evidence_ignite.page import RELEASE
from benchmarks.record.patching import apply_patch
from zonequake_cluster.errors import BuildFailed
from zonequake_cluster.images import programs
from zonequake_cluster.images.build import BuiltImage, Progress
from zonequake_cluster.images.ignite import JarChange, build_ignite_release

PATCH = Path(__file__).with_name("control.patch")
PATCHED = "org/apache/ignite/raft/jraft/core/NodeImpl.java"
JAR = f"ignite-raft-{RELEASE}.jar"
SOURCES = f"ignite-raft-{RELEASE}-sources.jar"
SOURCES_SHA256 = "491118a600ef8977d4d7ea56b8be10a04fb930206d382a1a65d7602158a2c94e"
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
_COMPILE = ("javac", "--release", "11", "-g", "-proc:none", "-nowarn", "-implicit:none")
"""The release's own classes are of Java 11, with all that debuggers read."""


def build_control(progress: Progress) -> BuiltImage:
    """Builds the image, once. Raises BuildFailed, ImageError."""
    require_compiler()
    change = JarChange(name="control", files=(PATCH, Path(__file__)), apply=change_jar)
    return build_ignite_release(RELEASE, progress=progress, change=change)


def require_compiler() -> None:
    """Raises BuildFailed if the machine has no compiler of Java."""
    if shutil.which("javac") is None:
        raise BuildFailed(
            "found no javac: the control is compiled, with a JDK of Java 17 "
            "(`apt-get install openjdk-17-jdk-headless`)"
        )


def change_jar(lib: Path) -> None:
    """Replaces the changed classes in the release's jar, in the folder of all jars.

    Raises BuildFailed, ImageError.
    """
    with tempfile.TemporaryDirectory(prefix="ignite-control-") as folder:
        work = Path(folder)
        source = fetch_source(work)
        released = _compiled(source, lib, work / "released")
        apply_patch(PATCH, work)
        patched = _compiled(source, lib, work / "patched")
        changed = {name: code for name, code in patched.items() if code != released.get(name)}
        replace_entries(lib / JAR, changed)


def fetch_source(folder: Path) -> Path:
    """Fetches the one source file that is patched. Raises BuildFailed, ImageError."""
    maven = programs.require("mvn", package="maven")
    wanted = f"-Dartifact=org.apache.ignite:ignite-raft:{RELEASE}:jar:sources"
    programs.run([maven, "--batch-mode", "--quiet", _COPY, wanted, f"-DoutputDirectory={folder}"])
    jar = folder / SOURCES
    found = hashlib.sha256(jar.read_bytes()).hexdigest() if jar.exists() else "no file"
    if found != SOURCES_SHA256:
        raise BuildFailed(
            f"{SOURCES}: found {found}, expected {SOURCES_SHA256}: a release's sources never "
            "change, so find out where these come from before they are compiled"
        )
    with zipfile.ZipFile(jar) as archive:
        return Path(archive.extract(PATCHED, folder))


def _compiled(source: Path, lib: Path, into: Path) -> dict[str, bytes]:
    into.mkdir()
    programs.run([*_COMPILE, "-cp", f"{lib}/*", "-d", str(into), str(source)])
    return {path.relative_to(into).as_posix(): path.read_bytes() for path in into.rglob("*.class")}


def replace_entries(jar: Path, entries: Mapping[str, bytes]) -> None:
    """Replaces entries of a jar, and leaves all others. Raises BuildFailed if one isn't there."""
    changed = jar.with_suffix(".changed")
    with zipfile.ZipFile(jar) as old, zipfile.ZipFile(changed, "w") as new:
        if not entries or (entries.keys() - set(old.namelist())):
            raise BuildFailed(f"found the classes {sorted(entries)}, expected some of {jar.name}")
        for entry in old.infolist():
            new.writestr(entry, entries.get(entry.filename) or old.read(entry))
    changed.replace(jar)


if __name__ == "__main__":
    print(*build_control(print), sep="  ")

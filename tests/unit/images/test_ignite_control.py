"""Ignite's control: one file of a source that is pinned is patched, and one class is replaced."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.evidence_ignite import control
from benchmarks.record.patching import apply_patch
from zonequake_cluster.errors import BuildFailed
from zonequake_cluster.images.errors import ProgramFailedError

AS_RELEASED = "".join(
    f"{line[1:]}\n"
    for line in control.PATCH.read_text().partition("@@\n")[2].splitlines()
    if not line.startswith("+")
)
CHANGED = "NodeImpl$Handler.class"
Maven = Callable[[str], Path]


@pytest.fixture
def maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Maven:
    """A Maven that gives a jar with a source of this text, whose checksum becomes the pinned one;
    and a compiler that writes a class of the source's size, and one that is always the same.
    """
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()

    def made(source: str) -> Path:
        jar = tmp_path / "served.jar"
        with zipfile.ZipFile(jar, "w") as archive:
            archive.writestr(control.PATCHED, source)
            archive.writestr("Other.java", source)
        digest = hashlib.sha256(jar.read_bytes()).hexdigest()
        monkeypatch.setattr(control, "SOURCES_SHA256", digest)
        write_program(
            bin_folder / "mvn",
            'for word in "$@"; do case $word in -DoutputDirectory=*) to=${word#*=};; esac; done\n'
            f'cp "{jar}" "$to/{control.SOURCES}"\n',
        )
        return jar

    write_program(
        bin_folder / "javac",
        'while [ $# -gt 1 ]; do [ "$1" = -d ] && to=$2; shift; done\n'
        f'wc -c < "$1" > "$to/{CHANGED.replace("$", chr(92) + "$")}"\n'
        'echo same > "$to/NodeImpl.class"\n',
    )
    monkeypatch.setenv("PATH", f"{bin_folder}:/usr/bin:/bin")
    return made


def write_program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}")
    path.chmod(0o755)


def write_jar(folder: Path, *names: str) -> Path:
    folder.mkdir()
    with zipfile.ZipFile(folder / control.JAR, "w") as archive:
        for name in names:
            archive.writestr(name, f"{name} as released")
    return folder


def test_the_patch_changes_one_line_of_one_file(tmp_path: Path) -> None:
    for name in (control.PATCHED, "org/apache/ignite/Other.java", "NodeImpl.java"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(AS_RELEASED)
    before = {path: path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    apply_patch(control.PATCH, tmp_path)
    after = {path: path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    assert {path for path in after if after[path] != before.get(path)} == {
        tmp_path / control.PATCHED
    }
    now = after[tmp_path / control.PATCHED].splitlines()
    was = AS_RELEASED.splitlines()
    assert len(now) == len(was)
    assert [(a.strip(), b.strip()) for a, b in zip(was, now, strict=True) if a != b] == [
        ("} else if (timestamp.compareTo(safeTs) > 0) {", "} else {")
    ]


def test_a_source_that_reads_otherwise_is_not_patched(tmp_path: Path) -> None:
    file = tmp_path / control.PATCHED
    file.parent.mkdir(parents=True)
    file.write_text(AS_RELEASED.replace("clock.update(timestamp)", "clock.now()"))
    with pytest.raises(ProgramFailedError, match="patch"):
        apply_patch(control.PATCH, tmp_path)


def test_only_the_class_that_the_patch_changes_is_replaced(tmp_path: Path, maven: Maven) -> None:
    maven(AS_RELEASED)
    lib = write_jar(tmp_path / "lib", "NodeImpl.class", CHANGED, "Third.class")
    control.change_jar(lib)
    assert [path.name for path in lib.iterdir()] == [control.JAR]
    with zipfile.ZipFile(lib / control.JAR) as archive:
        found = {name: archive.read(name).decode() for name in archive.namelist()}
    size = int(found.pop(CHANGED))
    assert size == len(AS_RELEASED) - len("if (timestamp.compareTo(safeTs) > 0) ")
    assert found == {name: f"{name} as released" for name in ("NodeImpl.class", "Third.class")}


def test_a_source_with_another_checksum_is_refused(tmp_path: Path, maven: Maven) -> None:
    jar = maven(AS_RELEASED)
    with zipfile.ZipFile(jar, "a") as archive:
        archive.writestr("Third.java", "")
    lib = write_jar(tmp_path / "lib", "NodeImpl.class", CHANGED)
    before = (lib / control.JAR).read_bytes()
    with pytest.raises(BuildFailed, match=r"sources\.jar: found [0-9a-f]{64}, expected"):
        control.change_jar(lib)
    assert (lib / control.JAR).read_bytes() == before


def test_a_class_that_the_release_lacks_is_refused(tmp_path: Path, maven: Maven) -> None:
    maven(AS_RELEASED)
    with pytest.raises(BuildFailed, match="Handler"):
        control.change_jar(write_jar(tmp_path / "lib", "NodeImpl.class"))
    with pytest.raises(BuildFailed, match=r"found the classes \[\]"):
        control.replace_entries(tmp_path / "lib" / control.JAR, {})


def test_a_machine_without_a_compiler_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildFailed, match=r"javac.*Java 17.*apt-get install"):
        control.build_control(print)

"""Jars of Ignite: each is one that is pinned; what is missing, changed or added ends the build."""

from __future__ import annotations

import hashlib
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from tests.unit.repository.test_layout import ROOT
from zonequake_cluster.errors import BuildFailed
from zonequake_cluster.images import ignite, programs
from zonequake_cluster.images.base import Base
from zonequake_cluster.images.cli import app
from zonequake_cluster.images.releases import IGNITE_RELEASES
from zonequake_cluster.own_files import find_own_files
from zonequake_kube.errors import UsageError

PINS = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("a.jar", "b.jar")}


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    for name in PINS:
        (tmp_path / name).write_text(name)
    return tmp_path


def test_jars_that_are_pinned_are_taken(jars: Path) -> None:
    ignite.check_jars(jars, PINS)


def test_a_jar_that_is_another_is_refused(jars: Path) -> None:
    (jars / "a.jar").write_text("another")
    with pytest.raises(BuildFailed, match=r"^1 of .*a\.jar: found [0-9a-f]{64}"):
        ignite.check_jars(jars, PINS)


def test_a_jar_that_is_missing_or_unknown_is_refused(jars: Path) -> None:
    (jars / "a.jar").rename(jars / "c.jar")
    with pytest.raises(BuildFailed, match=r"a\.jar: found no file.*c\.jar: .*expected no file"):
        ignite.check_jars(jars, PINS)


def test_jars_are_fetched_by_maven_and_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "mvn"
    program.write_text(
        "#!/bin/sh\n"
        "grep -q '<artifactId>ignite-runner</artifactId>' pom.xml || exit 1\n"
        'for word in "$@"; do case $word in -DoutputDirectory=*) to=${word#*=};; esac; done\n'
        'mkdir "$to" && printf a.jar > "$to/a.jar" && printf b.jar > "$to/b.jar"\n'
    )
    program.chmod(0o755)
    monkeypatch.setattr(programs, "require", lambda *_, **__: str(program))
    ignite.fetch_jars("3.1.0", tmp_path / "lib", pins=PINS)
    program.write_text("#!/bin/sh\necho no network >&2; exit 1\n")
    with pytest.raises(BuildFailed, match="no network"):
        ignite.fetch_jars("3.1.0", tmp_path / "again", pins=PINS)


def test_each_release_has_its_pins_and_the_wheel_has_them() -> None:
    shipped = (ROOT / "pyproject.toml").read_text()
    for release in IGNITE_RELEASES:
        pins = ignite.read_pins(find_own_files().find(ignite.pins_of(release)))
        assert f"ignite-runner-{release}.jar" in pins
        assert {len(digest) for digest in pins.values()} == {64}
        assert f'"{ignite.pins_of(release)}" = ' in shipped


def test_the_image_of_a_change_has_changed_jars_and_a_name_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: dict[str, str] = {}

    class Pretended:
        def build(self, context: Path, *, name: str, **_: object) -> None:
            built[name] = (context / "lib" / "a.jar").read_text()

        def save(self, _image: str, archive: Path, _name: str) -> None:
            archive.touch()

    def fetch(_release: str, folder: Path, **_: object) -> None:
        folder.mkdir()
        (folder / "a.jar").write_text("as released")

    base = Base(codename="bookworm", digest="0" * 12, archive=tmp_path / "base.tar")
    places = SimpleNamespace(
        archives=tmp_path / "images", buildah=tmp_path, find=find_own_files().find
    )
    monkeypatch.setattr(ignite, "find_own_files", lambda: places)
    monkeypatch.setattr(ignite, "base_of_this_machine", lambda *_, **__: base)
    monkeypatch.setattr(ignite, "fetch_jars", fetch)
    monkeypatch.setattr(ignite, "prepare_base", lambda *_: None)
    pretended = SimpleNamespace(without_leftovers=lambda _: nullcontext(Pretended()))
    monkeypatch.setattr(ignite, "Buildah", pretended)
    made_of = tmp_path / "made-of"
    made_of.write_text("one")
    change = ignite.JarChange(
        name="altered", files=[made_of], apply=lambda lib: put(lib / "a.jar", "changed")
    )
    plain = ignite.build_ignite_release("3.1.0", progress=print)
    altered = ignite.build_ignite_release("3.1.0", progress=print, change=change)
    assert built == {plain.ref: "as released", altered.ref: "changed"}
    assert ":v3.1.0-altered-" in altered.ref
    assert altered.archive.name.startswith("ignite-v3.1.0-altered-")
    assert ignite.build_ignite_release("3.1.0", progress=print, change=change) == altered
    made_of.write_text("another")
    assert ignite.build_ignite_release("3.1.0", progress=print, change=change) != altered


def put(path: Path, text: str) -> None:
    path.write_text(text)


@pytest.mark.parametrize("release", ["3.0.0", "3.1", "latest"])
def test_a_release_without_pins_is_refused(release: str) -> None:
    with pytest.raises(UsageError, match=r"3\.1\.0"):
        ignite.build_ignite_release(release, progress=print)
    assert CliRunner().invoke(app, ["ignite", release]).exit_code == 254

"""Jars of Ignite: each is one that is pinned; what is missing, changed or added ends the build."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.unit.repository.test_layout import ROOT
from zonequake_cluster.errors import BuildFailed
from zonequake_cluster.images import ignite, programs
from zonequake_cluster.images.cli import app
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
    for release in ignite.RELEASES:
        pins = ignite.read_pins(find_own_files().find(ignite.pins_of(release)))
        assert f"ignite-runner-{release}.jar" in pins
        assert {len(digest) for digest in pins.values()} == {64}
        assert f'"{ignite.pins_of(release)}" = ' in shipped


@pytest.mark.parametrize("release", ["3.0.0", "3.1", "latest"])
def test_a_release_without_pins_is_refused(release: str) -> None:
    with pytest.raises(UsageError, match=r"3\.1\.0"):
        ignite.build_ignite_release(release, progress=print)
    assert CliRunner().invoke(app, ["ignite", release]).exit_code == 254

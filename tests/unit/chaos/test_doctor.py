"""What is missing on a machine is named, with the command that mends it."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from zonequake_chaos.commands.cli import app
from zonequake_cluster import requirements
from zonequake_cluster.machine.disk_room import DiskRoom
from zonequake_cluster.own_files import OwnFiles, find_own_files
from zonequake_cluster.requirements import FOR_IMAGES, REQUIREMENTS
from zonequake_ctl.release import doctor
from zonequake_ctl.release.doctor import DoctorFinding


def room(free_bytes: int) -> DiskRoom:
    """Of a disk whose pods are evicted below 1 GiB."""
    return DiskRoom(folder=Path("/somewhere"), free_bytes=free_bytes)


def test_a_machine_with_everything_needs_nothing() -> None:
    own = find_own_files()
    found = [
        doctor.own_files(own),
        *doctor.python_packages(lambda _: True),
        doctor.embedded_cluster([], user=0),
        next(doctor.images([], own)),
        doctor.java(17),
        doctor.space(room(doctor.SPACE_BYTES + 2**30)),
    ]
    assert [finding for finding in found if not finding.well] == []


def test_each_thing_that_is_missing_has_its_command(tmp_path: Path) -> None:
    own = OwnFiles(checkout=tmp_path)
    containerd, buildah = REQUIREMENTS[0], FOR_IMAGES[0]
    extras = doctor.python_packages(lambda module: module != "pyspark")
    found = [
        doctor.own_files(own),
        *(finding for finding in extras if not finding.well),
        doctor.embedded_cluster([containerd], user=0),
        doctor.embedded_cluster([], user=1000),
        next(doctor.images([buildah], own)),
        doctor.java(None),
        doctor.java(11),
        doctor.space(room(doctor.SPACE_BYTES + 2**30 - 1)),
    ]
    assert [finding.mend for finding in found] == [
        "make setup",
        "pip install 'zonequake[analysis]'",
        "apt-get install -y --no-install-recommends containerd",
        "sudo zonequake cluster up",
        "apt-get install -y --no-install-recommends buildah",
        "apt-get install -y --no-install-recommends default-jre-headless",
        "apt-get install -y --no-install-recommends default-jre-headless",
        "free some room on the file system of /somewhere",
    ]
    assert found[0].found.startswith("zonequake's own file charts/zonequake/Chart.yaml is missing")
    assert found[1].found == "without pyspark"
    assert "containerd (runs the containers)" in found[2].found
    assert found[6].found == "Java 11, which is too old for Spark"


@pytest.mark.parametrize(("mend", "code"), [("", 0), ("make setup", 1)])
def test_the_command_says_it_and_its_code_tells(
    monkeypatch: pytest.MonkeyPatch, mend: str, code: int
) -> None:
    finding = DoctorFinding(work="disk", found="no room", mend=mend)
    monkeypatch.setattr(doctor, "examine", lambda _: iter([finding]))
    done = CliRunner().invoke(app, ["doctor"])
    assert done.exit_code == code
    assert ("missing disk: no room" in done.output) == bool(mend)
    assert ("fix it with: make setup" in done.output) == bool(mend)


def test_the_javas_version_is_read_as_java_says_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert doctor.java_version() is None
    for said, version in (('openjdk version "17.0.15" 2025-04-15', 17), ("rubbish", None)):
        java.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
        java.chmod(0o755)
        assert doctor.java_version() == version


def test_every_program_that_images_need_is_looked_for() -> None:
    absent = requirements.missing_for_images(lambda _: None)
    assert [each.program for each in absent] == ["buildah", "mmdebstrap", "prometheus"]
    assert requirements.missing_for_images(lambda _: "/bin/x") == []

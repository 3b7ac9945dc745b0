from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from zonequake_cluster.images import base, programs
from zonequake_cluster.images.base import Base, base_of_this_machine, python_version
from zonequake_cluster.images.errors import (
    BaseUnusableError,
    ProgramFailedError,
    ProgramMissingError,
)
from zonequake_cluster.images.programs import require, run


def base_with_python(folder: Path, target: str) -> Base:
    archive = folder / "base.tar"
    with tarfile.open(archive, "w") as tar:
        link = tarfile.TarInfo("./usr/bin/python3")
        link.type, link.linkname = tarfile.SYMTYPE, target
        tar.addfile(link, io.BytesIO())
    return Base(codename="bookworm", digest="0", archive=archive)


def test_the_base_says_which_python_its_wheels_are_for(tmp_path: Path) -> None:
    assert python_version(base_with_python(tmp_path, "python3.12")) == "3.12"


def test_a_distribution_with_an_old_python_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BaseUnusableError, match=r"has Python 3\.9, the images need 3\.11"):
        python_version(base_with_python(tmp_path, "python3.9"))


def test_the_base_is_named_by_release_and_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = base_of_this_machine(tmp_path)
    assert base_of_this_machine(tmp_path) == before
    monkeypatch.setattr(base, "PACKAGES", ("python3",))
    assert base_of_this_machine(tmp_path).digest != before.digest


def test_only_the_distributions_own_sources_make_the_base(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = (
        "Debian\tbookworm\tmain\tmirror:/debian\n"
        "Debian\tbookworm\tmain\tmirror:/debian\n"
        "Debian\tbookworm\tnon-free\tmirror:/debian\n"
        "Debian\tbookworm-updates\tmain\tmirror:/debian\n"
        "Somebody\tbookworm\tmain\tmirror:/other\n"
        "Debian\tsid\tmain\tmirror:/debian\n"
    )
    monkeypatch.setattr(programs, "run", lambda command: listed)
    assert base._package_sources("bookworm") == [
        "deb mirror:/debian bookworm main",
        "deb mirror:/debian bookworm-updates main",
    ]


def test_a_machine_that_never_updated_apt_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "run", lambda command: "")
    with pytest.raises(BaseUnusableError, match="apt-get update"):
        base._package_sources("bookworm")


def test_a_failed_program_shows_its_last_words() -> None:
    with pytest.raises(ProgramFailedError, match=r"(?s)code 3:.*the disk is full"):
        run(["sh", "-c", "echo the disk is full >&2; exit 3"])


def test_a_missing_program_names_its_package() -> None:
    with pytest.raises(ProgramMissingError, match="apt-get install the-package"):
        require("no-such-program-anywhere", package="the-package")

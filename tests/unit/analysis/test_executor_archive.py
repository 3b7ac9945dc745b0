"""An executors' archive fits the process that hands it on, or is refused in words, before Spark."""

from __future__ import annotations

import io
import os
import socket
import sys
import tarfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import msgspec
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from zonequake_analysis.errors import ArchiveError, SessionError
from zonequake_analysis.executors import archive, contents
from zonequake_analysis.executors.manifest import (
    MANIFEST,
    Manifest,
    check_fits,
    check_given,
    own_code,
    own_python,
)
from zonequake_analysis.spark_pass.session import build_session, executors_python
from zonequake_analysis.spark_pass.settings import Size

CLUSTER = "spark://10.0.0.9:7077"


def made(file: Path, *, name: str = MANIFEST, python: str = "", code: str = "") -> Path:
    """An archive that holds a manifest and nothing else."""
    manifest = Manifest(
        python=python or own_python(), code=code or own_code(), machine="", libc="", packages={}
    )
    content = msgspec.json.encode(manifest)
    with tarfile.open(file, "w:gz") as opened:
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        opened.addfile(entry, io.BytesIO(content))
    return file


def test_an_archive_of_this_python_and_code_fits(tmp_path: Path) -> None:
    check_fits(made(tmp_path / "e.tar.gz"))


def test_another_python_is_refused_with_both_versions_and_the_command(tmp_path: Path) -> None:
    file = made(tmp_path / "e.tgz", python="3.9")
    with pytest.raises(
        SessionError,
        match=rf"has Python 3\.9, this process runs {own_python()}.*executor-archive {file}",
    ):
        check_fits(file)


def test_other_code_of_the_analysis_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SessionError, match=f"digest 0123.*{own_code()}.*write it again"):
        check_fits(made(tmp_path / "e.tar.gz", code="0123"))


def test_a_missing_archive_is_named_with_the_command_that_writes_it(tmp_path: Path) -> None:
    missing = tmp_path / "e.tar.gz"
    with pytest.raises(SessionError, match=f"no file {missing}.*executor-archive {missing}"):
        check_fits(missing)


@pytest.mark.parametrize("content", [b"", b"no archive at all", b"\x1f\x8b\x08"])
def test_what_is_no_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "e.tar.gz").write_bytes(content)
    with pytest.raises(SessionError, match="can't be read"):
        check_fits(tmp_path / "e.tar.gz")


def test_an_archive_of_another_tool_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SessionError, match=r"no environment\.json first.*expected an archive of"):
        check_fits(made(tmp_path / "e.tar.gz", name="bin/python"))


def test_a_name_that_spark_does_not_unpack_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SessionError, match=r"expected a name that ends with \.tar\.gz or \.tgz"):
        check_fits(made(tmp_path / "environment"))


def test_archives_of_spark_submit_are_checked_if_they_are_ours(tmp_path: Path) -> None:
    fits, foreign = made(tmp_path / "a,b#c.tar.gz"), made(tmp_path / "x.tar.gz", name="bin/python")
    check_given("")
    check_given(f"{fits.as_uri()}#environment,{foreign}#other,hdfs://there/z.tar.gz,data.zip")
    old = made(tmp_path / "old,1.tar.gz", python="2.7")
    with pytest.raises(SessionError, match=r"old,1\.tar\.gz has Python 2\.7"):
        check_given(f"{foreign}#other,{old.as_uri()}#environment")


@pytest.mark.parametrize(("master", "remote"), [(None, None), ("local[2]", None), (None, "sc://h")])
def test_archives_without_a_cluster_are_refused(
    tmp_path: Path, master: str | None, remote: str | None
) -> None:
    file = made(tmp_path / "e.tar.gz")
    with pytest.raises(SessionError, match="expected --master of a cluster"):
        build_session(size=Size.SMALL, master=master, remote=remote, archives=file)


def test_archives_beside_spark_submit_are_refused_with_its_own_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    file = made(tmp_path / "e.tar.gz")
    with pytest.raises(SessionError, match=r"--archives .*#environment .*spark\.pyspark\.python"):
        build_session(size=Size.SMALL, master=CLUSTER, archives=file)


def test_an_archive_that_does_not_fit_stops_the_session_before_spark(tmp_path: Path) -> None:
    with pytest.raises(SessionError, match="found no file"):
        build_session(size=Size.SMALL, master=CLUSTER, archives=tmp_path / "e.tar.gz")


def test_an_archives_python_is_that_of_one_session_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "own")
    file = made(tmp_path / "e.tar.gz")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        master = f"spark://127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(SessionError, match="can't be reached"):
            build_session(size=Size.SMALL, master=master, archives=file)
    assert os.environ["PYSPARK_PYTHON"] == "own"
    with executors_python(None):
        assert os.environ["PYSPARK_PYTHON"] == "own"
    with executors_python(file):
        assert os.environ["PYSPARK_PYTHON"] == "./environment/bin/python"
    assert os.environ["PYSPARK_PYTHON"] == "own"


def test_the_packages_are_those_that_the_extras_need_without_spark() -> None:
    """As packaging reads the requirements, which is not there at run time."""
    expected: set[str] = set()
    wanted = [("zonequake", "analysis"), ("zonequake", "hdfs")]
    while wanted:
        name, extra = wanted.pop()
        for line in distribution(name).requires or []:
            each = Requirement(line)
            key = canonicalize_name(each.name)
            chosen = each.marker is None or each.marker.evaluate({"extra": extra})
            if chosen and key not in expected | {"pyspark"}:
                expected.add(key)
                wanted.append((key, ""))
    found = contents.packages()
    assert found.keys() == expected
    assert {"numpy", "pandas", "pyarrow", "msgspec"} <= found.keys()
    assert not {"pyspark", "py4j", "pytest"} & found.keys()


def test_a_package_that_is_not_installed_is_named_with_what_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def without(name: str) -> object:
        if name == "pyarrow":
            raise PackageNotFoundError(name)
        return distribution(name)

    monkeypatch.setattr(contents, "distribution", without)
    with pytest.raises(ArchiveError, match=r"no package pyarrow.*pip install 'zonequake\[anal"):
        contents.packages()


def test_an_archive_that_can_not_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "packages", dict)
    monkeypatch.setattr(archive, "files", lambda _: {"bin/python3": tmp_path / "missing"})
    with pytest.raises(FileNotFoundError):
        archive.write_archive(tmp_path / "out" / "e.tar.gz")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_written_archive_fits_and_holds_files_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = tmp_path / "link"
    link.symlink_to(sys.executable)
    monkeypatch.setattr(archive, "packages", dict)
    monkeypatch.setattr(archive, "files", lambda _: {"bin/python3": link})
    archive.write_archive(tmp_path / "e.tar.gz")
    check_fits(tmp_path / "e.tar.gz")
    with tarfile.open(tmp_path / "e.tar.gz") as opened:
        entries = opened.getmembers()
    assert [entry.name for entry in entries] == [MANIFEST, "bin/python", "bin/python3"]
    assert all(entry.isfile() and entry.uid == 0 for entry in entries)
    assert [entry.mode & 0o100 for entry in entries] == [0, 0o100, 0o100]

"""Images of etcd's releases: what is built, when, and what is refused."""

from __future__ import annotations

import tarfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from zonequake_cluster.errors import BuildFailed
from zonequake_cluster.images import etcd
from zonequake_cluster.images.cli import app
from zonequake_kube.errors import UsageError


@pytest.fixture
def archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "archives"
    monkeypatch.setattr(etcd, "find_own_files", lambda: SimpleNamespace(archives=folder))
    return folder


def pretend_go(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = folder / "go"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(etcd, "find_go", lambda say: str(program))


def test_a_release_is_built_once_from_its_own_module(
    tmp_path: Path, archives: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = tmp_path / "count"
    grep = "grep -q 'require go.etcd.io/etcd/server/v3 v3.5.2' go.mod || exit 1"
    pretend_go(tmp_path, monkeypatch, f"{grep}\necho x >> {count}\necho program > etcd")
    said: list[str] = []
    built = etcd.build_etcd_release("3.5.2", progress=said.append)
    assert built == etcd.build_etcd_release("3.5.2", progress=said.append)
    assert built.ref == "docker.io/zonequake/etcd:v3.5.2"
    assert count.read_text() == "x\n"
    assert said[-1].endswith("is up to date")
    with tarfile.open(built.archive) as archive:
        index = archive.extractfile("index.json")
        assert index is not None
        assert b"docker.io/zonequake/etcd:v3.5.2" in index.read()
    assert [file.name for file in archives.iterdir()] == ["etcd-v3.5.2.tar"]


def test_a_release_with_failpoints_is_built_from_a_changed_copy(
    tmp_path: Path, archives: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Go's module cache stays as it is: read-only, and of all builds."""
    cache = tmp_path / "cache"
    (cache / "wal").mkdir(parents=True)
    (cache / "wal" / "wal.go").write_text("// gofail: var walBeforeSync struct{}\n")
    (cache / "main.go").write_text("package main\n")
    for path in (cache / "wal" / "wal.go", cache / "wal", cache):
        path.chmod(0o444 if path.is_file() else 0o555)
    script = f"""
        case $1 in
        mod) [ $4 = go.etcd.io/etcd/server/v3@v3.5.2 ] && echo '{{"Dir": "{cache}"}}' ;;
        run) [ "$2 $3 $4" = "go.etcd.io/gofail@v0.2.0 enable $PWD/server/wal" ] && [ $# = 4 ] &&
            echo changed >> server/wal/wal.go ;;
        build) grep -q 'replace go.etcd.io/etcd/server/v3 => ./server' go.mod &&
            grep -q 'require go.etcd.io/etcd/server/v3 v3.5.2$' go.mod &&
            grep -q 'require go.etcd.io/gofail v0.2.0' go.mod && cat server/wal/wal.go > etcd ;;
        esac"""
    pretend_go(tmp_path, monkeypatch, script)
    built = etcd.build_etcd_release("3.5.2+failpoints", progress=print)
    assert built.ref == "docker.io/zonequake/etcd:v3.5.2-failpoints"
    assert built.archive.exists()
    assert "changed" not in (cache / "wal" / "wal.go").read_text()


def test_a_build_that_fails_says_what_go_said_and_leaves_nothing(
    tmp_path: Path, archives: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_go(tmp_path, monkeypatch, "echo unknown revision v3.5.999 >&2; exit 1")
    with pytest.raises(BuildFailed, match=r"unknown revision v3\.5\.999"):
        etcd.build_etcd_release("3.5.999", progress=print)
    assert not archives.exists()


@pytest.mark.parametrize(
    "release", ["3.4.20", "3.5", "v3.5.2", "3.5.2 ", "latest", "3.5.2+patch", "3.5.2-failpoints"]
)
def test_what_is_no_release_with_a_module_is_refused(release: str) -> None:
    with pytest.raises(UsageError, match=r"from 3\.5\.0 on"):
        etcd.build_etcd_release(release, progress=print)
    assert CliRunner().invoke(app, ["etcd", release]).exit_code == 254

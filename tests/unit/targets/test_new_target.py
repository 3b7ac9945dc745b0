"""`zonequake target new` writes a package that is complete, and whose own test passes."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from typer.testing import CliRunner

from zonequake_chaos.commands.target import app
from zonequake_chaos.kit import entries
from zonequake_chaos.kit.entries import check_name
from zonequake_chaos.kit.skeleton import skeleton
from zonequake_kube.errors import UsageError

MOST_LINES = 300
"""Of a target beside the system that it tests."""


def made(folder: Path, name: str) -> Path:
    done = CliRunner().invoke(app, ["new", name, "--out", str(folder)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return folder


def test_a_new_target_is_found_and_its_test_passes(tmp_path: Path) -> None:
    name = "my-store2"
    folder = made(tmp_path / "new", name)
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert project["dependencies"] == ["zonequake[chaos,testing]"]
    (package,) = [each.name for each in folder.glob("zonequake_target_*")]
    assert project["entry-points"]["zonequake.targets"] == {name: f"{package}.package:TARGET"}
    paths = [str(folder), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    ask = f"from {package}.package import TARGET; print(TARGET.name, len(TARGET.client.files()))"
    done = subprocess.run(
        [sys.executable, "-c", ask], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == [name, "2"], done.stderr  # its package, and the client
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder / "tests")],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert tested.returncode == 0, tested.stdout
    assert "5 passed" in tested.stdout


def test_nothing_of_the_model_is_left_in_it_and_it_is_short(tmp_path: Path) -> None:
    folder = made(tmp_path / "new", "notebook")
    texts = {path: path.read_text() for path in folder.rglob("*") if path.is_file()}
    assert [path for path, text in texts.items() if "toy" in text.lower()] == []
    own = {path: text for path, text in texts.items() if path.name != "server.py"}
    lines = sum(text.count("\n") for path, text in own.items() if "tests" not in path.parts)
    assert lines <= MOST_LINES


@pytest.mark.parametrize("name", ["", "Big", "-x", "a--b", "a_b", "9a", "a" * 31])
def test_a_name_that_pods_can_not_have_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="small letters and digits"):
        check_name(name)


def test_an_installed_name_and_a_full_folder_are_refused(tmp_path: Path) -> None:
    def refused(*words: str) -> str:
        done = CliRunner().invoke(app, ["new", *words])
        assert isinstance(done.exception, UsageError)
        return str(done.exception)

    assert "is installed: choose another name" in refused("etcd", "--out", str(tmp_path / "new"))
    (tmp_path / "file").write_text("")
    assert "expected a new or empty folder" in refused("notebook", "--out", str(tmp_path))
    assert not (tmp_path / "new").exists()


def test_words_that_only_begin_as_the_models_name_stay() -> None:
    sources = {"a.py": "toy = Toy(toybox, 'toy', non-toy)"}
    assert skeleton("b-c", model="toy", sources=sources, test="")["zonequake_target_b_c/a.py"] == (
        "b-c = BC(toybox, 'b-c', non-toy)"
    )


def test_all_installed_targets_are_listed_and_those_that_can_not_be_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    etcd = EntryPoint("etcd", "zonequake_target_etcd.package:TARGET", entries.GROUP)
    broken = EntryPoint("broken", "no_such_package:TARGET", entries.GROUP)
    twice = [EntryPoint("twice", f"{place}:TARGET", entries.GROUP) for place in ("a", "b")]
    known = [etcd, broken, *twice]
    monkeypatch.setattr(entries, "entry_points", lambda *, group: known)
    done = CliRunner().invoke(app, ["list"])
    assert done.exit_code == 1, done.output
    lines = " ".join(done.output.split())
    assert "etcd etcd: one group" in lines
    assert "fault scale: scales a pool, and its members are fixed" in lines
    assert "repeats: not claimed transactions: claimed" in lines
    applied = lines.partition("faults: ")[2].partition(" triggers: ")[0].split(", ")
    assert "pod_kill" in applied
    assert "scale" not in applied
    assert "broken broken: target 'broken' can't be loaded from no_such_package:TARGET" in lines
    assert "twice broken: two packages have a target 'twice': a:TARGET and b:TARGET" in lines
    known[:] = [etcd]
    assert CliRunner().invoke(app, ["list"]).exit_code == 0


@pytest.mark.parametrize("place", ["/proc/x", "file/x"])
def test_a_folder_that_can_not_be_written_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    done = CliRunner().invoke(app, ["new", "notebook", "--out", place])
    assert isinstance(done.exception, UsageError), done.exception
    assert "can't be written: " in str(done.exception)
    assert "give another --out" in str(done.exception)


def test_its_next_steps_go_from_the_folder_to_a_verdict(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    said = CliRunner().invoke(app, ["new", "notebook", "--out", str(folder)]).output
    lines = [line.strip() for line in said.splitlines()]
    wanted = [
        f"pip install -e {folder}",
        f"pytest {folder}",
        "zonequake cluster up && zonequake install",
        "zonequake install --context CONTEXT --set faultAgent.enabled=true",
        "zonequake target check notebook",
    ]
    assert [line for line in lines if line in wanted] == wanted
    assert any(line.startswith("zonequake run kill-all --target notebook ") for line in lines)

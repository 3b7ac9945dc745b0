"""The command: what it says, and how it ends."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.unit.importing.test_jepsen import TUPLES
from zonequake_chaos.commands.cli import main


def ended(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["zonequake", "import", *words])
    with pytest.raises(SystemExit) as end:
        main()
    assert isinstance(end.value.code, int)
    return end.value.code


def test_an_import_says_what_it_wrote_and_what_to_do_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "history.edn"
    file.write_text(TUPLES)
    monkeypatch.chdir(tmp_path)
    assert ended(monkeypatch, "--from", "jepsen", str(file)) == 0
    said = capsys.readouterr().err.splitlines()
    assert said == ["runs/history: 5 operations on 1 keys", "next: zonequake analyze runs/history"]
    assert (tmp_path / "runs" / "history" / "run.yaml").exists()


def test_what_is_refused_ends_as_wrong_usage_with_file_and_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "history.edn"
    file.write_text(TUPLES.replace(":cas", ":swap"))
    words = ("--from", "jepsen", str(file), "--out", str(tmp_path / "run"))
    assert ended(monkeypatch, *words) == 254
    assert f"{file}, line 5, :f: found :swap" in capsys.readouterr().err
    file.write_text("[]\n")
    assert ended(monkeypatch, *words) == 254
    assert f"{file}, line 1: found no operation to judge; was the file" in capsys.readouterr().err
    file.write_text(TUPLES)
    assert ended(monkeypatch, *words, "--initial", "[1]") == 254
    assert ended(monkeypatch, *words, str(file)) == 254
    capsys.readouterr()
    assert ended(monkeypatch, "--from", "porcupine", str(file), str(file)) == 254
    assert f"found {file} 2 times; name each file once" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "run").exists()

"""What commands say of wrong words and files: what was found, what was expected."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from zonequake_chaos.commands import cli
from zonequake_ctl.zq.cli import main as zq_main
from zonequake_load.client.connection import split_address

Said = Callable[..., str]
AT = ("--zone", "z", "--address", "127.0.0.1:1")


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    """The error of a command that refuses its words, on one line."""

    def refused(*words: str, main: Callable[[], None] = cli.main) -> str:
        monkeypatch.setattr(sys, "argv", ["zonequake", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 254
        return " ".join(capsys.readouterr().err.split())

    return refused


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("run", "leader-kill", "--seed", "abc"), "found 'abc'"),
        (("kv", "append", "k", "x", *AT), "found 'x'"),
        (("kv", "get", "k", *AT, "--timeout", "-1"), "--timeout: found -1, expected a number of"),
        (("kv", "get", "k", *AT, "--timeout", "nan"), "--timeout: found nan, expected a number of"),
        (
            ("kv", "get", "k", "--zone", "z", "--address", "127.0.0.1:99999"),
            "found address '127.0.0.1:99999', expected host:port with a port from 1 to 65535",
        ),
        (
            ("run", "leader-kill", "--out", "s3:/bucket/x"),
            "--out: found 's3:/bucket/x', expected a URI such as s3://bucket/x",
        ),
        (("pack", "s3://b/p"), "RUNS: found 's3://b/p', expected a path of this machine"),
        (
            ("pack", ".", "--out", "s3://b/a.tar.gz"),
            "--out: found 's3://b/a.tar.gz', expected a path of this machine",
        ),
        (
            ("run", "leader-kill", "--junit", "s3://b/j.xml"),
            "'--junit': found 's3://b/j.xml', expected a path of this machine",
        ),
        (
            ("run", "leader-kill", "--summary", "hdfs://h/s.md"),
            "'--summary': found 'hdfs://h/s.md', expected a path of this machine",
        ),
        (
            ("compare", "--markdown", "s3://b/x.md"),
            "'--markdown': found 's3://b/x.md', expected a path of this machine",
        ),
        (
            ("compare", "--json", "gs:/b/x.json"),
            "'--json': found 'gs:/b/x.json', expected a URI such as gs://b/x.json",
        ),
        (
            ("import", "--from", "knossos", __file__),
            "Invalid value for '--from': 'knossos' is not one of 'jepsen', 'porcupine'.",
        ),
        (
            ("import", "--from", "jepsen", "--out", "s3:/x", __file__),
            "'--out': found 's3:/x', expected a URI such as s3://x, or a path",
        ),
        (
            ("simulate", "--trace", "--seed", "1", "--out", "x.png"),
            "--out: found x.png, expected a name that ends with .svg",
        ),
        (
            ("simulate", "--shrink", "--seed", "1", "--out", "x.svg"),
            "--out: found x.svg, expected a name that ends with .json",
        ),
        (
            ("sql", "DESCRIBE ZONE a", "--dry-run", "--offline"),
            "there is no zone a; no cluster was asked, and no statement before this one creates",
        ),
    ],
)
def test_wrong_words_are_refused_with_what_was_found(
    words: tuple[str, ...],
    expected: str,
    said: Said,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert expected in said(*words)
    assert list(tmp_path.iterdir()) == []


COMMANDS = {
    "what-if": (("what-if",), cli.main),
    "sql": (("sql", "--dry-run", "--offline", "--file"), cli.main),
    "plan": (("plan", "-f"), zq_main),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_file_that_cannot_be_read_is_named_without_pythons_words(
    name: str, said: Said, tmp_path: Path
) -> None:
    words, main = COMMANDS[name]
    missing, binary = tmp_path / f"{'long-' * 30}missing", tmp_path / "binary"
    binary.write_bytes(b"abc\xff")
    told = said(*words, str(missing), main=main)
    assert f"{missing} can't be read: no such file or directory, expected a" in told
    assert "Errno" not in told
    assert "binary can't be read: found byte 0xff at 3, which is no UTF-8" in said(
        *words, str(binary), main=main
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", "is empty, expected a what-if file"), ("zone: {", "the file isn't YAML"), ("[1]", "[1]")],
)
def test_a_what_if_file_that_is_refused_is_named(
    text: str, expected: str, said: Said, tmp_path: Path
) -> None:
    file = tmp_path / "loss.yaml"
    file.write_text(text)
    told = said("what-if", str(file))
    assert "loss.yaml" in told
    assert expected in told


@pytest.mark.parametrize("address", ["h:0", "h:65536", "h:x", ":1", "h", "h:²"])
def test_an_address_whose_port_there_cannot_be_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="with a port from 1 to 65535"):
        split_address(address)

"""Files of a run with a byte order mark, in another encoding, or with NUL bytes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from zonequake_analysis.errors import ImportRefused, RunFolderError
from zonequake_analysis.importing.command import Source, import_history
from zonequake_analysis.importing.operations import Choices
from zonequake_analysis.inputs.lines import byte_ranges, kept_lines
from zonequake_analysis.inputs.run_folder import read_description, read_dumps, read_events
from zonequake_analysis.inputs.shapes import CORRUPT
from zonequake_analysis.judgement.verdict_json import read_document
from zonequake_analysis.text.strange_bytes import MARK, strange_bytes

NUL = (
    "found 3 NUL bytes, as a machine that lost power may leave, expected text: copy the file again"
)
UTF_16 = "found text in UTF-16, expected UTF-8: save the file as UTF-8"
LATIN = "found the byte 0xfc, which is no UTF-8"
EVENT = b'{"schema":1,"kind":"run.phase","time":1,"data":{"phase":"before"}}\n'
HEADER = b'{"group":"z1.default.0","node":"n","applied":1,"digest":"d","keys":0}\n'
VERDICT = b'{"schema":1,"verdict":"passed","exit_code":0,"checks":[]}'
JEPSEN = b"{:type :invoke :process 0 :f :write :value 1 :time 1 :index 0}\n"
JEPSEN += JEPSEN.replace(b"invoke", b"ok").replace(b":time 1", b":time 2")
PORCUPINE = (
    b'{"ClientId":0,"Input":{"op":"put","key":"k","value":"1"},"Call":1,"Output":{},"Return":2}\n'
)


def invoke(number: int) -> bytes:
    line = {"schema": 1, "type": "invoke", "f": "write", "process": 3, "op": f"3-{number}"}
    line |= {"zone": "z1", "partition": 0, "key": "k", "value": number, "inv": 1, "time": 1}
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"


def rows(folder: Path, content: bytes, size: int = 1 << 20) -> list[dict[str, object]]:
    file = folder / "load.jsonl"
    file.write_bytes(content)
    return [
        row
        for part in byte_ranges([file], size)
        for batch in kept_lines(part)
        for row in batch.to_pylist()
    ]


@pytest.mark.parametrize(
    ("content", "line", "told"),
    [
        (b"name: x\nseed: \0\0\0\n", 2, NUL),
        ("name: x\n".encode("utf-16"), 1, UTF_16),
        (b"name: x\n\nscenario: f\xfcr\n", 3, LATIN),
        (b"name: x\n" + MARK + b"seed: 3\n", 2, "found a byte order mark"),
        (MARK * 2 + b"name: x\n", 1, "found a byte order mark"),
        (b"name: x\nseed: a\x07b\n", 2, "found the character U\\+0007, which YAML doesn't allow"),
    ],
)
def test_strange_bytes_of_a_run_yaml_are_told_with_their_line(
    tmp_path: Path, content: bytes, line: int, told: str
) -> None:
    (tmp_path / "run.yaml").write_bytes(content)
    with pytest.raises(RunFolderError, match=f"run.yaml:{line}: {told}"):
        read_description(tmp_path)


def test_a_byte_order_mark_before_a_file_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_bytes(MARK + b"seed: 3\n")
    assert read_description(tmp_path).seed == "3"
    (tmp_path / "events.jsonl").write_bytes(MARK + EVENT)
    events, bad = read_events(tmp_path)
    assert ([event.kind for event in events], bad) == (["run.phase"], [])
    (tmp_path / "dumps").mkdir()
    (tmp_path / "dumps" / "a.jsonl").write_bytes(MARK + HEADER)
    assert [dump.header.node for dump in read_dumps(tmp_path)] == ["n"]
    (tmp_path / "verdict.json").write_bytes(MARK + VERDICT)
    assert read_document(tmp_path).exit_code == 0


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 200, 1 << 20])
def test_a_byte_order_mark_before_a_history_says_nothing_wherever_ranges_end(
    tmp_path: Path, size: int
) -> None:
    lines = invoke(1) + b"torn {\n" + invoke(1).replace(b"invoke", b"ok")
    without = rows(tmp_path, lines, size)
    with_mark = rows(tmp_path, MARK + lines, size)
    assert [row[CORRUPT] is None for row in with_mark] == [row[CORRUPT] is None for row in without]
    assert [row["op"] for row in with_mark] == [row["op"] for row in without]


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (b"\0\0\0\n", NUL),
        (invoke(2).replace(b'"k"', b'"k\0\0\0"'), NUL),
        (invoke(2).replace(b'"k"', b'"k\xfc"'), LATIN),
    ],
)
def test_strange_bytes_of_a_history_are_told_and_spoil_no_other_line(
    tmp_path: Path, bad: bytes, told: str
) -> None:
    found = rows(tmp_path, invoke(1) + bad + invoke(3))
    assert sorted(str(row["op"]) for row in found if row[CORRUPT] is None) == ["3-1", "3-3"]
    (why,) = [str(row[CORRUPT]) for row in found if row[CORRUPT] is not None]
    assert why.startswith(told)


def test_strange_bytes_of_events_dumps_and_verdicts_are_told_with_their_line(
    tmp_path: Path,
) -> None:
    (tmp_path / "events.jsonl").write_bytes(EVENT + b"\0\0\0\n" + EVENT)
    events, (bad,) = read_events(tmp_path)
    assert len(events) == 2
    assert bad.startswith(f"events.jsonl:2: {NUL}")
    (tmp_path / "dumps").mkdir()
    (tmp_path / "dumps" / "a.jsonl").write_bytes(HEADER.decode().encode("utf-16"))
    with pytest.raises(RunFolderError, match=f"a.jsonl:1: {UTF_16}"):
        read_dumps(tmp_path)
    (tmp_path / "verdict.json").write_bytes(b"{\n\0\0\0" + VERDICT[1:])
    with pytest.raises(RunFolderError, match=f"verdict.json:2: {NUL}"):
        read_document(tmp_path)


@pytest.mark.parametrize(
    ("source", "history"), [(Source.JEPSEN, JEPSEN), (Source.PORCUPINE, PORCUPINE)]
)
def test_an_imported_history_may_begin_with_the_mark_and_has_no_nul(
    tmp_path: Path, source: Source, history: bytes
) -> None:
    file = tmp_path / "history"
    for content, number in ((history, 0), (MARK + history, 1)):
        file.write_bytes(content)
        written, _ = import_history(source, [file], tmp_path / f"run-{number}", Choices())
        assert written.operations == 1
    for content, number, told in (
        (history + b"\0\0\0\n", history.count(b"\n") + 1, NUL),
        (history.decode().encode("utf-16"), 1, UTF_16),
        (b"\n" + history[:-2] + b"\xfc\n", history.count(b"\n") + 1, LATIN),
    ):
        file.write_bytes(content)
        with pytest.raises(ImportRefused, match=f"history, line {number}: {told}"):
            import_history(source, [file], tmp_path / "refused", Choices())


def test_text_in_utf_8_is_not_strange() -> None:
    assert strange_bytes("Größe ∞\n".encode()) is None
    assert strange_bytes("x".encode("utf-32")) == (
        1,
        "found text in UTF-32, expected UTF-8: save the file as UTF-8",
    )

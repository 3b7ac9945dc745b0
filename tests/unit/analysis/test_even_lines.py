"""Lines of one form: read as CSV, they say what a JSON reader says of them."""

import random
from pathlib import Path

import msgspec
import pytest

from zonequake_analysis.inputs import lines
from zonequake_analysis.inputs.lines import byte_ranges, kept_lines

_FIRST = {
    "schema": 1,
    "type": "ok",
    "f": "write",
    "process": 3,
    "op": "3-1",
    "role": "load",
    "zone": "z1",
    "partition": 12,
    "key": "r12-2",
    "value": 7,
    "expected": None,
    "applied": None,
    "found": None,
    "sched": 5,
    "inv": 6,
    "time": 9,
    "wall": 1_700_000_000_000_000_000,
    "clock": "c7e8",
    "node": "zq-default-0",
    "lineage": 0,
    "term": 1,
    "index": 4,
    "read": None,
    "attempts": 1,
    "error": None,
}
_GOOD = msgspec.json.encode(_FIRST).decode()


def rows(folder: Path, *texts: str) -> list[dict[str, object]]:
    file = folder / "load-0.jsonl"
    file.write_text("".join(text + "\n" for text in texts))
    (part,) = byte_ranges([file])
    found = [row for batch in kept_lines(part) for row in batch.to_pylist()]
    return sorted(found, key=lambda row: int(str(row["at"])))


def of_the_others(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *texts: str
) -> list[dict[str, object]]:
    """What the JSON readers say of the lines."""
    with monkeypatch.context() as patched:
        patched.setattr(lines, "even_columns", lambda *_: None)
        return rows(folder, *texts)


def test_lines_of_one_form_are_read_without_the_json_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(1)
    texts = [_GOOD]
    for number in range(500):
        row = _FIRST | {"op": f"3-{number}", "value": chance.choice([None, -(2**63), 2**63 - 1])}
        row |= {"node": chance.choice([None, "null", "", "ü€"]), "error": "timed out"}
        row |= {"applied": chance.choice([None, True, False]), "inv": number}
        texts.append(msgspec.json.encode(row).decode())
    expected = of_the_others(tmp_path, monkeypatch, *texts)
    monkeypatch.setattr(lines, "_from_json", lambda *_, **__: pytest.fail("read as JSON"))
    assert rows(tmp_path, *texts) == expected
    assert [row["node"] for row in expected if row["node"] == "null"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"key":"r12-2"', '"key":"r12,2"'),
        ('"key":"r12-2"', '"key":"a","key":"b"'),
        ('"key":"r12-2"', '"key":"{a:b}"'),
        ('"key":"r12-2"', '"key":"a\\"b"'),
        ('"key":"r12-2"', '"key":"a\\tb"'),
        ('"key":"r12-2"', '"key":"a"b"'),
        ('"key":"r12-2"', '"key":"a"b'),
        ('"key":"r12-2"', '"key":a"b"'),
        ('"key":"r12-2"', '"key":"'),
        ('"key":"r12-2"', '"key":""'),
        ('"key":"r12-2"', '"key":7'),
        ('"key":"r12-2"', '"key":null'),
        ('"key":"r12-2"', '"key":"null"'),
        ('"key":"r12-2"', '"key": "r"'),
        ('"key":"r12-2"', '"key":"a\tb"'),
        ('"key":"r12-2"', '"key":'),
        ('"key":"r12-2"', '"key"'),
        ('"key":"r12-2",', ""),
        ('"key":"r12-2",', '"more":"r",'),
        ('"inv":6', '"inv":"6"'),
        ('"inv":6', '"inv":6.0'),
        ('"inv":6', '"inv":6e1'),
        ('"inv":6', '"inv":+6'),
        ('"inv":6', '"inv":9223372036854775808'),
        ('"inv":6', '"inv":'),
        ('"inv":6', '"inv":true'),
        ('"inv":6,"time":9', '"time":9,"inv":6'),
        ('"applied":null', '"applied":1'),
        ('"applied":null', '"applied":True'),
        ('"value":7', '"value":[7]'),
        ('"value":7', '"value":[7,8]'),
        ('"value":7', '"value":{"a":1}'),
        ('{"schema"', '"schema"'),
        ('{"schema"', '{{"schema"'),
        ('{"schema"', 'x{"schema"'),
        ("}", "}}"),
        ("}", ""),
        ("}", "}x"),
        ('"error":null', '"error":"no, it is: {gone}"'),
        ('"error":null', '"error":x'),
        ('"attempts":1', '"attempts":"one"'),
        ("{", "\r{"),
    ],
)
def test_a_line_of_another_form_is_read_as_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str
) -> None:
    odd = _GOOD.replace(old, new)
    assert odd != _GOOD
    for texts in ([_GOOD] * 8 + [odd] + [_GOOD] * 8, [odd] + [_GOOD] * 8, [odd] * 8):
        assert rows(tmp_path, *texts) == of_the_others(tmp_path, monkeypatch, *texts)


@pytest.mark.parametrize("stride", [4, pytest.param(1, marks=pytest.mark.long)])
def test_any_byte_that_is_changed_is_told_as_json_tells_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stride: int
) -> None:
    chance = random.Random(2)
    for at in range(0, len(_GOOD), stride):
        mark = chance.choice('",:{}[]\\x -')
        odd = _GOOD[:at] + mark + _GOOD[at + 1 :]
        for texts in ([_GOOD] * 4 + [odd] + [_GOOD] * 4, [odd] * 2):
            assert rows(tmp_path, *texts) == of_the_others(tmp_path, monkeypatch, *texts), odd


def test_quotes_are_counted_for_each_text_and_not_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [_GOOD.replace('"r12-2"', text) for text in ('"r12-2"', '"', '"""')]
    assert rows(tmp_path, *texts) == of_the_others(tmp_path, monkeypatch, *texts)

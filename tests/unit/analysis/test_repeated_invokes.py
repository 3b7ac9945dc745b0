"""An invoke of the load's own form is dropped unparsed only if its completion repeats it."""

import random
from pathlib import Path

import msgspec
import pytest

from tests.unit.analysis.judged_lines import judged, suspicious, told, written
from zonequake_analysis.inputs.defects.of_history import HistoryDefectKind
from zonequake_analysis.inputs.lines import byte_ranges, kept_lines
from zonequake_load.operation import Function, Type
from zonequake_load.pod.history import HistoryEvent, OperationRole

Lines = list[dict[str, object]]


def operation(number: int, f: str = "write", type_: str = "ok", **answer: object) -> Lines:
    """The fields of both lines of an operation, as the load writes them."""
    value = None if f == "read" else number
    invoke = HistoryEvent(
        type=Type.INVOKE,
        f=Function(f),
        process=number,
        op=f"{number}-1",
        role=OperationRole.LOAD,
        zone="z1",
        partition=3,
        key=f"k{number % 5}",
        value=value,
        expected=4 if f == "cas" else None,
        sched=number * 100,
        inv=number * 100 + 1,
        time=number * 100 + 1,
        wall=1_700_000_000_000_000_000 + number,
        clock="c",
        read="linearizable" if f == "read" else None,
    )
    fields: dict[str, object] = msgspec.to_builtins(invoke)
    place = {"node": "zq-0", "lineage": 0, "term": 1, "index": number * 10, "attempts": 1}
    if type_ != "ok":
        place = {"error": "timed out"}
    return [fields, {**fields, "type": type_, "time": number * 100 + 50, **place, **answer}]


def texts(*lines: dict[str, object]) -> list[str]:
    return [msgspec.json.encode(line).decode() for line in lines]


def kept(file: Path, size: int = 1 << 24) -> Lines:
    return [
        row
        for part in byte_ranges([file], size)
        for batch in kept_lines(part)
        for row in batch.to_pylist()
    ]


OTHERS = [
    ("process", 77),
    ("partition", 4),
    ("key", "k9"),
    ("value", 424242),
    ("expected", 5),
    ("inv", 302),
    ("f", "append"),
]
"""Fields that a completion repeats, and another value for each, most of the same length."""


@pytest.mark.parametrize(("field", "other"), OTHERS)
def test_a_completion_of_the_loads_form_that_asks_for_something_else_is_the_historys_fault(
    tmp_path: Path, field: str, other: object
) -> None:
    invoke, completion = operation(3, "cas", applied=True)
    completion[field] = other
    before = texts(*operation(1), *operation(2, "read"))
    (file,) = written(tmp_path, [*before, *texts(invoke, completion)])
    sentences = told([file], tmp_path / "ops")
    assert "history/load-0.jsonl:5, field `op`: found 3-1" in sentences[0]
    assert "which repeats what the invoke asked for" in sentences[0]
    found, faults = judged([file], tmp_path / "ops")
    assert faults.of(HistoryDefectKind.REPEATED) == 2
    assert not suspicious(found)


@pytest.mark.parametrize(("field", "other"), OTHERS)
def test_one_line_told_in_another_spacing_says_the_same(
    tmp_path: Path, field: str, other: object
) -> None:
    pair = operation(3, "cas", applied=True)
    pair[1][field] = other
    packed, spaced = texts(*pair), [msgspec.json.format(text, indent=0) for text in texts(*pair)]
    spaced = [text.replace(",", ", ") for text in spaced]
    assert packed != spaced
    sentences = []
    for name, lines in (("packed", packed), ("spaced", spaced)):
        (tmp_path / name).mkdir()
        sentences.append(told(written(tmp_path / name, lines), tmp_path / name / "ops"))
    assert sentences[0] == sentences[1]


def test_all_that_repeat_their_invokes_are_paired(tmp_path: Path) -> None:
    chance = random.Random(3)
    lines: Lines = []
    for number in range(1, 1000):
        f = chance.choice(["read", "write", "cas", "append"])
        answer: dict[str, object] = {}
        if f == "read":
            answer["value"] = chance.choice([None, number, -1, [], [1, number]])
        elif f == "cas":
            applied = chance.choice([True, False])
            answer |= {"applied": applied, "found": None if applied else number}
        type_ = chance.choice(["ok", "ok", "fail", "info"])
        lines += operation(number, f, type_, **(answer if type_ == "ok" else {}))
    (file,) = written(tmp_path, texts(*lines))
    found = kept(file)
    assert len(found) == len(lines) // 2
    assert all(row["paired"] for row in found)
    for size in (5000, 40_000):
        assert sum(row["type"] != "invoke" for row in kept(file, size)) == len(lines) // 2


@pytest.mark.parametrize("stride", [4, pytest.param(1, marks=pytest.mark.long)])
def test_any_byte_of_an_invoke_that_is_changed_is_either_kept_or_adds_nothing(
    tmp_path: Path, stride: int
) -> None:
    """The changed line, if it is dropped, says of the operation what its completion says."""
    chance = random.Random(4)
    for f, answer in (("read", {"value": 7}), ("cas", {"applied": True})):
        invoke, completion = texts(*operation(12, f, **answer))
        compared = ["f", "process", "op", "partition", "key", "inv"]
        compared += [] if f == "read" else ["value", "expected"]
        expected = msgspec.json.decode(completion)
        for at in range(len('{"schema":1,"type":"invoke",'), len(invoke) - 1, stride):
            odd = invoke[:at] + chance.choice('7a",') + invoke[at + 1 :]
            (file,) = written(tmp_path, [odd, completion])
            if len(kept(file)) == 2:
                continue
            try:
                said = msgspec.json.decode(odd)
            except msgspec.DecodeError:
                continue  # the completion alone counts
            asked = [said.get(name) for name in compared]
            assert asked == [expected[name] for name in compared], odd


def test_an_invoke_is_compared_with_a_completion_in_a_later_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zonequake_analysis.inputs.long_lines._PIECE_BYTES", 600)
    good, bad = operation(1), operation(2)
    bad[1]["key"] = "k9"
    between = [line for number in range(10, 20) for line in operation(number)]
    (file,) = written(tmp_path, texts(good[0], bad[0], *between, good[1], bad[1]))
    found = {(row["op"], row["type"]): row["paired"] for row in kept(file)}
    assert ("1-1", "invoke") not in found
    assert found["1-1", "ok"] is True
    assert found["2-1", "invoke"] is False
    assert found["2-1", "ok"] is False


def test_a_completion_that_ends_too_early_repeats_nothing(tmp_path: Path) -> None:
    invoke, _ = texts(*operation(1))
    (file,) = written(tmp_path, [invoke, '{"schema":1,"type":"ok","op":"1-1","inv":101}'])
    assert [row["paired"] for row in kept(file)] == [False, False]

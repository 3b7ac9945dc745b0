"""Defects of a history are named with file, line and field, and are never the store's."""

import json
import re
from pathlib import Path

import pytest

from tests.unit.analysis.judged_lines import judged, line, operation, suspicious, told, written
from zonequake_analysis.inputs.defects.of_history import MOST_REFUSED, HistoryDefectKind, in_words
from zonequake_analysis.spark_pass.ingest import clocks_of

GOOD = [*operation(1), *operation(2, f="read", value=1)]


def test_a_history_without_faults_has_none(tmp_path: Path) -> None:
    found, faults = judged(written(tmp_path, GOOD), tmp_path / "ops")
    assert (faults.counts, faults.refused, suspicious(found)) == ({}, [], False)


def test_a_key_used_as_register_and_as_list_is_refused_with_a_line_of_each(tmp_path: Path) -> None:
    files = written(
        tmp_path,
        [*GOOD, *operation(3, key="mixed")],
        ["", *operation(4, key="mixed", f="append"), *operation(5, key="mixed", f="read", value=3)],
    )
    (sentence,) = told(files, tmp_path / "ops")
    assert "key `mixed` of z1/0 is a register at history/load-0.jsonl:6" in sentence
    assert "`f` write, op `3-1`" in sentence
    assert "and a list at history/load-1.jsonl:3 (`f` append, op `4-1`)" in sentence
    found, faults = judged(files, tmp_path / "ops")
    assert (faults.of(HistoryDefectKind.TWO_USES), suspicious(found)) == (1, False)


def test_a_key_of_cas_and_appends_is_of_two_uses(tmp_path: Path) -> None:
    cas = operation(3, key="mixed", f="cas", expected=1, applied=True)
    lost = [*operation(4, key="mixed", f="append"), *operation(5, key="mixed", f="read", value=[])]
    (sentence,) = told(written(tmp_path, [*GOOD, *cas, *lost]), tmp_path / "ops")
    assert "key `mixed` of z1/0 is a register at history/load-0.jsonl:6" in sentence
    assert "and a list at history/load-0.jsonl:8" in sentence


@pytest.mark.parametrize("outcome", ["ok", "info"])
@pytest.mark.parametrize("shown", [[7, 7], [7]])
def test_a_value_that_two_operations_append_to_a_key_is_the_historys_fault(
    tmp_path: Path, outcome: str, shown: list[int]
) -> None:
    """A list that shows it twice would look like an append that was applied twice."""
    one = operation(3, key="list", f="append", value=7)
    other = operation(
        4, key="list", f="append", value=7, type=outcome, index=40 if outcome == "ok" else None
    )
    files = written(
        tmp_path, [*GOOD, *one], ["", *other, *operation(5, key="list", f="read", value=shown)]
    )
    (sentence,) = told(files, tmp_path / "ops")
    assert sentence.startswith("1 keys are lists to which a value was appended by two operations: ")
    assert "key `list` of z1/0 got 7 at history/load-0.jsonl:6 (op `3-1`)" in sentence
    assert "and again at history/load-1.jsonl:3 (op `4-1`)" in sentence
    found, faults = judged(files, tmp_path / "ops")
    assert (faults.of(HistoryDefectKind.APPENDED_AGAIN), suspicious(found)) == (1, False)


@pytest.mark.parametrize(
    "other",
    [
        {"type": "fail", "index": None},
        {"key": "other"},
        {"key": "other", "partition": 1},
        {"key": "register", "f": "write"},
    ],
)
def test_a_value_that_went_to_a_key_once_is_no_fault(
    tmp_path: Path, other: dict[str, object]
) -> None:
    one = operation(3, key="list", f="append", value=7)
    again = operation(4, **{"key": "list", "f": "append", "value": 7, **other})
    assert told(written(tmp_path, [*GOOD, *one, *again]), tmp_path / "ops") == []


def test_the_first_lines_with_a_fault_are_told_though_they_are_not_read_in_their_order(
    tmp_path: Path,
) -> None:
    """Completions are read before the invokes that stay."""
    files = written(tmp_path, [*operation(1), *operation(2), *operation(5, op="1-1")])
    (sentence,) = told(files, tmp_path / "ops")
    assert re.findall(r"jsonl:(\d+), field `op`", sentence) == ["1", "2", "5"]
    assert sentence.endswith("and 1 more")


def test_an_append_that_the_store_refused_makes_no_list_of_a_register(tmp_path: Path) -> None:
    refused = operation(3, f="append", type="fail", index=None)
    assert told(written(tmp_path, [*GOOD, *refused]), tmp_path / "ops") == []


def test_an_operation_that_ended_before_it_began_is_the_historys_fault(tmp_path: Path) -> None:
    files = written(tmp_path, [*GOOD, *operation(3, key="k2", time=250)])
    (sentence,) = told(files, tmp_path / "ops")
    assert "history/load-0.jsonl:6, field `time`: found 250, expected no less than `inv`, 300" in (
        sentence
    )
    found, faults = judged(files, tmp_path / "ops")
    assert len(faults.refused) == 1
    assert not suspicious(found)


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"op": None}, "op", "it is missing"),
        ({"process": None}, "process", "it is missing"),
        ({"zone": None}, "zone", "it is missing"),
        ({"inv": None}, "inv", "it is missing"),
        ({"time": None}, "time", "it is missing"),
        ({"type": "done"}, "type", "found done, expected invoke or ok or fail or info"),
        ({"f": "incr"}, "f", "found incr, expected read or write or cas or append"),
        ({"role": None}, "role", "it is missing, expected load or probe or final"),
        ({"value": None}, "value", "it is missing"),
        ({"value": [1]}, "value", "found a list"),
        ({"f": "read", "value": [1, None]}, "value", "null"),
        ({"f": "cas", "applied": None}, "applied", "it is missing"),
        ({"expected": -(2**63)}, "expected", "found -9223372036854775808"),
        ({"time": 2**62}, "time", "73 years"),
        ({"sched": -(2**62)}, "sched", "73 years"),
        ({"sched": 301}, "sched", "found 301, expected no more than `inv`, 300"),
        ({"time": 2**63}, "time", "Expected"),
        ({"key": 5}, "key", "Expected `str | null`, got `int`"),
    ],
)
def test_a_line_with_a_fault_is_told_with_file_line_and_field(
    tmp_path: Path, fields: dict[str, object], field: str, words: str
) -> None:
    bad = operation(3, key="k2")[1]
    files = written(tmp_path, [*GOOD, line(**{**_fields(bad), **fields})])
    (sentence,) = told(files, tmp_path / "ops")
    assert f"history/load-0.jsonl:5, field `{field}`: " in sentence
    assert words in sentence
    assert not suspicious(judged(files, tmp_path / "ops")[0])


LACKING: list[tuple[str, dict[str, object]]] = [
    ("value", {"f": "read", "value": 1}),
    ("value", {"f": "read", "value": [1]}),
    ("value", {"f": "write"}),
    ("expected", {"f": "cas", "expected": 2, "applied": True}),
    ("expected", {"f": "cas", "expected": 2, "type": "info", "index": None}),
    ("found", {"f": "cas", "expected": 2, "applied": False, "found": 1}),
]
"""What an operation is, and a field that its completion must have."""


@pytest.mark.parametrize(("name", "fields"), LACKING)
@pytest.mark.parametrize("how", ["all", "some", "spaced", "nested", "other"])
def test_a_line_that_lacks_what_was_read_expected_or_found_is_the_historys_fault(
    tmp_path: Path, name: str, fields: dict[str, object], how: str
) -> None:
    """As null it would mean that a key was absent: a lost write, or a cas that was refused wrongly.

    `how`: all lines lack it or this one alone, and in which form each reader gets it.
    """
    invoke, bad = operation(3, key="k1", **fields)
    lacking = {key: value for key, value in _fields(bad).items() if key != name}
    if how == "nested":
        lacking["more"] = {name: 1}
    bad = json.dumps(lacking, separators=None if how == "spaced" else (",", ":"))
    if how == "other":
        bad = bad.replace('"op":"3-1"', '"op":"3-\\u0031"')
    lines = [bad] if how == "all" else [invoke, bad]
    files = written(tmp_path, lines, operation(1))
    sentences = told(files, tmp_path / "ops")
    assert f"history/load-0.jsonl:{len(lines)}, field `{name}`: it is missing" in sentences[0]
    assert sentences[0].startswith("1 lines lack a field")
    found, faults = judged(files, tmp_path / "ops")
    assert (len(faults.refused), suspicious(found)) == (1, False)


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        *LACKING[:2],
        ("found", LACKING[-1][1]),
    ],
)
def test_a_line_that_says_null_does_not_lack_the_field(
    tmp_path: Path, name: str, fields: dict[str, object]
) -> None:
    lines = operation(3, key="k1", **{**fields, name: None})
    files = written(tmp_path, [*lines, *operation(1)])
    found, faults = judged(files, tmp_path / "ops")
    assert (faults.counts, suspicious(found)) == ({}, True)


@pytest.mark.parametrize("lacking", [("expected", "found"), ("value", "expected", "found")])
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_a_line_may_lack_what_its_operation_has_not(
    tmp_path: Path, lacking: tuple[str, ...], separators: tuple[str, str]
) -> None:
    """A read that wasn't answered has no value, and only a cas expects or finds one."""
    fields: dict[str, object] = {"f": "read"}
    fields |= {"type": "fail", "index": None} if "value" in lacking else {"value": 1}
    lines = [
        json.dumps(
            {key: value for key, value in _fields(line).items() if key not in lacking},
            separators=separators,
        )
        for line in operation(3, **fields)
    ]
    assert told(written(tmp_path, [*GOOD, *lines]), tmp_path / "ops") == []


@pytest.mark.parametrize("name", ["value", "index"])
@pytest.mark.parametrize("before", ["", " "])
def test_a_line_with_a_field_twice_is_the_historys_fault(
    tmp_path: Path, name: str, before: str
) -> None:
    bad = operation(3, key="k2")[1].removesuffix("}") + f',"{name}":null,{before}"{name}":null}}'
    read = operation(4, key="k2", f="read", value=3)
    files = written(tmp_path, [*GOOD, operation(3, key="k2")[0], bad, *read])
    (sentence,) = told(files, tmp_path / "ops")
    assert f"history/load-0.jsonl:6, field `{name}`: it stands twice" in sentence


@pytest.mark.parametrize(("schema", "said"), [(2, "found 2"), (None, "it is missing")])
def test_a_line_of_another_schema_version_is_told_and_judged(
    tmp_path: Path, schema: int | None, said: str
) -> None:
    phantom = operation(3, key="k2", f="read", value=99, schema=schema)
    files = written(tmp_path, [*GOOD, *phantom])
    found, faults = judged(files, tmp_path / "ops")
    assert (faults.refused, suspicious(found)) == ([], True)
    (sentence,) = told(files, tmp_path / "ops")
    assert sentence.startswith("2 lines are of another schema version: ")
    assert f"history/load-0.jsonl:5, field `schema`: {said}, expected 1" in sentence
    assert f"history/load-0.jsonl:6, field `schema`: {said}, expected 1" in sentence


@pytest.mark.parametrize("how", ["null", "lacking"])
def test_a_line_that_does_not_say_when_its_operation_was_due_is_told_and_judged(
    tmp_path: Path, how: str
) -> None:
    phantom = [
        json.dumps({k: v for k, v in _fields(one).items() if v is not None or how == "null"})
        for one in operation(3, f="read", value=99, expected=None, found=None, sched=None)
    ]
    files = written(tmp_path, [*GOOD, *phantom])
    found, faults = judged(files, tmp_path / "ops")
    assert (faults.refused, suspicious(found)) == ([], True)
    (sentence,) = told(files, tmp_path / "ops")
    assert sentence.startswith("2 lines don't say when their operation was due: ")
    assert "history/load-0.jsonl:5, field `sched`: it is missing, so `inv` counts" in sentence


@pytest.mark.parametrize("kind", ["invoke", "info"])
def test_an_operation_without_an_answer_was_due_before_it_began(tmp_path: Path, kind: str) -> None:
    lines = operation(3, key="k2", type="info", index=None, sched=301)
    files = written(tmp_path, [*GOOD, *lines[: 1 if kind == "invoke" else 2]])
    (sentence,) = told(files, tmp_path / "ops")
    assert "field `sched`: found 301, expected no more than `inv`, 300" in sentence


@pytest.mark.parametrize(
    ("clocks", "names"),
    [
        (("c", "c"), ("c",)),
        (("c", "d"), ("c", "d")),
        (("c", None), ("", "c")),
        ((None, "c"), ("", "c")),
        ((None, None), ()),
    ],
)
@pytest.mark.parametrize("apart", [False, True])
def test_lines_without_a_clock_are_of_another_one_than_those_that_name_theirs(
    tmp_path: Path, clocks: tuple[str | None, str | None], names: tuple[str, ...], apart: bool
) -> None:
    """`apart`: in files of their own. A line that can't be read says nothing of its clock."""
    one, other = (operation(n + 1, key=f"k{n}", clock=name) for n, name in enumerate(clocks))
    files = [one, other] if apart else [[*one, *other, "no JSON", line()[:40]]]
    found, _ = judged(written(tmp_path, *files), tmp_path / "ops")
    assert clocks_of(found[0].facts) == names


def _fields(text: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(text)
    return found


@pytest.mark.parametrize(
    ("name", "torn", "unreadable"),
    [
        ("zq-z-0-17-load.jsonl", 0, 1),
        ("zq-z-0-17-load.0001.jsonl", 0, 1),
        ("zq-z-0-17-load.0002.jsonl", 1, 0),
        ("zq-z-0-17-probe.jsonl", 1, 0),
    ],
)
def test_a_piece_that_another_one_follows_is_not_torn_by_a_crash_but_cut(
    tmp_path: Path, name: str, torn: int, unreadable: int
) -> None:
    (tmp_path / "history").mkdir()
    others = ("zq-z-0-17-load.jsonl", "zq-z-0-17-load.0001.jsonl", "zq-z-0-17-load.0002.jsonl")
    files = [tmp_path / "history" / one for one in sorted({*others, name})]
    for number, file in enumerate(files):
        lines = "".join(f"{one}\n" for one in operation(number + 1))
        file.write_text(lines + line()[:40] * (file.name == name))
    found, faults = judged(files, tmp_path / "ops")
    assert found[0].facts.torn == torn
    assert faults.of(HistoryDefectKind.UNREADABLE) == faults.keyless == unreadable
    for sentence in in_words(faults, files):
        assert f"history/{name}:3: the file ends within a line, expected a whole one" in sentence


def test_a_file_of_carriage_returns_is_told_and_what_it_wrote_is_not_invented(
    tmp_path: Path,
) -> None:
    files = written(tmp_path, operation(3, f="read", value=1), operation(1))
    files[1].write_text("\r".join(operation(1)) + "\r")
    (sentence,) = told(files, tmp_path / "ops")
    assert "history/load-1.jsonl:1: found lines that end with a carriage return" in sentence
    faults = judged(files, tmp_path / "ops")[1]
    assert faults.keyless == 1, "any key may lack an operation"


@pytest.mark.parametrize("key", ["k2", "k1"])
def test_an_op_that_two_operations_carry_is_the_historys_fault(tmp_path: Path, key: str) -> None:
    again = operation(3, key=key, op="1-1", partition=0)
    for files in ([[*GOOD, *again]], [GOOD, again]):
        sentences = told(written(tmp_path, *files), tmp_path / "ops")
        assert len(sentences) == 1
        assert "history/load-0.jsonl:" in sentences[0]
        assert "field `op`: found 1-1, expected a name that no other operation has" in sentences[0]


def test_an_op_that_two_operations_carry_in_different_partitions_is_found(tmp_path: Path) -> None:
    # Many partitions, so that some pair lies in different buckets.
    for partition in range(1, 6):
        again = operation(3, key="k2", op="1-1", partition=partition)
        files = written(tmp_path, [*GOOD, *again])
        assert "field `op`: found 1-1" in told(files, tmp_path / "ops")[0]


def test_an_invoke_that_shares_its_op_with_another_operation_is_no_phantom(tmp_path: Path) -> None:
    cut_off = operation(3, key="k2", op="1-1")[:1]
    seen = operation(4, key="k2", f="read", value=3)
    files = written(tmp_path, [*GOOD, *cut_off, *seen])
    assert "found 1-1" in told(files, tmp_path / "ops")[0]
    assert not suspicious(judged(files, tmp_path / "ops")[0])


def test_a_completion_that_stands_twice_is_the_historys_fault(tmp_path: Path) -> None:
    files = written(tmp_path, [*GOOD, GOOD[1]])
    assert (
        "found 1-1, expected a name that no other operation has, and one completion"
        in (told(files, tmp_path / "ops")[0])
    )
    assert not suspicious(judged(files, tmp_path / "ops")[0])


@pytest.mark.parametrize(
    "changed",
    [
        {"value": 424242},
        {"expected": 5},
        {"key": "k9"},
    ],
)
@pytest.mark.parametrize("by_key", [False, True])
def test_a_completion_that_repeats_not_what_was_asked_is_the_historys_fault(
    tmp_path: Path, changed: dict[str, object], by_key: bool
) -> None:
    asked = {"f": "cas", "expected": 4, "applied": True} if "expected" in changed else {}
    invoke, completion = operation(3, key="k2", **asked)
    other = line(**{**_fields(invoke), **changed})
    read = operation(4, key="k2", f="read", value=424242)
    paths = written(tmp_path, [*GOOD, other], [completion, *read])
    found, faults = judged(paths, tmp_path / "ops", by_key=by_key)
    assert faults.of(HistoryDefectKind.REPEATED) == 2
    assert "which repeats what the invoke asked for" in told(paths, tmp_path / "ops")[0]
    assert not suspicious(found)


def test_pairs_that_lie_in_different_ranges_are_no_repetition(tmp_path: Path) -> None:
    lines = [one for number in range(1, 60) for one in operation(number, key=f"k{number}")]
    files = written(tmp_path, lines[:50], lines[50:])
    for size in (60, 333, 5000):
        _, faults = judged(files, tmp_path / "ops", size=size)
        assert faults.counts == {}


def test_a_key_in_two_partitions_is_the_historys_fault(tmp_path: Path) -> None:
    files = written(tmp_path, [*GOOD, *operation(3, partition=4)])
    (sentence,) = told(files, tmp_path / "ops")
    assert "field `partition`: found 0 for key k1, expected one partition of a key" in sentence
    assert not suspicious(judged(files, tmp_path / "ops")[0])


def test_a_process_with_two_operations_at_once_is_the_historys_fault(tmp_path: Path) -> None:
    early = operation(3, key="a", process=9, time=900, index=80)
    late = operation(4, key="b", process=9, time=500, index=20)
    files = written(tmp_path, [*early, *late])
    (sentence,) = told(files, tmp_path / "ops")
    assert "history/load-0.jsonl:2, field `process`: 9 ended op `3-1` here" in sentence
    assert "began op `4-1` (history/load-0.jsonl:4) before that" in sentence
    assert not suspicious(judged(files, tmp_path / "ops")[0])


def test_a_process_that_really_went_back_is_still_found(tmp_path: Path) -> None:
    first = operation(3, key="a", process=9, index=80)
    then = operation(4, key="b", process=9, index=20)
    found, faults = judged(written(tmp_path, [*first, *then]), tmp_path / "ops")
    assert faults.counts == {}
    assert suspicious(found)


def test_lines_of_unknown_keys_are_counted(tmp_path: Path) -> None:
    files = written(tmp_path, [*GOOD, line(key=None, op="8-1"), "not json"])
    _, faults = judged(files, tmp_path / "ops")
    assert faults.keyless == 2
    assert [sentence.split(":")[0] for sentence in told(files, tmp_path / "ops")] == [
        "1 lines can't be read",
        "1 lines lack a field, or hold in it what can't be",
    ]


def test_three_faults_of_a_kind_are_told_and_the_others_counted(tmp_path: Path) -> None:
    (sentence,) = told(written(tmp_path, [*GOOD, *["not json"] * 5]), tmp_path / "ops")
    assert sentence.startswith("5 lines can't be read: history/load-0.jsonl:5: ")
    assert [f"history/load-0.jsonl:{number}" in sentence for number in range(5, 10)] == [
        *[True] * 3,
        *[False] * 2,
    ]
    assert sentence.endswith("; and 2 more")
    (sentence,) = told(written(tmp_path, [*GOOD, *["not json"] * 3]), tmp_path / "ops")
    assert "more" not in sentence


def test_nothing_is_judged_if_more_keys_have_faults_than_can_be_named(tmp_path: Path) -> None:
    bad = [line(op=None, key=f"k{number}") for number in range(MOST_REFUSED + 1)]
    files = written(tmp_path, [*bad, *operation(2, f="read", value=99)])
    found, faults = judged(files, tmp_path / "ops", size=100_000)
    assert faults.everything
    assert not suspicious(found)
    assert "nothing of the history was judged" in told(files, tmp_path / "ops")[-1]


def test_a_fault_of_one_key_hides_no_violation_of_another(tmp_path: Path) -> None:
    phantom = operation(5, key="k3", f="read", value=99)
    files = written(tmp_path, [*GOOD, *operation(3, key="k2", time=250), *phantom])
    assert suspicious(judged(files, tmp_path / "ops")[0])

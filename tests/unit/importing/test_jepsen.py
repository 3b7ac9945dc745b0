"""Jepsen's histories: registers, lists, what is unknown, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.exceptions import TyperException

from tests.unit.importing.imported import imported
from zonequake_analysis.errors import ImportRefused, RunFolderError
from zonequake_analysis.importing.command import Source, app, import_history
from zonequake_analysis.importing.operations import Choices
from zonequake_analysis.importing.translation import Line
from zonequake_analysis.inputs.shapes import CORRUPT
from zonequake_analysis.inputs.transactions.steps import step_rows
from zonequake_load.pod.history import HistoryEvent

TUPLES = """\
{:type :invoke, :f :write, :value [1 5], :process 0, :time 10, :index 0}
{:type :invoke, :f :read, :value [1 nil], :process 1, :time 20, :index 1}
{:type :ok, :f :write, :value [1 5], :process 0, :time 30, :index 2}
{:type :ok, :f :read, :value [1 nil], :process 1, :time 40, :index 3}
{:type :invoke, :f :cas, :value [1 [5 6]], :process 0, :time 50, :index 4}
{:type :ok, :f :cas, :value [1 [5 6]], :process 0, :time 60, :index 5}
{:type :invoke, :f :cas, :value [1 [5 7]], :process 0, :time 70, :index 6}
{:type :fail, :f :cas, :value [1 [5 7]], :process 0, :time 80, :index 7, :error :mismatch}
{:type :invoke, :f :read, :value [1 nil], :process 1, :time 90, :index 8}
{:type :ok, :f :read, :value [1 6], :process 1, :time 100, :index 9}
"""


def test_independent_registers_become_operations_on_their_keys(tmp_path: Path) -> None:
    found = imported(tmp_path, "jepsen", TUPLES)
    told = [
        (e["type"], e["f"], e["key"], e["value"], e["expected"], e["applied"], e["inv"], e["time"])
        for e in found.ends
    ]
    assert told == [
        ("ok", "write", "1", 5, None, None, 10, 30),
        ("ok", "read", "1", None, None, None, 20, 40),
        ("ok", "cas", "1", 6, 5, True, 50, 60),
        ("fail", "cas", "1", 7, 5, None, 70, 80),
        ("ok", "read", "1", 6, None, None, 90, 100),
    ]
    assert found.ends[3]["error"] == ":mismatch"
    assert [e["op"] for e in found.ends] == ["0-0", "1-1", "0-4", "0-6", "1-8"]
    assert not (found.run / "values.json").exists()


def test_the_same_history_without_keys_in_a_vector_with_tags_is_read_alike(tmp_path: Path) -> None:
    plain = TUPLES.replace("[1 [", "[").replace("]],", "],").replace("[1 5]", "5")
    plain = plain.replace("[1 nil]", "nil").replace("[1 6]", "6")
    tagged = plain.replace("{:type", "#jepsen.history.Op{:type")
    for text in (TUPLES, plain, f"[{tagged}]", f"({plain})"):
        found = imported(tmp_path, "jepsen", text)
        assert [e["value"] for e in found.ends] == [5, None, 6, 7, 6]
        assert len({e["key"] for e in found.ends}) == 1


def test_a_set_of_two_is_one_value_and_no_pair_of_key_and_value(tmp_path: Path) -> None:
    text = TUPLES.splitlines()
    sets = [line.replace("[1 5]", "#{2 1}").replace("[1 nil]", "nil") for line in text[:3]]
    found = imported(tmp_path, "jepsen", "\n".join([*sets, text[3].replace("[1 nil]", "#{1 2}")]))
    assert len({e["key"] for e in found.ends}) == 1
    (written, read) = (e["value"] for e in found.ends)
    assert written == read
    assert found.values == {str(read): "#{1 2}"}


def test_the_last_read_behind_all_writes_of_a_key_is_a_final_one(tmp_path: Path) -> None:
    found = imported(tmp_path, "jepsen", TUPLES)
    assert [line["role"] for line in found.lines] == ["load"] * 8 + ["final"] * 2
    found = imported(tmp_path, "jepsen", "".join(TUPLES.splitlines(keepends=True)[:6]))
    assert {line["role"] for line in found.lines} == {"load"}


def test_strings_and_keywords_get_numbers_that_are_written_beside_the_history(
    tmp_path: Path,
) -> None:
    text = TUPLES.replace("[1 5]", '[1 "five"]').replace("[5 ", '["five" ').replace(" 6]", " :six]")
    found = imported(tmp_path, "jepsen", text)
    texts = {int(number): text for number, text in found.values.items()}
    assert [texts.get(e["value"], e["value"]) for e in found.ends] == [
        '"five"', None, ":six", 7, ":six",
    ]  # fmt: skip
    assert texts[found.ends[2]["expected"]] == '"five"'
    assert min(texts) >= 2**53


def test_what_has_no_certain_end_may_have_happened(tmp_path: Path) -> None:
    text = """\
{:type :invoke, :f :write, :value 1, :process 0, :time 1}
{:type :info, :f :write, :value :timed-out, :process 0, :time 2, :error [:timeout "x"]}
{:type :invoke, :f :write, :value 2, :process 0, :time 3}
{:type :ok, :f :write, :value 2, :process 0, :time 4}
{:type :invoke, :f :write, :value 3, :process 7, :time 5}
"""
    found = imported(tmp_path, "jepsen", text)
    one, two, three = [line for line in found.lines if line["type"] == "invoke"]
    assert (one["value"], found.ends[0]["type"], found.ends[0]["value"]) == (1, "info", 1)
    # Jepsen goes on under another number; where a test doesn't, we do.
    assert one["process"] == 0
    assert two["process"] not in (0, 7)
    assert (three["value"], len(found.ends)) == (3, 2)
    assert {why for why in found.notes.said if "unknown" in why} == {
        "processes went on after an unknown outcome, under a number of ours",
        "operations have no completion and count as unknown",
    }


def test_the_nemesis_becomes_events(tmp_path: Path) -> None:
    text = "{:type :info, :f :start, :value [:n1 {:a 1}], :process :nemesis, :time 5}\n" + TUPLES
    found = imported(tmp_path, "jepsen", text)
    (event,) = [json.loads(line) for line in (found.run / "events.jsonl").read_text().splitlines()]
    assert (event["kind"], event["time"]) == ("nemesis", 5)
    assert event["data"] == {
        "type": ":info", "f": ":start", "value": "[:n1 {:a 1}]", "process": ":nemesis"
    }  # fmt: skip
    assert len(found.ends) == 5


APPENDS = """\
{:type :invoke, :f :txn, :value [[:append 9 1]], :process 0, :time 1, :index 0}
{:type :ok, :f :txn, :value [[:append 9 1]], :process 0, :time 2, :index 1}
{:type :invoke, :f :txn, :value [[:r 9 nil]], :process 0, :time 3, :index 2}
{:type :ok, :f :txn, :value [[:r 9 [1]]], :process 0, :time 4, :index 3}
"""


def test_transactions_of_one_operation_become_appends_and_reads(tmp_path: Path) -> None:
    for f in (":txn", ":append"):
        found = imported(tmp_path, "jepsen", APPENDS.replace(":txn", f))
        assert [(e["f"], e["key"], e["value"]) for e in found.ends] == [
            ("append", "9", 1),
            ("read", "9", [1]),
        ]


TWO = """\
{:type :invoke, :f :txn, :value [[:append 9 1] [:r 8 nil]], :process 0, :time 1}
{:type :ok, :f :txn, :value [[:append 9 1] [:r 8 []]], :process 0, :time 2}
"""


def test_a_transaction_of_two_operations_is_one_line_with_its_steps(tmp_path: Path) -> None:
    found = imported(tmp_path, "jepsen", TWO)
    asked, done = found.lines
    assert [(line["schema"], line["f"], line["key"], line["op"]) for line in found.lines] == [
        (2, "transaction", None, "0-0")
    ] * 2
    appended = {"f": "append", "key": "9", "value": 1}
    assert asked["steps"] == done["steps"] == [appended, {"f": "read", "key": "8", "value": None}]
    found = imported(tmp_path, "jepsen", TWO.replace("[:r 8 []]", "[:r 8 [3 4]]"))
    assert found.ends[0]["steps"][1]["value"] == [3, 4]
    for line in found.lines:
        rows = step_rows(json.dumps(line).encode())
        assert rows is not None
        assert [row.get(CORRUPT) for row in rows] == [None, None]
        assert [row["op"] for row in rows] == ["0-0/1of2", "0-0/2of2"]


@pytest.mark.parametrize("outcome", ["info", "fail", None])
def test_a_transaction_that_was_not_answered_has_read_nothing(
    tmp_path: Path, outcome: str | None
) -> None:
    first, last = TWO.splitlines()
    found = imported(
        tmp_path, "jepsen", f"{first}\n{last.replace(':ok', f':{outcome}') if outcome else ''}"
    )
    assert [line["type"] for line in found.lines] == ["invoke", *([outcome] if outcome else [])]
    assert {step["value"] for line in found.lines for step in line["steps"]} == {1, None}


def test_values_of_a_transaction_that_are_no_integers_get_numbers(tmp_path: Path) -> None:
    text = TWO.replace("[:append 9 1]", '[:append 9 "x"]').replace("[]", '["y"]')
    found = imported(tmp_path, "jepsen", text)
    append, read = found.ends[0]["steps"]
    assert found.values == {str(append["value"]): '"x"', str(read["value"][0]): '"y"'}


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ("[[:append 9 1] [:r 9 nil]]", "key 9 is in two steps of a transaction"),
        ("[[:w 9 1] [:r 8 nil]]", "a transaction that writes a register"),
        (f"[{' '.join(f'[:r {n} nil]' for n in range(128))}]", "a transaction of 128 operations"),
    ],
)
def test_a_transaction_that_no_line_can_hold_is_refused_with_what_is_missing(
    tmp_path: Path, steps: str, told: str
) -> None:
    text = f"{{:type :invoke, :f :txn, :value {steps}, :process 0, :time 1}}"
    with pytest.raises(ImportRefused, match=rf"line 1, :value: {told}.*--split-transactions"):
        imported(tmp_path, "jepsen", text)
    assert len(imported(tmp_path, "jepsen", text, split=True).lines) > 1


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (TWO.replace(":r 8 []", ":r 8 5").replace("9 1", "9 2"), "found 5 as what was read"),
        (TWO.replace("8 []", "7 []").replace("8 nil", "7 nil"), "appended to key 9 a second time"),
        ("{:type :invoke, :f :write, :value [8 1], :process 1, :time 1}\n", "key 8 is a register"),
    ],
)
def test_the_rules_of_lists_hold_in_transactions(tmp_path: Path, more: str, told: str) -> None:
    text = TWO + more.replace(":process 0", ":process 5")
    with pytest.raises(ImportRefused, match=told):
        imported(tmp_path, "jepsen", text)


def test_the_last_reads_of_transactions_are_final_ones(tmp_path: Path) -> None:
    reads = """\
{:type :invoke, :f :txn, :value [[:r 9 nil] [:r 8 nil]], :process 0, :time 3}
{:type :ok, :f :txn, :value [[:r 9 [1]] [:r 8 nil]], :process 0, :time 4}
"""
    found = imported(tmp_path, "jepsen", TWO + reads)
    assert [line["role"] for line in found.lines] == ["load"] * 2 + ["final"] * 2
    assert {line["role"] for line in imported(tmp_path, "jepsen", TWO).lines} == {"load"}


def test_a_transaction_is_split_if_that_is_asked_for(tmp_path: Path) -> None:
    found = imported(tmp_path, "jepsen", TWO, split=True)
    assert [(e["f"], e["key"], e["value"]) for e in found.ends] == [
        ("append", "9", 1), ("read", "8", [])
    ]  # fmt: skip
    assert len({e["process"] for e in found.ends}) == 2


def test_without_times_the_order_of_the_entries_counts(tmp_path: Path) -> None:
    text = """\
{:process 0, :type :invoke, :f :put, :key "a", :value "x"}
{:process 1, :type :invoke, :f :get, :key "a", :value nil}
{:process 0, :type :ok, :f :put, :key "a", :value "x"}
{:process 1, :type :ok, :f :get, :key "a", :value "x"}
"""
    found = imported(tmp_path, "jepsen", text)
    assert [(e["key"], e["inv"], e["time"]) for e in found.ends] == [("a", 0, 2), ("a", 1, 3)]


def test_lines_of_jepsens_log_are_read(tmp_path: Path) -> None:
    text = """\
INFO  jepsen.core - Worker 0 starting
INFO  jepsen.util - 0\t:invoke\t:write\t4
INFO  jepsen.util - 1 :invoke :cas  [4 2]
INFO  jepsen.util - 0\t:info\t:write\t:timed-out
INFO  jepsen.util - 1 :ok :cas  [4 2]   what the client added
"""
    found = imported(tmp_path, "jepsen", text)
    assert [(e["type"], e["f"], e["value"]) for e in found.ends] == [
        ("info", "write", 4), ("ok", "cas", 2)
    ]  # fmt: skip
    with pytest.raises(ImportRefused, match="line 2, :f: found :add"):
        imported(tmp_path, "jepsen", text.replace(":write\t4", ":add\t4"))


def test_an_initial_value_is_written_before_all_else(tmp_path: Path) -> None:
    found = imported(tmp_path, "jepsen", TUPLES, initial=0)
    first, end = found.lines[:2]
    assert (first["f"], first["value"], first["key"], end["type"]) == ("write", 0, "1", "ok")
    assert end["time"] < min(line["inv"] for line in found.lines[2:])
    assert len({line["process"] for line in found.lines}) == 3


def test_an_initial_value_is_written_before_an_operation_that_ends_later_begins(
    tmp_path: Path,
) -> None:
    """Else it might come after the write of 5, and the loss of 5 would pass."""
    text = """\
{:type :invoke, :f :write, :value 5, :process 0, :time 10}
{:type :invoke, :f :read, :value nil, :process 1, :time 50}
{:type :ok, :f :read, :value 0, :process 1, :time 60}
{:type :ok, :f :write, :value 5, :process 0, :time 100}
{:type :invoke, :f :read, :value nil, :process 1, :time 110}
{:type :ok, :f :read, :value 0, :process 1, :time 120}
"""
    found = imported(tmp_path, "jepsen", text, initial=0)
    written, *others = found.ends
    assert (written["f"], written["value"]) == ("write", 0)
    assert written["time"] < min(end["inv"] for end in others) == 10


def test_a_value_written_twice_is_said_of_a_register(tmp_path: Path) -> None:
    found = imported(tmp_path, "jepsen", TUPLES.replace("[5 6]", "[5 5]"))
    assert found.notes.said["registers were written one value twice: a search judges them"]


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        (":write, :value [1 5]", ":write, :value [1 nil]", "line 1, :value: found nil"),
        (":write, :value [1 5]", ":write, :value [1 [5]]", r"line 1, :value: found \[5\]"),
        (":f :read, :value [1 nil]", ":f :add, :value [1 nil]", "line 2, :f: found :add"),
        (":process 0, :time 30", ":process 4, :time 30", "line 3, :type: :ok of process 4"),
        ("[1 nil], :process 1, :time 40", "[2 nil], :process 1, :time 40", "line 4, :value"),
        (":process 0, :time 50", ":process 0, :time nil", "line 5, :time"),
        (":process 0, :time 60", ":process 0, :time 6", "line 6, :time: found 6, before"),
        (":process 0, :time 70", ":process :x, :time 70", "line 8, :type"),
        (":type :fail", ":type :error", "line 8, :type: found :error"),
        (":process 1, :time 90", ":process nil, :time 90", "line 9, :process: found nil"),
        ("[1 6], :process 1", "[1 [6]], :process 1", "line 9: key 1 is a list here and a register"),
        ("[1 6], :process 1", "[1 {:a 6}], :process 1", "line 9, value: found {:a 6}"),
        ("{:type :invoke, :f :write", "[{:type :invoke, :f :write", "never closed|line 1"),
    ],
)  # fmt: skip
def test_what_can_not_be_judged_is_refused_with_line_and_field(
    tmp_path: Path, old: str, new: str, what: str
) -> None:
    assert old in TUPLES
    with pytest.raises(ImportRefused, match=what):
        imported(tmp_path, "jepsen", TUPLES.replace(old, new, 1))
    assert [file.name for file in tmp_path.iterdir()] == ["given.txt"]


def test_an_element_that_is_appended_twice_is_refused_unless_the_first_certainly_failed(
    tmp_path: Path,
) -> None:
    again = APPENDS + APPENDS.replace(":process 0", ":process 3")
    with pytest.raises(ImportRefused, match="line 5, value: 1 is appended to key 9 a second time"):
        imported(tmp_path, "jepsen", again)
    imported(tmp_path, "jepsen", again.replace(":type :ok", ":type :fail", 1))


def test_a_folder_that_is_there_is_left_alone(tmp_path: Path) -> None:
    found = imported(tmp_path, "jepsen", TUPLES)
    with pytest.raises(RunFolderError, match="is there already"):
        import_history(Source.JEPSEN, [tmp_path / "given.txt"], found.run, Choices())


def test_a_line_has_the_fields_of_the_loads_own_in_their_order() -> None:
    assert Line.__struct_fields__ == HistoryEvent.__struct_fields__


def test_a_history_of_which_the_begin_is_known_says_what_time_it_was(tmp_path: Path) -> None:
    text = """{:process 0, :type :invoke, :f :write, :value [0 1], :time 1000}
{:process :nemesis, :type :info, :f :kill, :value nil, :time 1500}
{:process 0, :type :ok, :f :write, :value [0 1], :time 2000}
"""
    file = tmp_path / "history.edn"
    file.write_text(text)
    run = tmp_path / "run"
    words = ["--from", "jepsen", str(file), "--out", str(run), "--began"]
    assert app([*words, "2023-11-14T23:13:20.000001+01:00"], standalone_mode=False) in (None, 0)
    lines = [
        json.loads(line)
        for name in ("history/imported.jsonl", "events.jsonl")
        for line in (run / name).read_text().splitlines()
    ]
    assert [line["wall"] - line["time"] for line in lines] == [1_700_000_000_000_001_000] * 3
    assert [line["time"] for line in lines] == [1000, 2000, 1500]
    for strange in ("2023-11-14T22:13:20", "yesterday"):
        with pytest.raises(TyperException, match="expected a time of day with its zone"):
            app([*words, strange], standalone_mode=False)

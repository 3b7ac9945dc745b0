"""Porcupine's operations: plain ones, and those of etcd's robustness tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.importing.imported import imported
from zonequake_analysis.errors import ImportRefused
from zonequake_analysis.importing.command import Source, import_history
from zonequake_analysis.importing.operations import Choices


def line(given: Any, answer: Any, call: int, end: int | None, client: int = 0) -> str:
    return json.dumps(
        {"ClientId": client, "Input": given, "Call": call, "Output": answer, "Return": end}
    )


def text(*lines: str) -> str:
    return "".join(f"{each}\n" for each in lines)


def put(key: str, value: str, **options: Any) -> dict[str, Any]:
    return {"Type": "put-operation", "Put": {"Key": key, "Value": {"Value": value}, **options}}


def txn(*done: Any, conditions: Any = None, otherwise: Any = None) -> dict[str, Any]:
    return {
        "Type": "txn",
        "Range": None,
        "Txn": {
            "Conditions": conditions,
            "OperationsOnSuccess": list(done),
            "OperationsOnFailure": otherwise,
        },
    }


def done(revision: int, *results: Any, failure: bool = False) -> dict[str, Any]:
    return {
        "Txn": {"Failure": failure, "Results": list(results)},
        "Revision": revision, "Persisted": False, "PersistedRevision": 0, "Error": "",
    }  # fmt: skip


NOTHING: dict[str, Any] = {"KVs": None, "Count": 0, "Deleted": 0}
GET = {"Type": "range", "Range": {"Start": "k", "End": "", "Limit": 0, "Revision": 0}}


def got(revision: int, *pairs: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    kvs = [{"Key": key, "Value": value, "ModRevision": 2} for key, value in pairs]
    return {"Range": {"KVs": kvs, "Count": len(kvs)}, "Revision": revision, "Error": ""}


def test_plain_operations_are_read_whatever_the_case_of_their_names(tmp_path: Path) -> None:
    found = imported(
        tmp_path,
        "porcupine",
        text(
            line({"Op": "put", "Key": "a", "Value": "x"}, {}, 1, 2),
            line({"op": "get", "key": "a"}, {"value": "x"}, 3, 4, client=1),
            line({"Op": "cas", "Key": "a", "Old": "x", "New": "y"}, {"Ok": True}, 5, 6),
            line({"Op": "cas", "Key": "a", "Old": "x", "New": "z"}, {"Ok": False}, 7, 8),
            line({"Op": "append", "Key": "b", "Value": 1}, None, 9, None),
            line({"Op": "get", "Key": "b"}, {"Value": [1]}, 10, 11),
        ),
    )
    x, y, z = (int(number) for number in found.values)
    assert [(e["type"], e["f"], e["value"], e["inv"], e["time"]) for e in found.ends] == [
        ("ok", "write", x, 1, 2),
        ("ok", "read", x, 3, 4),
        ("ok", "cas", y, 5, 6),
        ("fail", "cas", z, 7, 8),
        ("info", "append", 1, 9, 9),
        ("ok", "read", [1], 10, 11),
    ]
    assert list(found.values.values()) == ['"x"', '"y"', '"z"']


def test_numbered_operations_hold_the_empty_string_at_first(tmp_path: Path) -> None:
    get = {"Op": 0, "Key": "a", "Value": ""}
    found = imported(
        tmp_path,
        "porcupine",
        text(
            line(get, {"Value": ""}, 1, 2),
            line({"Op": 1, "Key": "a", "Value": "x"}, {"Value": ""}, 3, 4),
        ),
    )
    assert [e["value"] for e in found.ends] == [None, 2**53]
    with pytest.raises(ImportRefused, match=r"line 1, Input\.Op: found 2, .*--leave-out-keys"):
        imported(tmp_path, "porcupine", line({"Op": 2, "Key": "a", "Value": "x"}, {}, 1, 2))


def test_etcds_puts_and_ranges_are_writes_and_reads_at_their_revision(tmp_path: Path) -> None:
    found = imported(
        tmp_path,
        "porcupine",
        text(
            line(GET, got(1), 1, 2),
            line(txn(put("k", "v")), done(2, NOTHING), 3, 4),
            line(GET, got(2, ("k", {"Value": "v"})), 5, 6),
        ),
    )
    assert [(e["f"], e["value"], e["lineage"], e["term"], e["index"]) for e in found.ends] == [
        ("read", None, 0, 1, 1),
        ("write", 2**53, 0, 1, 2),
        ("read", 2**53, 0, 1, 2),
    ]
    assert found.lines[-1]["role"] == "final"


def test_a_failed_put_may_have_happened_in_either_branch_and_ends_its_process(
    tmp_path: Path,
) -> None:
    request = txn(put("k", "a"), otherwise=[put("k", "b")], conditions=[{"Key": "k"}])
    found = imported(
        tmp_path,
        "porcupine",
        text(
            line(request, {"Error": "timeout"}, 3, 0),
            line(txn(put("k", "c")), done(2, NOTHING), 5, 6),
        ),
    )
    assert [(e["type"], e["value"], e["error"]) for e in found.ends] == [
        ("info", 2**53, "timeout"), ("info", 2**53 + 1, "timeout"), ("ok", 2**53 + 2, None)
    ]  # fmt: skip
    assert len({e["process"] for e in found.ends}) == 3


def test_a_conditional_transaction_is_what_it_did(tmp_path: Path) -> None:
    read = {"Type": "range-operation", "Range": {"Start": "k", "End": "", "Limit": 0}}
    request = txn(put("k", "a"), otherwise=[read], conditions=[{"Key": "k", "ExpectedRevision": 3}])
    answer = {"KVs": [{"Key": "k", "Value": {"Hash": 77}}], "Count": 1}
    found = imported(
        tmp_path, "porcupine", line(request, done(4, answer, failure=True), 1, 2) + "\n"
    )
    assert [(e["f"], found.values[str(e["value"])]) for e in found.ends] == [("read", '"hash 77"')]
    assert found.notes.said == {"conditions on revisions aren't judged": 1}


def test_keys_with_deletes_or_leases_are_refused_or_left_out_whole(tmp_path: Path) -> None:
    given = text(
        line(txn(put("k", "v")), done(2, NOTHING), 1, 2),
        line(txn(put("other", "w")), done(3, NOTHING), 3, 4),
        line(
            txn({"Type": "delete-operation", "Delete": {"Key": "k"}}),
            done(4, {**NOTHING, "Deleted": 1}), 5, 6,
        ),
        line(txn(put("leased", "v", LeaseID=9)), done(5, NOTHING), 7, 8),
        line({"Type": "compact", "Compact": {"Revision": 3}}, {"Revision": 5}, 9, 10),
    )  # fmt: skip
    with pytest.raises(
        ImportRefused, match=r"line 3, Input\.Txn: found a delete.*--leave-out-keys"
    ):
        imported(tmp_path, "porcupine", given)
    found = imported(tmp_path, "porcupine", given, leave_out=True)
    assert {e["key"] for e in found.ends} == {"other"}
    assert found.notes.left_out == {
        "requests of type compact": 1,
        "keys with operations that can't be judged": 2,
        "operations on these keys": 1,
    }


def test_two_writes_of_one_transaction_are_split_if_that_is_asked_for_and_claim_no_place(
    tmp_path: Path,
) -> None:
    given = line(txn(put("a", "1"), put("b", "2")), done(2, NOTHING, NOTHING), 1, 2)
    with pytest.raises(ImportRefused, match=r"line 1, Input: .*--split-transactions"):
        imported(tmp_path, "porcupine", given)
    found = imported(tmp_path, "porcupine", given, split=True)
    assert [(e["key"], e["index"]) for e in found.ends] == [("a", None), ("b", None)]


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ("{", "line 1: .*expected one JSON object a line"),
        ("[1]", "line 1: .*expected one JSON object a line"),
        (line({}, {}, 1, 2), "line 1, Input: found neither Type"),
        (line({"Op": "push", "Key": "a"}, {}, 1, 2), r"line 1, Input\.Op: found \"push\""),
        (line({"Op": "put", "Value": 1}, {}, 1, 2), r"line 1, Input\.Key: found nil"),
        (line({"Op": "put", "Key": "a"}, {}, 1, 2), r"line 1, Input\.Value: is not there"),
        (line({"Op": "put", "Key": "a", "Value": None}, {}, 1, 2), "found null as what is written"),
        (line({"Op": "cas", "Key": "a", "Old": 1, "New": 2}, {}, 1, 2), r"Output\.Ok: is not"),
        (line({"Op": "put", "Key": "a", "Value": 1}, {}, 5, 2), "Return: found 2, before Call, 5"),
        (line({"Op": "put", "Key": "a", "Value": 1}, {}, 5, None)[:-1], "one JSON object a line"),
        (line({"Type": "watch"}, {}, 1, 2), r"line 1, Input\.Type: found 'watch'"),
        (line(txn(put("k", "v")), done(2), 1, 2), r"Output\.Txn\.Results: found 0, expected 1"),
        (line(GET, got(2, ("x", {})), 1, 2), r"Output\.Range\.KVs: found another key"),
    ],
)  # fmt: skip
def test_what_can_not_be_read_is_refused_with_line_and_field(
    tmp_path: Path, given: str, what: str
) -> None:
    with pytest.raises(ImportRefused, match=what):
        imported(tmp_path, "porcupine", given)


def test_clients_of_several_files_are_one_history(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("one.json", "two.json")]
    for number, file in enumerate(files):
        file.write_text(line(txn(put("k", f"v{number}")), done(2 + number, NOTHING), 1, 2, number))
    written, _ = import_history(Source.PORCUPINE, files, tmp_path / "run", Choices())
    assert written.operations == 2


def test_a_number_in_two_files_is_that_of_two_clients(tmp_path: Path) -> None:
    """Each line 1 would be operation 0-1, and none of their keys would be judged."""
    files = [tmp_path / name for name in ("one.json", "two.json")]
    for number, file in enumerate(files):
        given = {"Op": "put", "Key": "k", "Value": f"v{number}"}
        file.write_text(text(line(given, {}, 1, 4), line(given | {"Key": "m"}, {}, 5, 9)))
    _, notes = import_history(Source.PORCUPINE, files, tmp_path / "run", Choices())
    history = (tmp_path / "run" / "history" / "imported.jsonl").read_text().splitlines()
    begun = [each for each in map(json.loads, history) if each["type"] == "invoke"]
    assert len({each["op"] for each in begun}) == 4
    assert len({each["process"] for each in begun}) == 2
    said = "clients have the number of one in another file, and get a number of ours"
    assert notes.said[said] == 1

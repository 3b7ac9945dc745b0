"""Ignite's protocol, placement and errors, against what a real node answered.

`recorded_ignite.json` was recorded from one node of Apache Ignite 3.1.0.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from zonequake_target_ignite.client.protocol.errors import CERTAIN, answered, name_of
from zonequake_target_ignite.client.protocol.messages import (
    MAGIC,
    ServerAnswer,
    ServerError,
    answer_of,
    done_of,
    handshake,
    node_of_handshake,
    primaries_of,
    result_of,
    row_of,
    rows,
    table_of,
)
from zonequake_target_ignite.client.protocol.packed import Malformed, Unpacker, packed
from zonequake_target_ignite.client.protocol.placement import key_for_partition, partition_of
from zonequake_target_ignite.client.protocol.statements import create_table, element, quoted, read
from zonequake_target_ignite.client.protocol.tuples import arguments, cells, encoded, row

RECORDED: dict[str, Any] = json.loads(Path(__file__).with_name("recorded_ignite.json").read_text())


def said(name: str) -> ServerAnswer:
    return answer_of(bytes.fromhex(RECORDED["protocol"][name]))


def test_a_handshake_names_the_node() -> None:
    assert node_of_handshake(bytes.fromhex(RECORDED["protocol"]["handshake"])) == "n2"
    assert handshake() == MAGIC + bytes.fromhex("00000007 03000002c40000")


def test_a_row_is_read_and_an_absent_one_is_none() -> None:
    found = result_of(said("select").rest)
    assert (found.rows, found.cursor) == ([["0,1,2,"]], None)
    assert result_of(said("select_absent").rest).rows == []
    rows = [tuple(row) for row in result_of(said("zones").rest).rows]
    assert ("rec", 8) in rows


@pytest.mark.parametrize(
    ("name", "changed"), [("updated", 1), ("unchanged", 0), ("inserted", 1), ("defined", -1)]
)
def test_a_change_says_how_many_rows_it_changed(name: str, changed: int) -> None:
    found = result_of(said(name).rest)
    assert (found.changed, found.rows) == (changed, [])


def test_a_request_for_rows_has_the_form_of_the_protocol() -> None:
    """As Ignite 3.1 reads it: `ClientTupleRequestBase.readAsync`. A set of bits has the type 8."""
    assert rows(21, row(["k"])) == bytes.fromhex("15 c0 01 c70008 c403 00 01 6b")
    both = rows(21, row(["k", "1", None]), row(["k", "2", None]), transaction=7)
    first, second = "c70008 c406 00 01 02 02 6b 31", "c70008 c406 00 01 02 02 6b 32"
    assert both == bytes.fromhex(f"15 07 01 {first} {second}")


def test_answers_about_rows_are_read() -> None:
    held = row(["k", "", b"\x80x"])
    assert row_of(Unpacker(packed(1, held))) == held
    assert cells(held, [15, 15, 16]) == ["k", "", b"\x80x"]
    assert row_of(Unpacker(packed(1, None))) is None
    assert [done_of(Unpacker(packed(1, done))) for done in (True, False)] == [True, False]
    assert table_of(Unpacker(packed(21, '"z"'))) == 21
    assert table_of(Unpacker(packed(None))) is None


def test_a_transaction_and_primary_replicas_are_named() -> None:
    assert said("begun").rest.number() == 1
    assert primaries_of(said("primaries").rest) == ["n2"] * 8


def test_primary_replicas_that_are_not_known_are_none() -> None:
    assert primaries_of(Unpacker(packed(4, False))) is None
    assert primaries_of(Unpacker(packed(2, True, 7, None, "n1"))) == ["", "n1"]


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("duplicate", "IGN-SQL-5 PK unique constraint is violated"),
        ("no_table", "IGN-SQL-4 Failed to validate query"),
        ("timeout", "IGN-SQL-6 Query timeout"),
    ],
)
def test_an_error_says_its_name_and_words(name: str, error: str) -> None:
    found = said(name).error
    assert found is not None
    assert str(answered(found)).startswith(error)


def test_an_error_is_certain_only_before_anything_is_replicated() -> None:
    lock = ServerError(code=0x00070004, kind="K", message="a possible deadlock")
    assert (answered(lock).name, answered(lock).certain) == ("IGN-TX-4", True)


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (0x0001FFFF, "IGN-CMN-65535"),  # seen: "The primary replica await timed out"
        (0x00010005, "IGN-CMN-5"),
        (0x00080003, "IGN-REP-3"),
        (0x00070006, "IGN-TX-6"),
        (0x00070006 | 0x00FF0000, "IGN-255-6"),
    ],
)
def test_what_is_not_known_to_be_certain_is_unknown(code: int, name: str) -> None:
    error = answered(ServerError(code=code, kind="K", message="m"))
    assert (error.name, error.certain) == (name, False)
    assert name_of(code) not in CERTAIN


def test_the_calculated_partition_is_that_of_the_node() -> None:
    rows = result_of(said("placed").rest).rows
    assert len(rows) == 17
    assert [partition_of(str(key), 8) for key, _ in rows] == [number for _, number in rows]


def test_a_key_is_found_for_each_partition() -> None:
    keys = [key_for_partition("probe", number, 8) for number in range(8)]
    assert [partition_of(key, 8) for key in keys] == list(range(8))


@pytest.mark.parametrize("value", ["", "ü", "a" * 300, "b" * 70_000, "\x80", -(1 << 63), 0, 300])
def test_an_argument_is_read_as_it_was_written(value: str | int) -> None:
    kind = 15 if isinstance(value, str) else 5
    assert cells(arguments([value]), [4, 4, kind]) == [kind, 0, value]


def test_a_null_and_a_binary_that_looks_empty_are_told_apart() -> None:
    assert cells(encoded([None]), [15]) == [None]
    assert cells(arguments([b"\x80x"]), [4, 4, 16])[2] == b"\x80x"


@pytest.mark.parametrize("cut", [0, 1, 5, 20])
def test_an_answer_that_is_cut_off_is_malformed(cut: int) -> None:
    whole = bytes.fromhex(RECORDED["protocol"]["select"])
    with pytest.raises(Malformed):
        result_of(answer_of(whole[:cut]).rest)


@pytest.mark.parametrize("row", [b"", b"\x03", b"\x00\xff", b"\x00\x05ab"])
def test_a_row_that_is_cut_off_is_malformed(row: bytes) -> None:
    with pytest.raises(Malformed):
        cells(row, [15])


def test_values_keep_their_kind() -> None:
    assert read(None) is None
    assert read("17") == 17
    assert read(element(17)) == [17]
    assert read(element(17) + element(4)) == [17, 4]
    assert read("rubbish,") == "rubbish,"


def test_a_name_can_end_no_statement() -> None:
    assert quoted('a"; DROP') == '"a""; DROP"'
    assert 'ZONE "z-1"' in create_table("z-1")

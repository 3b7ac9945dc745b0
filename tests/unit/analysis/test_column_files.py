"""Column files say what the lines say, or are not used, and a sentence says why."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
import xxhash

from tests.histories.synthesize import Shape, synthesize
from tests.unit.analysis.judged_lines import judged, operation, written
from tests.unit.analysis.transaction_lines import append, findings_below, read, transaction
from zonequake_analysis.errors import LocationError, RunNotWhole
from zonequake_analysis.inputs.column_files import one_range
from zonequake_analysis.inputs.column_files.command import write_column_files
from zonequake_analysis.inputs.column_files.conversion import column_files, convert
from zonequake_analysis.inputs.column_files.one_range import encoded, name_of, read_range
from zonequake_analysis.inputs.lines import RANGE_BYTES, byte_ranges, kept_lines
from zonequake_analysis.inputs.shapes import CORRUPT
from zonequake_analysis.storage.location import Location
from zonequake_analysis.storage.upload_mark import UploadMark, write_mark

SIZE = 20_000
"""Bytes of a range: a history of some hundred lines has several."""


def converted(run: Path, files: Sequence[Path], size: int = SIZE) -> Mapping[str, Location]:
    (run / "columns").mkdir(exist_ok=True)
    for file in files:
        convert(Location.of(file), Location.of(run / "columns"), range_bytes=size)
    return column_files(Location.of(run))


def unused_of(files: Sequence[Path], found: Mapping[str, Location], size: int = SIZE) -> list[str]:
    """Why the column file of each range is not used; asserts that what is read is what the lines
    say."""
    told = []
    for part in byte_ranges(files, size):
        read = read_range(part, found)
        assert rows(read.kept) == rows(kept_lines(part))
        told.append(read.unused)
    return told


def rows(batches: object) -> pa.Table:
    return pa.Table.from_batches(batches, one_range._WHOLE).combine_chunks()


def history(run: Path, files: int = 2, operations: int = 300) -> list[Path]:
    synthesize(run, Shape(operations=operations, keys=12, partitions=4, files=files, rate=1000))
    return sorted((run / "history").iterdir())


def spoil(file: Path, chance: random.Random) -> None:
    """Changes some bytes, doubles, moves or drops a line, and may tear the last one."""
    content = bytearray(file.read_bytes())
    for _ in range(chance.randrange(4)):
        content[chance.randrange(len(content))] = chance.choice(b'0"{}:,\\ x\n\xff\x00')
    lines = bytes(content).splitlines(keepends=True)
    for _ in range(chance.randrange(3)):
        lines.insert(chance.randrange(len(lines)), chance.choice(lines))
        lines.pop(chance.randrange(len(lines)))
    content = bytearray(b"".join(lines))
    file.write_bytes(content[: len(content) - chance.choice((0, 0, 1, 7))])


SEEDS = [0, 1, pytest.param(2, marks=pytest.mark.long), pytest.param(3, marks=pytest.mark.long)]
"""Of spoilt files; the first spoils nothing."""


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_the_lines_are_both_ways_find_and_write_the_same(
    tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    files = history(tmp_path)
    if seed:
        for file in files:
            spoil(file, chance)
    found = converted(tmp_path, files)
    assert len(found) > 6
    assert set(unused_of(files, found)) == {""}

    by_lines, by_columns = tmp_path / "by-lines", tmp_path / "by-columns"
    assert judged(files, by_columns, size=SIZE, column_files=found) == judged(
        files, by_lines, size=SIZE
    )
    written_by_lines = {file.name: file.read_bytes() for file in by_lines.iterdir()}
    assert written_by_lines == {file.name: file.read_bytes() for file in by_columns.iterdir()}
    assert written_by_lines


def of_transactions() -> list[str]:
    """A history of transactions and single operations, the first of which was seen half."""
    lines = [
        *transaction(1, append("a", 1), read("c"), append("b", 2), type="info", index=None),
        *operation(2, f="read", key="a", value=[1]),
        *operation(3, f="read", key="b", value=None),
    ]
    shown: list[int] = []
    for number in range(4, 90, 3):
        lines += transaction(number, read("c", *shown), append("d", number), append("e", number))
        lines += operation(number + 1, f="append", key="c")
        shown.append(number + 1)
        lines += transaction(number + 2, append("f", number), read("c", *shown), type="fail")
    return lines


@pytest.mark.parametrize("seed", SEEDS)
def test_both_ways_find_the_same_of_transactions(tmp_path: Path, seed: int) -> None:
    lines = of_transactions()
    files = written(tmp_path, lines[:91], lines[91:])
    if seed:
        for file in files:
            spoil(file, random.Random(seed))
    size = 9_000
    found = converted(tmp_path, files, size)
    assert len(found) > 4
    assert set(unused_of(files, found, size)) == {""}

    by_lines, by_columns = tmp_path / "by-lines", tmp_path / "by-columns"
    assert judged(files, by_columns, size=size, column_files=found) == judged(
        files, by_lines, size=size
    )
    written_by_lines = {file.name: file.read_bytes() for file in by_lines.iterdir()}
    assert written_by_lines == {file.name: file.read_bytes() for file in by_columns.iterdir()}
    expected = findings_below(by_lines)
    assert findings_below(by_columns) == expected
    if not seed:
        assert expected.counts == {"half": 1}
        assert expected.judged == 59


def test_columns_of_a_reader_that_knew_no_transactions_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = written(tmp_path, of_transactions())
    with monkeypatch.context() as older:
        older.setattr(one_range, "VERSION", "1")
        found = converted(tmp_path, files, RANGE_BYTES)
    assert unused_of(files, found, RANGE_BYTES) == [
        f"columns/{next(iter(found))} is of version 1, expected 3"
    ]
    judged(files, tmp_path / "ops", column_files=found)
    assert findings_below(tmp_path / "ops").counts == {"half": 1}


def test_an_operation_in_two_pieces_is_one_operation(tmp_path: Path) -> None:
    lines = [line for number in range(1, 60) for line in operation(number)]
    files = written(tmp_path, lines[:51], lines[51:])
    found = converted(tmp_path, files)
    buckets, faults = judged(files, tmp_path / "ops", size=SIZE, column_files=found)
    assert sum(bucket.operations for bucket in buckets) == 59
    assert sum(bucket.cut_off + bucket.orphans for bucket in buckets) == 0
    assert not faults.counts


def test_lines_are_not_parsed_where_columns_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = history(tmp_path)
    found = converted(tmp_path, files)
    monkeypatch.setattr(one_range, "kept_lines", lambda _: pytest.fail("parsed"))
    for part in byte_ranges(files, SIZE):
        assert read_range(part, found).kept


def test_a_column_file_is_that_of_its_lines_whatever_other_files_a_run_has(tmp_path: Path) -> None:
    files = history(tmp_path)
    found = converted(tmp_path, files)
    assert set(unused_of(files[::-1], found)) == {""}
    assert set(unused_of(files[1:], found)) == {""}


@pytest.fixture
def small(tmp_path: Path) -> tuple[list[Path], Location]:
    """A history of one range, and its column file."""
    files = written(tmp_path, [line for number in range(1, 9) for line in operation(number)])
    (file,) = converted(tmp_path, files).values()
    return files, file


@pytest.mark.parametrize("stride", [7, pytest.param(1, marks=pytest.mark.long)])
def test_any_byte_that_is_changed_is_noticed(
    small: tuple[list[Path], Location], monkeypatch: pytest.MonkeyPatch, stride: int
) -> None:
    files, file = small
    monkeypatch.setattr(one_range, "kept_lines", lambda _: iter(()))
    path, whole = Path(file.path), Path(file.path).read_bytes()
    (part,) = byte_ranges(files, SIZE)
    expected = f"columns/{file.name} is damaged, or no column file"
    for at in range(0, len(whole), stride):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
        assert read_range(part, {file.name: file}).unused == expected
    path.write_bytes(whole)
    assert not read_range(part, {file.name: file}).unused


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 300, -17, -16, -1])
def test_a_column_file_that_was_cut_is_noticed(
    small: tuple[list[Path], Location], size: int
) -> None:
    files, file = small
    Path(file.path).write_bytes(Path(file.path).read_bytes()[:size])
    assert unused_of(files, {file.name: file}) == [
        f"columns/{file.name} is damaged, or no column file"
    ]


def signed(content: bytes) -> bytes:
    return content + xxhash.xxh3_128_digest(content)


def stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def test_a_foreign_file_is_noticed(small: tuple[list[Path], Location]) -> None:
    files, file = small
    (part,) = byte_ranges(files, SIZE)
    facts = {
        one_range._VERSION: one_range.VERSION,
        one_range._LINES: one_range._lines_of(part),
    }
    other = pa.table({"op": ["1-1"]})
    for content, why in (
        (stream(other), "is damaged, or no column file"),
        (signed(b""), "is no Arrow stream"),
        (signed(b"PAR1"), "is no Arrow stream"),
        (signed(stream(other)), "is of version none, expected 3"),
        (
            signed(stream(other.replace_schema_metadata(facts))),
            "has other columns than its version",
        ),
    ):
        Path(file.path).write_bytes(content)
        assert unused_of(files, {file.name: file}) == [f"columns/{file.name} {why}"]


def test_a_file_of_another_version_is_noticed(
    small: tuple[list[Path], Location], monkeypatch: pytest.MonkeyPatch
) -> None:
    files, file = small
    monkeypatch.setattr(one_range, "VERSION", "4")
    assert unused_of(files, {file.name: file}) == [
        f"columns/{file.name} is of version 3, expected 4"
    ]


def test_what_the_reader_yields_is_that_of_its_version(tmp_path: Path) -> None:
    """Column files of older readers are used: one that yields something else needs a new version
    in `one_range`, and then the digest here."""
    kinds = ("read", "write", "cas", "append")
    lines = [
        line
        for number in range(1, 40)
        for line in operation(
            number,
            f=kinds[number % 4],
            value=[number, 7] if number % 8 == 0 else number,
            applied=number % 3 == 0,
            found=None if number % 5 else number,
            role=("load", "probe", "final")[number % 3],
            node=f"n{number % 3}",
            read="bounded" if number % 7 == 0 else None,
        )
    ]
    lines += transaction(50, append("a", 1), read("b", 7, 8))
    lines += transaction(51, read("b"), append("c", 2), append("a", 3), type="info", index=None)
    odd = ['{"type":"invoke"', '{"op":7}', '{"op":"a","op":"b"}', lines[4], "[1]", "", " "]
    files = written(tmp_path, lines + odd)
    (part,) = byte_ranges(files)
    found = [row | {CORRUPT: row[CORRUPT] is None} for row in rows(kept_lines(part)).to_pylist()]
    digest = xxhash.xxh3_128_hexdigest(json.dumps(found).encode())
    assert (one_range.VERSION, digest) == ("3", "816f32761cdf97fe81886442863e84c8")


def test_a_file_that_can_not_be_opened_is_noticed(small: tuple[list[Path], Location]) -> None:
    files, file = small
    Path(file.path).unlink()
    assert unused_of(files, {file.name: file}) == [
        f"columns/{file.name} can't be read: No such file or directory"
    ]


@pytest.mark.parametrize("unreachable", [False, True])
def test_a_file_that_its_store_refuses_is_noticed(
    small: tuple[list[Path], Location], monkeypatch: pytest.MonkeyPatch, unreachable: bool
) -> None:
    def refused(place: Location) -> bytes:
        raise LocationError(f"{place}: access denied", unreachable=unreachable)

    files, file = small
    monkeypatch.setattr(Location, "read_bytes", refused)
    if unreachable:
        with pytest.raises(LocationError):
            unused_of(files, {file.name: file})
    else:
        (told,) = set(unused_of(files, {file.name: file})) - {""}
        assert "can't be read" in told
        assert "access denied" in told


def test_lines_that_are_not_those_of_the_columns_are_read_instead(tmp_path: Path) -> None:
    files = history(tmp_path, files=1)
    found = converted(tmp_path, files)
    content = files[0].read_bytes()
    parts = byte_ranges(files, SIZE)
    before = len(parts)

    # The very last byte of a range's last line, which is in the bytes of the next range.
    end = content.index(b"\n", parts[2].stop)
    for at in (0, end - 1, parts[3].start - 1, parts[3].start, len(content) - 2):
        files[0].write_bytes(content[:at] + b"7" + content[at + 1 :])
        told = unused_of(files, found)
        wrong = [number for number, one in enumerate(told) if one]
        assert wrong, at
        assert {told[number].split(" ", 1)[1] for number in wrong} == {"was made of other lines"}
        touched = [n for n, part in enumerate(parts) if part.start - 1 <= at < part.stop]
        assert set(touched) <= set(wrong)

    for changed in (content[:-1], content + content[: content.index(b"\n") + 1]):
        files[0].write_bytes(changed)
        assert [bool(one) for one in unused_of(files, found)[:before]] == [
            number == before - 1 for number in range(before)
        ]


def test_a_line_that_was_torn_where_its_range_ends_counts_when_it_is_whole(tmp_path: Path) -> None:
    lines = [line for number in range(1, 9) for line in operation(number)]
    (file,) = written(tmp_path, lines)
    whole = file.read_bytes()
    size = whole.rindex(b"{") + 1  # the last line begins with the range's last byte
    file.write_bytes(whole[: size + 5])
    found = converted(tmp_path, [file], size)
    file.write_bytes(whole)
    assert unused_of([file], found, size)[0].endswith("was made of other lines")


def test_a_column_file_without_its_lines_adds_nothing(tmp_path: Path) -> None:
    files = history(tmp_path)
    found = converted(tmp_path, files)
    files.pop().unlink()
    assert judged(files, tmp_path / "a", size=SIZE, column_files=found) == judged(
        files, tmp_path / "b", size=SIZE
    )


def test_what_is_not_used_is_counted_and_one_is_named(tmp_path: Path) -> None:
    files = history(tmp_path)
    found = converted(tmp_path, files)
    for file in found.values():
        Path(file.path).write_bytes(b"")
    buckets, faults = judged(files, tmp_path / "ops", size=SIZE, column_files=found)
    facts = buckets[0].facts
    assert facts.unused_files == len(found)
    assert facts.unused == f"columns/{min(found)} is damaged, or no column file"
    assert not faults.counts


def test_a_folder_without_columns_has_no_column_files(tmp_path: Path) -> None:
    assert column_files(Location.of(tmp_path)) == {}
    (tmp_path / "columns").mkdir()
    (tmp_path / "columns" / ".load-0.jsonl.0.arrows.4f").write_text("a draft")
    assert column_files(Location.of(tmp_path)) == {}


def test_the_command_writes_them_for_all_histories_and_deletes_older_ones(tmp_path: Path) -> None:
    files = history(tmp_path, operations=40)
    (tmp_path / "columns").mkdir()
    (tmp_path / "columns" / "gone.jsonl.0.arrows").write_text("of a file that is no more")
    lines_bytes, columns_bytes = write_column_files(Location.of(tmp_path))
    found = column_files(Location.of(tmp_path))
    assert set(found) == {f"{file.name}.0.arrows" for file in files}
    assert lines_bytes == sum(file.stat().st_size for file in files)
    assert columns_bytes == sum(file.size_bytes() for file in found.values())
    assert set(unused_of(files, found, RANGE_BYTES)) == {""}


def test_a_conversion_that_is_killed_leaves_whole_files_alone(tmp_path: Path) -> None:
    files = history(tmp_path, operations=800)
    (tmp_path / "columns").mkdir()
    program = (
        "import sys;from zonequake_analysis.storage.location import Location;"
        "from zonequake_analysis.inputs.column_files.conversion import convert;"
        f"[convert(Location(file), Location(sys.argv[1]), range_bytes={SIZE})"
        " for file in sys.argv[2:]]"
    )
    chance = random.Random(1)
    for _ in range(2):
        child = subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path / "columns"), *map(str, files)]
        )
        before = len(column_files(Location.of(tmp_path)))
        while child.poll() is None and len(column_files(Location.of(tmp_path))) == before:
            time.sleep(0.001)
        time.sleep(chance.random() / 50)
        child.kill()  # which does nothing if it has ended
        child.wait()
        found = column_files(Location.of(tmp_path))
        assert found
        assert set(unused_of(files, found)) == {""}
        next(iter(found.values())).delete()


def test_the_command_writes_nothing_into_a_place_that_a_run_has_claimed(tmp_path: Path) -> None:
    written(tmp_path, operation(1))
    (tmp_path / "columns").mkdir()
    (tmp_path / "columns" / "load-0.jsonl.0.arrows").touch()
    mark = UploadMark(run="r7", host="h", folder="/spool/r7", command="zonequake upload /spool/r7")
    write_mark(Location.of(tmp_path), mark)
    with pytest.raises(RunNotWhole, match="the run r7 is not whole here"):
        write_column_files(Location.of(tmp_path))
    assert len(list((tmp_path / "columns").iterdir())) == 1


def test_lines_that_are_appended_during_the_conversion_are_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [line for number in range(1, 9) for line in operation(number)]
    (file,) = written(tmp_path, lines)
    whole = file.read_bytes()
    size = whole.rindex(b"{") + 1
    file.write_bytes(whole[: size + 5])
    (part, _) = byte_ranges([file], size)

    def grown(one: object) -> object:
        file.write_bytes(whole)
        return kept_lines(one)  # type: ignore[arg-type]

    monkeypatch.setattr(one_range, "kept_lines", grown)
    content = encoded(part)
    (tmp_path / "columns").mkdir()
    place = Location.of(tmp_path / "columns" / name_of(part))
    place.write(content)
    assert read_range(part, {place.name: place}).unused.endswith("was made of other lines")

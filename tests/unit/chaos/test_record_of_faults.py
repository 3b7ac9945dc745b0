"""The record of published faults: what is left to run, what is kept, and what the page says."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import msgspec
import pytest

from benchmarks.record import record, systems
from benchmarks.record.entries import Done, Entry, Next, next_run, read_done, read_entries
from benchmarks.record.page import NOT_RUN, page, picture, witnesses
from benchmarks.record.runs import EVIDENCE, Asked, keep
from zonequake_kube.errors import UsageError

ENTRY = Entry(
    name="etcd-1",
    system="etcd",
    published="https://example.org/issues/1",
    fault="loses writes",
    release="3.5.2",
    control="3.5.3",
    scenario="kill-often",
    checks=["diverged", "lost-writes"],
    limit=3,
)
WITNESS = """lost: 0/0 key r1 (as recorded)
      1.000 –     2.000 s  process 3    m0  write a < b  term 1 index 4
      3.000 –         … s  process 4    m1  read  –"""


def run(seed: int, release: str = "3.5.2", verdict: str = "passed", *violated: str) -> Done:
    return Done(
        name="etcd-1",
        release=release,
        seed=seed,
        verdict=verdict,
        headline="",
        violated=list(violated),
        witness=WITNESS if violated else "",
    )


FOUND = run(2, "3.5.2", "violated", "lost-writes")


def left(*done: Done) -> Next | None:
    return next_run(ENTRY, done)


def test_a_fault_is_looked_for_until_it_is_found_and_then_its_control_as_often() -> None:
    assert left() == Next(release="3.5.2", seed=1)
    assert left(run(1)) == Next(release="3.5.2", seed=2)
    assert left(run(1), FOUND) == Next(release="3.5.3", seed=1)
    assert left(run(1), FOUND, run(1, "3.5.3")) == Next(release="3.5.3", seed=2)
    assert left(run(1), FOUND, run(1, "3.5.3"), run(2, "3.5.3")) is None


def test_a_violation_of_another_check_ends_no_search_and_the_limit_does() -> None:
    other = run(1, "3.5.2", "violated", "sessions")
    assert left(other) == Next(release="3.5.2", seed=2)
    assert left(other, run(2), run(3)) is None, "a control without a fault compares nothing"


def test_a_run_that_was_kept_stays_whatever_is_killed_next(tmp_path: Path) -> None:
    file = tmp_path / "evidence" / "record.jsonl"
    keep(run(1), file)
    with file.open("ab") as torn:
        torn.write(b'{"name":"etcd-1","rel')
    assert read_done(file) == [run(1)]
    keep(FOUND, file)
    assert read_done(file) == [run(1), FOUND]


def test_the_page_says_of_a_row_without_runs_that_it_was_not_run() -> None:
    (row,) = [line for line in page([ENTRY], []).splitlines() if "etcd 3.5.2" in line]
    assert row.count(NOT_RUN) == 2
    assert page([ENTRY], []).splitlines()[2].startswith("**No row has been run yet**")
    assert "No row has been run" not in page([ENTRY], [run(1)])
    assert not any(
        char.isdigit() for char in row.partition("`lost-writes` |")[2].replace("3.5.3", "")
    )


@pytest.mark.parametrize(
    ("done", "said"),
    [
        ([run(1)], "not found in 1 yet, of at most 3 (1 passed)"),
        (
            [run(1), run(2, "3.5.2", "unknown"), run(3)],
            "in vain in 3 (2 passed, 1 unknown) | 3.5.3: not run, as there is nothing to compare |",
        ),
        ([run(1), FOUND], "| 2, by `lost-writes` | 3.5.3: has not been run yet |"),
        ([FOUND, run(2, "3.5.3")], "3.5.3: not violated in 1 (1 passed) | ![etcd-1]"),
        (
            [FOUND, run(2, "3.5.3", "violated", "sessions")],
            "3.5.3: violated in 1 of 1: `sessions`",
        ),
    ],
)
def test_the_page_counts_what_was_run(done: list[Done], said: str) -> None:
    assert said in page([ENTRY], done)


def test_a_witness_is_drawn_with_an_interval_for_each_operation() -> None:
    drawn = picture(WITNESS)
    assert drawn.count("<rect") == 3, "the ground, and two operations"
    assert "write a &lt; b" in drawn
    assert 'width="120.0"' in drawn, "one second of the two from the first begin to the last"
    assert picture("at log index 4: <odd>").count("<rect") == 1
    assert list(witnesses([ENTRY], [FOUND])) == ["etcd-1.svg"]
    assert witnesses([ENTRY], [run(1)]) == {}


def test_a_run_keeps_the_witness_of_a_check_that_is_expected() -> None:
    checks = [
        {"name": name, "verdict": verdict, "witnesses": [f"of {name}"]}
        for name, verdict in (
            ("sessions", "violated"),
            ("lost-writes", "violated"),
            ("windows", "slo-breached"),
        )
    ]
    document = {"verdict": "violated", "headline": "h", "checks": checks}
    done = record.done_of(ENTRY, Next(release="3.5.2", seed=7), document, 1.23)
    assert (done.violated, done.witness) == (["sessions", "lost-writes"], "of lost-writes")


def test_a_link_to_a_number_shows_it_and_another_link_its_last_part() -> None:
    source = msgspec.structs.replace(ENTRY, published="https://example.org/blob/syncobj.py")
    assert "| [#1](https://example.org/issues/1): loses writes |" in page([ENTRY], [])
    assert "| [syncobj.py](https://example.org/blob/syncobj.py): loses" in page([source], [])


def test_a_control_by_patch_is_the_installed_library_but_for_one_place(tmp_path: Path) -> None:
    entry = next(e for e in read_entries(record.LIST.read_text()) if e.system == "pysyncobj")
    assert systems.prepared(entry, entry.release) == systems.Prepared()
    patch = systems.PATCHES / f"{entry.name}.patch"
    folder = systems.changed_library(systems.LIBRARY, patch, tmp_path / "changed")
    package = files(systems.LIBRARY)
    names = {file.name for file in package.iterdir() if file.name.endswith(".py")}
    assert {file.name for file in (folder / systems.LIBRARY).glob("*.py")} == names
    differ = {
        name
        for name in names
        if (folder / systems.LIBRARY / name).read_text() != (package / name).read_text()
    }
    assert differ == {"syncobj.py"}
    changed = (folder / systems.LIBRARY / "syncobj.py").read_text()
    compile(changed, "syncobj.py", "exec")
    assert changed.count("if len(prevEntries) > 1 and newEntries:") == 1
    first = Asked(scenario="s", seed=1, out=tmp_path, target="t", python_path=str(folder))
    assert first.environment["PYTHONPATH"] == str(folder)


def test_a_library_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = msgspec.structs.replace(ENTRY, system="pysyncobj", release="0.3.17")
    monkeypatch.setattr(systems, "version", lambda _: "0.3.16")
    with pytest.raises(UsageError, match=re.escape("found pysyncobj 0.3.16, expected 0.3.17")):
        systems.prepared(entry, "0.3.17")


def test_the_list_is_such_that_each_row_can_be_run_or_says_why_not() -> None:
    entries = read_entries(record.LIST.read_text())
    assert {"etcd-13766", "etcd-14370"} <= {entry.name for entry in entries}
    assert len(entries) >= 4
    for entry in entries:
        why = record.obstacle(entry)
        assert why is None or "power_loss" in why, why


def test_a_list_that_is_wrong_is_refused() -> None:
    rows = [msgspec.to_builtins(ENTRY)] * 2
    with pytest.raises(ValueError, match="'etcd-1' twice"):
        read_entries(msgspec.json.encode(rows).decode())
    with pytest.raises(msgspec.ValidationError, match="beside"):
        read_entries(msgspec.json.encode([rows[0] | {"beside": "sleep"}]).decode())


def test_the_page_in_the_repository_is_what_the_results_say() -> None:
    entries, done = (
        read_entries(record.LIST.read_text()),
        read_done(EVIDENCE / "record.jsonl"),
    )
    assert (EVIDENCE / "record.md").read_text() == page(entries, done)
    for name, content in witnesses(entries, done).items():
        assert (EVIDENCE / name).read_text() == content

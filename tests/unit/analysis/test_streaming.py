"""Files go into their store while they are written, and a store that takes nothing harms nobody."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from zonequake_analysis.errors import LocationError, LocationTaken
from zonequake_analysis.storage import streaming
from zonequake_analysis.storage.location import Location
from zonequake_analysis.storage.streaming import Sent, streamed, unchanged
from zonequake_analysis.storage.upload import give_up, upload, uploaded_at_the_end
from zonequake_analysis.storage.upload_mark import MARK_FILE, UploadMark, write_mark

PATTERNS = ("events.jsonl", "history/*.jsonl")
MARK = UploadMark(run="one-1", host="h", folder="f", command="c")


class Store:
    """A folder in a store's place, which notes what is copied there, and may refuse it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.location = Location.of(folder)
        self.folder = folder
        self.copied: Counter[str] = Counter()
        self.refuses, self.refused = False, 0
        copy = Location.copy_from

        def copy_from(place: Location, file: Path) -> None:
            if self.refuses:
                self.refused += 1
                raise LocationError(f"{place}: the store is too busy")
            self.copied[place.name] += 1
            copy(place, file)

        monkeypatch.setattr(Location, "copy_from", copy_from)
        monkeypatch.setattr(streaming, "PAUSE_S", 0.02)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    (tmp_path / "store").mkdir()
    return Store(tmp_path / "store", monkeypatch)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "spool"
    (made / "history").mkdir(parents=True)
    (made / "events.jsonl").write_text("{}\n")
    (made / "history" / "a.jsonl").write_text("a\n")
    return made


def await_true(holds: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


@contextmanager
def stream(folder: Path, store: Store) -> Iterator[tuple[Sent, list[str]]]:
    sent: Sent = {}
    said: list[str] = []
    with streamed(folder, store.location, PATTERNS, sent=sent, say=said.append):
        yield sent, said


def contents(folder: Path) -> dict[str, str]:
    """Of a folder into which files are copied meanwhile: a draft is gone once it has its name."""
    found = {}
    for file in folder.rglob("*"):
        with suppress(FileNotFoundError, IsADirectoryError):
            found[file.relative_to(folder).as_posix()] = file.read_text()
    return found


def test_a_file_that_grows_is_sent_again_and_one_that_does_not_is_sent_once(
    folder: Path, store: Store
) -> None:
    with stream(folder, store) as (_, said):
        for number in range(3):
            with (folder / "events.jsonl").open("a") as file:
                file.write(f"{number}\n")
            await_true(lambda: contents(store.folder) == contents(folder))
        (folder / "run.yaml").write_text("run: one-1\n")
        (folder / "history" / ".draft.jsonl").write_text("half\n")
        (folder / "history" / "b.jsonl").write_text("b\n")
        await_true(lambda: "history/b.jsonl" in contents(store.folder))
    assert contents(store.folder) == {
        "events.jsonl": "{}\n0\n1\n2\n",
        "history/a.jsonl": "a\n",
        "history/b.jsonl": "b\n",
    }
    assert store.copied["a.jsonl"] == 1
    assert store.copied["events.jsonl"] >= 3
    assert said == []


def test_a_store_that_refuses_is_told_of_once_and_gets_everything_when_it_takes_it(
    folder: Path, store: Store
) -> None:
    store.refuses = True
    with stream(folder, store) as (sent, said):
        await_true(lambda: store.refused >= 3 * len(contents(folder)))
        assert len(said) == 1
        assert "tried again while the run goes on" in said[0]
        assert "the store is too busy" in said[0]
        store.refuses = False
        await_true(lambda: len(said) == 2)
        assert said[1] == f"{store.location} takes files again"
    assert set(sent) == {"events.jsonl", "history/a.jsonl"}
    assert contents(store.folder) == contents(folder)


def test_the_upload_sends_what_is_missing_changed_or_not_whole_and_nothing_else(
    folder: Path, store: Store
) -> None:
    for name in ("b", "c", "d"):
        (folder / "history" / f"{name}.jsonl").write_text(f"{name}\n")
    write_mark(store.location, MARK)  # as a run in progress leaves it
    with stream(folder, store) as (sent, _):
        await_true(lambda: len(sent) == 5)
    store.copied.clear()
    (folder / "history" / "b.jsonl").write_text("changed\n")
    (store.folder / "history" / "c.jsonl").write_text("")  # what an old request left
    (store.folder / "history" / "d.jsonl").unlink()
    (folder / "history" / "new.jsonl").write_text("new\n")
    (folder / "run.yaml").write_text("run: one-1\n")
    uploaded = upload(folder, store.location, MARK, sent)
    assert set(store.copied) == {"b.jsonl", "c.jsonl", "d.jsonl", "new.jsonl", "run.yaml"}
    assert contents(store.folder) == contents(folder)
    assert (uploaded.files, uploaded.sent) == (7, 2)
    assert uploaded.size_bytes == sum(map(len, contents(folder).values()))


def test_an_upload_without_a_stream_takes_nothing_for_sent(folder: Path, store: Store) -> None:
    assert unchanged(folder, store.location, {}) == set()
    uploaded = upload(folder, store.location, MARK)
    assert (uploaded.files, uploaded.sent) == (2, 0)


def test_a_run_that_is_given_up_leaves_nothing_in_its_place(folder: Path, store: Store) -> None:
    write_mark(store.location, MARK)
    with stream(folder, store) as (sent, _):
        await_true(lambda: len(sent) == 2)
    assert MARK_FILE in contents(store.folder)
    give_up(store.location, sent)
    assert contents(store.folder) == {}


def imported(folder: Path) -> None:
    (folder / "history").mkdir(parents=True)
    for name in ("history/imported.jsonl", "run.yaml", "values.json"):
        (folder / name).write_text("{}\n")


@pytest.mark.parametrize("refused", ["values.json", "run.yaml"])
def test_an_import_that_the_store_breaks_off_leaves_nothing_in_its_place(
    store: Store, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    copy = Location.copy_from

    def copy_from(place: Location, file: Path) -> None:
        if place.name == refused:
            raise LocationError(f"{place}: access denied")
        copy(place, file)

    monkeypatch.setattr(Location, "copy_from", copy_from)
    with (
        pytest.raises(LocationError, match="access denied"),
        uploaded_at_the_end(store.location, MARK) as made,
    ):
        imported(made)
    assert contents(store.folder) == {}


def test_an_import_takes_nothing_from_a_run_that_has_its_place_by_then(store: Store) -> None:
    other = UploadMark(run="other", host="h", folder="f", command="c")

    def overtaken() -> None:
        with uploaded_at_the_end(store.location, MARK) as made:
            imported(made)
            write_mark(store.location, other)
            (store.folder / "run.yaml").write_text("run: other\n")

    with pytest.raises(LocationTaken):
        overtaken()
    assert set(contents(store.folder)) == {MARK_FILE, "run.yaml"}

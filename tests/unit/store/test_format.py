"""A data directory of another format is refused with a sentence, and left as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from zonequake_store.errors import LaterFormat, StoreCorrupt
from zonequake_store.settings import settings_from
from zonequake_store.storage.directory import Storage
from zonequake_store.storage.format import FORMAT, check_format


def test_a_directory_without_a_mark_gets_the_present_one(tmp_path: Path) -> None:
    check_format(tmp_path)
    assert (tmp_path / "FORMAT").read_text() == f"{FORMAT}\n"
    check_format(tmp_path)


def test_a_mark_that_a_power_loss_cut_short_is_written_again(tmp_path: Path) -> None:
    (tmp_path / "FORMAT").touch()
    check_format(tmp_path)
    assert (tmp_path / "FORMAT").read_text() == f"{FORMAT}\n"


def test_a_mark_that_cannot_be_written_keeps_no_node_from_starting(tmp_path: Path) -> None:
    check_format(tmp_path / "absent")
    assert not (tmp_path / "absent").exists()


@pytest.mark.parametrize("text", ["one", "-1", "1.5", "²"])
def test_a_mark_that_is_no_number_is_damage(tmp_path: Path, text: str) -> None:
    (tmp_path / "FORMAT").write_text(text)
    with pytest.raises(StoreCorrupt, match="expected a number"):
        check_format(tmp_path)


def test_a_node_does_not_open_what_a_later_release_wrote(tmp_path: Path) -> None:
    (tmp_path / "FORMAT").write_text(f"{FORMAT + 1}\n")
    settings = settings_from({"ZQ_NODE": "a", "ZQ_DATA_DIR": str(tmp_path)})
    with pytest.raises(LaterFormat, match=f"has format {FORMAT + 1}, .* reads up to {FORMAT}: "):
        Storage(settings, fresh_incarnation="x")
    assert {path.name for path in tmp_path.iterdir()} == {"FORMAT", "LOCK"}

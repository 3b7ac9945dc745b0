"""A node whose pods would be evicted for want of disk isn't started, and says so in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from zonequake_cluster import embedded, requirements
from zonequake_cluster.embedded import EmbeddedCluster
from zonequake_cluster.errors import TooLittleDisk
from zonequake_cluster.machine.disk_room import NEAR_BYTES, DiskRoom, disk_room

GIB = 2**30


def room(free_bytes: int) -> DiskRoom:
    return DiskRoom(folder=Path("/state"), free_bytes=free_bytes)


def test_below_the_kubelets_threshold_and_near_it_both_sizes_are_named() -> None:
    assert room(GIB + NEAR_BYTES).problem() is None
    near, below = room(GIB), room(GIB - 1)
    assert (near.is_too_little, below.is_too_little) == (False, True)
    words = (
        "1.0 GiB are free on the file system of /state: below 1.0 GiB the kubelet "
        "{} pods for DiskPressure; free some room, 3.0 GiB are needed"
    )
    assert near.problem() == words.format("soon evicts")
    assert below.problem() == words.format("evicts")


def test_a_folder_that_does_not_exist_yet_is_measured_where_it_will_be(tmp_path: Path) -> None:
    found = disk_room(tmp_path / "not" / "yet")
    assert found.folder == tmp_path
    assert found.free_bytes >= 0


class BegunError(Exception):
    """The node's programs are asked for."""


@pytest.mark.parametrize(
    ("free_bytes", "raised", "said"),
    [(GIB - 1, TooLittleDisk, 0), (2 * GIB, BegunError, 1), (50 * GIB, BegunError, 0)],
)
def test_up_refuses_or_warns_before_it_does_anything(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    free_bytes: int,
    raised: type[Exception],
    said: int,
) -> None:
    def begin(*_: object, **__: object) -> None:
        raise BegunError

    monkeypatch.setattr(requirements, "check", lambda *_: None)
    monkeypatch.setattr(embedded, "disk_room", lambda _: room(free_bytes))
    monkeypatch.setattr(embedded, "ensure_programs", begin)
    lines: list[str] = []
    cluster = EmbeddedCluster("demo", root=tmp_path, say=lines.append)
    with pytest.raises(raised):
        cluster.up()
    assert len(lines) == said
    assert all(line.startswith("warning: 2.0 GiB are free") for line in lines)


def test_a_node_that_runs_is_warned_of_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "disk_room", lambda _: room(GIB - 1))
    lines: list[str] = []
    cluster = EmbeddedCluster("demo", root=tmp_path, say=lines.append)
    cluster._look_at_room(runs=True)
    assert len(lines) == 1

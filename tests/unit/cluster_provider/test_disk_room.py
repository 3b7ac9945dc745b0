"""A node whose pods would be evicted for want of disk isn't started, and says so in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from zonequake_cluster import embedded, requirements
from zonequake_cluster.embedded import EmbeddedCluster
from zonequake_cluster.errors import TooLittleDisk
from zonequake_cluster.host.disk_room import NEAR_BYTES, DiskRoom, disk_room

GIB = 2**30


def room(free_bytes: int) -> DiskRoom:
    return DiskRoom(folder=Path("/state"), free_bytes=free_bytes, total_bytes=200 * GIB)


def test_below_the_kubelets_threshold_and_near_it_both_sizes_are_named() -> None:
    assert room(2 * GIB + NEAR_BYTES).problem() is None
    near, below = room(2 * GIB), room(2 * GIB - 1)
    assert (near.is_too_little, below.is_too_little) == (False, True)
    words = (
        "2.0 GiB are free on the file system of /state: below 2.0 GiB (1 % of it) the kubelet "
        "{} pods for DiskPressure; free some room, 4.0 GiB are needed"
    )
    assert near.problem() == words.format("soon evicts")
    assert below.problem() == words.format("evicts")


def test_a_folder_that_does_not_exist_yet_is_measured_where_it_will_be(tmp_path: Path) -> None:
    found = disk_room(tmp_path / "not" / "yet")
    assert found.folder == tmp_path
    assert 0 <= found.free_bytes <= found.total_bytes


class BegunError(Exception):
    """The node's programs are asked for."""


@pytest.mark.parametrize(
    ("free_bytes", "raised", "said"),
    [(GIB, TooLittleDisk, 0), (3 * GIB, BegunError, 1), (50 * GIB, BegunError, 0)],
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
    assert all(line.startswith("warning: 3.0 GiB are free") for line in lines)


def test_a_node_that_runs_is_warned_of_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "disk_room", lambda _: room(GIB))
    lines: list[str] = []
    cluster = EmbeddedCluster("demo", root=tmp_path, say=lines.append)
    cluster._look_at_room(runs=True)
    assert len(lines) == 1

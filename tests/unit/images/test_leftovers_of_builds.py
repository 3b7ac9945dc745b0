"""What a broken-off build leaves is released: at once, or when the next build begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from zonequake_cluster.images import programs
from zonequake_cluster.images.buildah import Buildah, mounts_below
from zonequake_cluster.images.errors import ProgramFailedError

LINE = "{number} 22 254:0 / {place} rw,relatime shared:1 - ext4 /dev/vda rw\n"


@pytest.fixture
def mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A storage of a build that was killed, and the mounts of this process."""
    folder = tmp_path / "build ah"
    places = ["/", folder, folder / "overlay", folder / "overlay" / "x" / "merged"]
    places += [tmp_path / "build ah 2" / "overlay", Path("/elsewhere")]
    file = tmp_path / "mountinfo"
    file.write_text(
        "".join(
            LINE.format(number=number, place=str(place).replace(" ", r"\040"))
            for number, place in enumerate(places)
        )
    )
    monkeypatch.setattr("zonequake_cluster.images.buildah._MOUNTS", file)
    return folder


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commands of buildah, and of the unmounting."""
    commands: list[str] = []

    def run(command: list[str], **_: object) -> str:
        options = [word for word in command if word.startswith("--root=")]
        commands.append(" ".join(word for word in command if not word.startswith("--r")))
        assert command[0] == "umount" or options
        if "bud" in command:
            raise KeyboardInterrupt
        return ""

    monkeypatch.setattr(programs, "run", run)
    monkeypatch.setattr(programs, "require", str)
    return commands


def test_only_what_is_below_the_folder_is_unmounted_and_the_last_first(mounted: Path) -> None:
    assert mounts_below(mounted) == [
        mounted / "overlay" / "x" / "merged",
        mounted / "overlay",
    ]
    (mounted.parent / "link").symlink_to(mounted)
    assert mounts_below(mounted.parent / "link") == mounts_below(mounted)


RELEASE = ["buildah --storage-driver=overlay rm --all", "umount {0}/overlay/x/merged"]


def released(mounted: Path) -> list[str]:
    return [*(command.format(mounted) for command in RELEASE), f"umount {mounted}/overlay"]


def test_a_build_begins_without_what_a_killed_one_left(mounted: Path, ran: list[str]) -> None:
    with Buildah.without_leftovers(mounted):
        assert ran[1:] == released(mounted)
        ran.clear()
    assert ran == [], "a build that came to its end leaves nothing"


def test_an_interrupted_build_releases_what_it_leaves(mounted: Path, ran: list[str]) -> None:
    def build() -> None:
        with Buildah.without_leftovers(mounted) as buildah:
            ran.clear()
            buildah.build(mounted, dockerfile="Dockerfile", arguments={}, name="x:1")

    with pytest.raises(KeyboardInterrupt):
        build()
    assert ran[1:] == released(mounted)


def test_an_error_of_the_release_hides_no_interrupt(
    mounted: Path, ran: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> str:
        raise ProgramFailedError(["buildah"], 125, "no space left")

    def build() -> None:
        with Buildah.without_leftovers(mounted):
            monkeypatch.setattr(programs, "run", refused)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build()

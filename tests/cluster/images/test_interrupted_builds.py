"""A build that is broken off leaves no mounts that keep its folder from being deleted."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S
from zonequake_cluster.images.buildah import Buildah, mounts_below

pytestmark = pytest.mark.cluster

BUILD = """
import sys
from pathlib import Path
from zonequake_cluster.images.buildah import Buildah
with Buildah.without_leftovers(Path(sys.argv[1])) as buildah:
    buildah.build(Path(sys.argv[2]), dockerfile="Dockerfile", arguments={}, name="localhost/x:1")
"""
CLEAN = Path(__file__).parents[3] / "scripts" / "clean.sh"
SLEEP = Path(shutil.which("sleep") or "/bin/sleep")


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "buildah"
    Buildah(tmp_path / "buildah").release()  # else a failed test leaves mounts


@pytest.fixture
def building(tmp_path: Path, storage: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A build in a session of its own, as of a group of tests, that is in the midst of a step."""
    context = tmp_path / "context"
    needed = subprocess.check_output(["ldd", SLEEP], text=True)
    for file in (str(SLEEP), *re.findall(r"/\S+", needed)):
        target = context / "root" / file[1:]
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, target)
    (context / "Dockerfile").write_text(f'FROM scratch\nCOPY root /\nRUN ["{SLEEP}", "243"]\n')
    process = subprocess.Popen(
        [sys.executable, "-c", BUILD, str(storage), str(context)], start_new_session=True
    )
    deadline_s = time.monotonic() + PATIENCE_S
    while not steps_of(process.pid):
        assert process.poll() is None
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
    yield process
    for pid in (process.pid, *steps_of(process.pid)):
        if Path("/proc", str(pid)).exists():
            os.kill(pid, signal.SIGKILL)
    process.wait()


def steps_of(session: int) -> list[int]:
    """The step's process, by the session that it is in."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            told = (process / "stat").read_text().rpartition(")")[2].split()
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if int(told[3]) == session and words[-2:-1] == [b"243"] and len(words) == 3:
            found.append(int(process.name))
    return found


def is_overlay(storage: Path) -> bool:
    """Whether layers are mounted here, and not copied."""
    return Buildah(storage)._driver == "overlay"


def containers(storage: Path) -> str:
    return Buildah(storage)._run("containers", "--quiet")


def test_an_interrupted_build_unmounts_what_it_mounted(
    building: subprocess.Popen[bytes], storage: Path
) -> None:
    assert bool(mounts_below(storage)) == is_overlay(storage)
    os.killpg(building.pid, signal.SIGINT)  # as scripts/run_tests.py ends a group
    assert building.wait(PATIENCE_S) != 0
    assert mounts_below(storage) == []
    assert containers(storage) == ""
    shutil.rmtree(storage)


def test_what_a_killed_build_left_mounted_the_next_one_unmounts(
    building: subprocess.Popen[bytes], storage: Path
) -> None:
    os.killpg(building.pid, signal.SIGKILL)
    building.wait(PATIENCE_S)
    assert bool(mounts_below(storage)) == is_overlay(storage)
    assert containers(storage) != ""
    with Buildah.without_leftovers(storage):
        assert mounts_below(storage) == []
        assert containers(storage) == ""
    shutil.rmtree(storage)


CLEANED = """
set -eu
mount --bind keep .zonequake/buildah/overlay
mount --bind keep '.zonequake/buildah/overlay/of a layer'
[ "$1" = build ] || mount --bind keep .zonequake/other
bash scripts/clean.sh
"""
"""What `make clean` comes across, mounted for its own processes alone."""


@pytest.mark.parametrize(("mounted", "code"), [("build", 0), ("more", 1)])
def test_a_clean_unmounts_what_a_build_left_and_deletes_nothing_that_is_mounted(
    tmp_path: Path, mounted: str, code: int
) -> None:
    folder = tmp_path / "a checkout"
    for name in ("scripts", "keep/of a layer", ".zonequake/buildah/overlay", ".zonequake/other"):
        (folder / name).mkdir(parents=True)
    shutil.copy2(CLEAN, folder / "scripts")
    (folder / "keep" / "of a layer" / "file").write_text("kept")
    cleaned = subprocess.run(
        ["unshare", "--mount", "bash", "-c", CLEANED, "-", mounted],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert cleaned.returncode == code, cleaned.stderr
    assert (folder / "keep" / "of a layer" / "file").read_text() == "kept"
    assert (folder / ".zonequake").exists() == bool(code)
    assert ("still mounted" in cleaned.stderr) == bool(code)

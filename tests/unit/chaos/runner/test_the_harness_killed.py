"""The harness dies by SIGKILL at steps of a run against the made-up cluster; then another cleans.

The same at every step, on a real node: `tests/cluster/killed_harness`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from zonequake_chaos.commands.clean import clean_run, find_run
from zonequake_ctl.context import ReleasePlace

KILLED = Path(__file__).parents[3] / "cluster" / "killed_harness"
LIMIT_S = 240
OUTAGE = "zonequake.io/outage"


async def killed_at(
    place: ReleasePlace, tmp_path: Path, scenario: str, *moment: str
) -> tuple[Path, str]:
    """A run in a process of its own that dies at the moment; its folder, and its steps."""
    run, notes = tmp_path / "run", tmp_path / "steps"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(KILLED / "mortal.py"), str(notes), *moment, "--", "run"),
        *(str(KILLED / "scenarios" / f"{scenario}.yaml"), "--kubeconfig", str(place.kubeconfig)),
        *("--seed", "1", "--no-analyze", "--out", str(run)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "PYTHONFAULTHANDLER": "1"},
    )
    ending = asyncio.ensure_future(process.communicate())
    ended, _ = await asyncio.wait([ending], timeout=LIMIT_S)
    if not ended:
        process.send_signal(signal.SIGABRT)  # it prints where it stands
    said, _ = await ending
    assert ended, f"not within {LIMIT_S} s:\n{said.decode()}"
    steps = notes.read_text() if notes.exists() else said.decode()
    assert not moment or process.returncode == -9, said.decode()
    return run, steps


async def test_a_run_notes_every_kind_of_step(
    cluster: Any, place: ReleasePlace, tmp_path: Path
) -> None:
    _, steps = await killed_at(place, tmp_path, "mortal-loss")
    kinds = {line.split("\t")[1] for line in steps.splitlines()}
    for kind in ("journal write", "journal fsync", "file run.yaml", "POST configmaps"):
        assert kind in kinds
    assert {kind for kind in kinds if kind.startswith("exec pods/zq-default-")}
    assert {kind for kind in kinds if kind.startswith("DELETE pods/zq-default-")}


async def test_a_watch_that_begins_late_misses_no_change(
    cluster: Any, place: ReleasePlace, tmp_path: Path
) -> None:
    """Else a run on a busy machine waits for partitions that were there before its watch was."""
    cluster.watches_begin_after_s = 0.5
    _, steps = await killed_at(place, tmp_path, "mortal-loss", "DELETE pods/.*", "1", "after")
    assert steps.endswith("died\n")


STEPS = [
    ("POST configmaps", 1),
    ("PATCH distributionzones/mortal", 1),
    ("journal write", 1),
    ("journal fsync", 3),
    ("PATCH statefulsets/zq-load-mortal", 1),
    ("PATCH pods/zq-default-.", 1),
    ("DELETE pods/zq-default-.", 1),
    ("exec pods/zq-default-./exec 9", 1),
    ("DELETE distributionzones/mortal", 1),
]
WAYS = ("after", "before")
"""Each step is killed in both; in one of them each day, in turns."""


@pytest.mark.parametrize(
    ("pattern", "number", "way"),
    [
        pytest.param(*step, way, marks=[pytest.mark.long] if (row + column) % 2 else [])
        for row, step in enumerate(STEPS)
        for column, way in enumerate(WAYS)
    ],
)
async def test_after_a_kill_another_process_proves_that_nothing_is_left(
    pattern: str,
    number: int,
    way: str,
    cluster: Any,
    place: ReleasePlace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("zonequake_chaos.cleanup.run_lock.ANSWER_S", 1.0)
    run, steps = await killed_at(place, tmp_path, "mortal-loss", pattern, str(number), way)
    assert steps.endswith("died\n")
    proof = await clean_run(find_run(str(run), lambda: place))
    assert proof.problems == []
    assert cluster.zone is None
    assert not cluster.stopped
    assert all(OUTAGE not in (p["metadata"].get("finalizers") or []) for p in cluster.pods.values())
    assert [name for _, name in cluster.objects if name not in ("zq-harness", "mortal")] == []

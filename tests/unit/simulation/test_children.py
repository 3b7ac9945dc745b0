"""No process of a simulation outlives the one that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from zonequake_simulation.children import children, in_order

COMMAND = (
    sys.executable,
    *("-c", "from zonequake_chaos.commands.cli import main; main()"),
    *("simulate", "--seeds", "0..99999999", "--jobs", "2", "--each"),
)


@pytest.fixture
def hunt() -> Iterator[subprocess.Popen[str]]:
    """A hunt with two children, in a session of its own, that has told its first seed."""
    # What a signal does to a process outlives its exec: a background job's children ignore SIGINT.
    with subprocess.Popen(
        COMMAND,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("seed 0: ")
        while len(session_of(process.pid)) < 3:
            assert process.poll() is None
            time.sleep(0.02)
        yield process
        if process.poll() is None:
            process.kill()


def session_of(leader: int) -> list[int]:
    """The processes of a session that have not ended."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[3]) == leader and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


def all_ended(leader: int, *, within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while session_of(leader):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


@pytest.mark.parametrize(
    "killed", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.long)]
)
def test_children_end_with_a_parent_that_is_killed(
    hunt: subprocess.Popen[str], killed: signal.Signals
) -> None:
    hunt.send_signal(killed)
    assert hunt.wait(60) == -killed
    assert all_ended(hunt.pid, within_s=60), session_of(hunt.pid)


def test_an_interrupt_ends_all_at_once_with_one_line(hunt: subprocess.Popen[str]) -> None:
    os.killpg(hunt.pid, signal.SIGINT)  # as a terminal does, to all its processes
    _, told = hunt.communicate(timeout=120)
    assert hunt.returncode == 255
    assert "interrupted after" in told
    assert "Traceback" not in told
    assert all_ended(hunt.pid, within_s=60), session_of(hunt.pid)


def test_results_come_in_the_order_of_their_tasks_and_tasks_are_taken_as_it_goes() -> None:
    taken: list[int] = []

    def tasks() -> Iterator[int]:
        for number in range(40):
            taken.append(number)
            yield number

    with children(2) as pool:
        results = in_order(pool, abs, tasks(), count=2)
        assert next(results) == 0
        assert len(taken) < 20
        assert list(results) == list(range(1, 40))


def test_an_error_leaves_the_block_without_waiting_for_what_still_runs() -> None:
    def give_up() -> None:
        with children(1) as pool:
            pool.submit(time.sleep, 600)
            pool.submit(abs, 1)
            raise ZeroDivisionError

    begun_s = time.monotonic()
    with pytest.raises(ZeroDivisionError):
        give_up()
    assert time.monotonic() - begun_s < 60

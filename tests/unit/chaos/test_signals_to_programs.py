"""The command that signals what is under test, run for real on this machine's processes."""

from __future__ import annotations

import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from zonequake_chaos.faults.signals import _SIGNAL

PROGRAM = f"zq-somebodys-program-{secrets.token_hex(4)}"
"""The signal goes to all of the name on this machine, those of another session of tests too."""


@pytest.fixture
def program() -> Iterator[subprocess.Popen[bytes]]:
    """A process whose command's name, behind a folder's, is PROGRAM."""
    with subprocess.Popen(["bash", "-c", f"exec -a /opt/bin/{PROGRAM} sleep 600"]) as process:
        command = Path(f"/proc/{process.pid}/cmdline")
        while not command.read_bytes().startswith(b"/opt"):
            assert process.poll() is None
        yield process
        process.kill()


def signalled(number: int, *programs: str, said: str = "now\n") -> list[int]:
    done = subprocess.run(
        [sys.executable, "-c", _SIGNAL, str(number), *programs],
        input=said,
        capture_output=True,
        text=True,
        check=bool(said),
    )
    ready, *met = done.stdout.split()
    assert ready == "ready"
    return [int(line) for line in met]


def test_a_signal_reaches_the_processes_of_that_name_and_no_others(
    program: subprocess.Popen[bytes],
) -> None:
    assert signalled(15, "zq-somebody") == []
    assert program.poll() is None
    assert signalled(15, PROGRAM) == [program.pid]
    assert program.wait(timeout=60) == -15


def test_nothing_is_signalled_if_the_caller_is_gone_before_the_word(
    program: subprocess.Popen[bytes],
) -> None:
    assert signalled(15, PROGRAM, said="") == []
    assert program.poll() is None

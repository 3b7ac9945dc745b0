"""Runs the programs of the build; keeps their output for the error message."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence

from zonequake_cluster.images.errors import ProgramFailedError, ProgramMissingError


def require(program: str, *, package: str | None = None) -> str:
    """Returns the program's path. Raises ProgramMissingError with the Debian package's name."""
    found = shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if found is None:
        raise ProgramMissingError(program, package or program)
    return found


def run(command: Sequence[str], *, environment: Mapping[str, str] | None = None) -> str:
    """Runs a program to its end and returns its standard output.

    Raises ProgramFailedError with its last lines, ProgramMissingError if it is not there.
    """
    require(command[0])
    done = subprocess.run(
        command,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ProgramFailedError(command, done.returncode, done.stdout + done.stderr)
    return done.stdout

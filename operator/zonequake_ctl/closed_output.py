"""Ends a command whose output is no longer read, as after `head`, with the code of SIGPIPE.

Python ignores the signal and raises BrokenPipeError instead. rich and typer end the process with 1
for it, which is the code of a violation, and for a connection in the network that broke, too.
"""

from __future__ import annotations

import functools
import io
import os
import signal
import sys
from collections.abc import Callable
from typing import Any, NoReturn

CLOSED_EXIT_CODE = 128 + signal.SIGPIPE
"""What a shell reports for a program that died of SIGPIPE: 141."""


class OutputClosed(BaseException):
    """The output is no longer read. Ends a command like an interrupt: what it started is
    stopped on the way, and no handler of errors takes it for one.
    """


class _Output(io.FileIO):
    def write(self, data: object, /) -> int:
        try:
            return super().write(data)  # type: ignore[arg-type]
        except BrokenPipeError as error:
            raise OutputClosed from error


def ends_with_its_reader(main: Callable[[], NoReturn]) -> Callable[[], NoReturn]:
    """Gives a program's `main` outputs that end it with 141 once they are no longer read."""

    @functools.wraps(main)
    def call() -> NoReturn:
        out, errors = sys.stdout, sys.stderr
        if out is not sys.__stdout__ or not (
            isinstance(out, io.TextIOWrapper) and isinstance(errors, io.TextIOWrapper)
        ):  # a test's, or closed from the start
            main()
        try:
            sys.stdout, sys.stderr = _told_of(out), _told_of(errors)
            try:
                main()
            finally:
                sys.stdout.flush()
        except OutputClosed:
            nowhere = os.open(os.devnull, os.O_WRONLY)  # for what is still buffered
            for number in (1, 2):
                os.dup2(nowhere, number)
            sys.exit(CLOSED_EXIT_CODE)

    return call


def _told_of(stream: io.TextIOWrapper[Any]) -> io.TextIOWrapper[Any]:
    stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(_Output(stream.fileno(), "w", closefd=False)),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )

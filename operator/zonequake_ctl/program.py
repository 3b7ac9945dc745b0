"""Runs an installed program's commands to the end: its errors in words, each with its exit code."""

from __future__ import annotations

import sys
import traceback
from typing import NoReturn

import typer
from rich.console import Console
from typer.exceptions import TyperException

from zonequake_ctl.options import wrong_words
from zonequake_kube.errors import USAGE_EXIT_CODE, ChaosError, UsageError

_TYPERS_INTERRUPT = 130
"""The code that typer returns for Ctrl-C instead of raising KeyboardInterrupt."""


def run_program(app: typer.Typer, *, failed: int, name: str | None = None) -> NoReturn:
    """Runs the command that the process's arguments name, and exits with its code.

    The code is 254 for a usage error, and `failed` for every other error and for Ctrl-C. `name`:
    the program's name in its usage; None: the name of the file that was called.
    """
    errors = Console(stderr=True, soft_wrap=True)  # a path can be copied, a caret stays in place
    try:
        code = typer.main.get_command(app).main(prog_name=name, standalone_mode=False)
    except TyperException as error:
        errors.print(wrong_words(error), style="red", markup=False)
        sys.exit(USAGE_EXIT_CODE)
    except ChaosError as error:
        errors.print(str(error), style="red", markup=False)
        sys.exit(USAGE_EXIT_CODE if isinstance(error, UsageError) else failed)
    except Exception:  # noqa: BLE001 - Python's own exit code for it would be that of a violation
        traceback.print_exc()
        sys.exit(failed)
    if code == _TYPERS_INTERRUPT:
        errors.print("interrupted; what was started is stopped", style="red")
        sys.exit(failed)
    sys.exit(code if isinstance(code, int) else 0)

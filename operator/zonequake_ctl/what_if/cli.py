"""`zonequake what-if FILE`: one JSON line for each instant at which anything changed.

Exit codes as everywhere: 0 answered, 254 the file can't be read, 255 the rules never came to rest.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from zonequake_ctl.errors import WhatIfError
from zonequake_ctl.what_if.explain import because
from zonequake_ctl.what_if.lines import line
from zonequake_ctl.what_if.reading.fields import read
from zonequake_ctl.what_if.reading.question import Question
from zonequake_ctl.what_if.timeline import run
from zonequake_kube.errors import unreadable

app = typer.Typer(name="what-if", add_completion=False)


@app.command(epilog="Example: zonequake what-if loss.yaml --explain")
def what_if(
    file: Annotated[Path, typer.Argument(help="What-if file (docs/what-if.md); - is stdin.")],
    explain: Annotated[
        bool, typer.Option("--explain", help="Name the rule for each change.")
    ] = False,
) -> None:
    """Show what the operator would do for the events of a file, without a cluster."""
    for step in run(_read(file), tell=lambda words: typer.echo(words, err=True)):
        shown = line(step.cause, step.state, step.actions)
        if explain:
            shown["because"] = because(step)
        sys.stdout.buffer.write(msgspec.json.encode(shown) + b"\n")
    sys.stdout.flush()


def _text(file: Path) -> str:
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise WhatIfError(
            f"{file} can't be read: {unreadable(error)}, expected a what-if file"
        ) from error


def _read(file: Path) -> Question:
    """Raises WhatIfError with the file's name."""
    text = _text(file)
    if not text.strip():
        raise WhatIfError(f"{file} is empty, expected a what-if file (docs/what-if.md)")
    try:
        return read(text)
    except WhatIfError as error:
        raise WhatIfError(f"{file}: {error}") from error

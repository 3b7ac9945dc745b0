"""`zonequake what-if FILE`: one JSON line for each instant at which anything changed.

Exit codes as everywhere: 0 answered, 254 the file can't be read, 255 the rules never came to rest.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from zonequake_ctl.what_if.explain import because
from zonequake_ctl.what_if.lines import line
from zonequake_ctl.what_if.reading.fields import read
from zonequake_ctl.what_if.timeline import run
from zonequake_kube.errors import WhatIfError

app = typer.Typer(name="what-if", add_completion=False)


@app.command()
def what_if(
    file: Annotated[Path, typer.Argument(help="A what-if file (docs/what-if.md), - for stdin.")],
    explain: Annotated[
        bool, typer.Option("--explain", help="Add the rule behind each change.")
    ] = False,
) -> None:
    """What would the operator do? Its rules over a file, in virtual time, without a cluster."""
    for step in run(read(_text(file))):
        shown = line(step.cause, step.state, step.actions)
        if explain:
            shown["because"] = because(step)
        sys.stdout.buffer.write(msgspec.json.encode(shown) + b"\n")
    sys.stdout.flush()


def _text(file: Path) -> str:
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise WhatIfError(f"{file}: {error}, expected a what-if file") from error

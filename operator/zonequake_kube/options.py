"""Options of the commands that work on a cluster; `place.find_place` makes a place of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Kubeconfig = Annotated[
    Path | None,
    typer.Option("--kubeconfig", help="Else the embedded cluster's; $KUBECONFIG with --context."),
]
Context = Annotated[
    str | None, typer.Option("--context", help="A context of the kubeconfig: any cluster.")
]
Namespace = Annotated[str, typer.Option("--namespace", "-n", help="Where the release lives.")]
Release = Annotated[str, typer.Option("--release", help="The Helm release.")]

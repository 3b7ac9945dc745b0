"""Options of the commands that work on a cluster; `place.find_place` makes a place of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Kubeconfig = Annotated[
    Path | None,
    typer.Option("--kubeconfig", help="Default: the embedded cluster's; $KUBECONFIG if --context."),
]
Context = Annotated[str | None, typer.Option("--context", help="Context of the kubeconfig to use.")]
Namespace = Annotated[str, typer.Option("--namespace", "-n", help="Namespace of the release.")]
Release = Annotated[str, typer.Option("--release", help="Name of the Helm release.")]

"""`zonequake images build | list`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from zonequake_cluster.images.build import build_all, planned_images
from zonequake_cluster.own_files import find_own_files
from zonequake_kube.errors import HarnessError

app = typer.Typer(help="Build and list container images, without Docker.", no_args_is_help=True)

_EXIT_HARNESS_FAILED = 255
_console = Console(highlight=False, soft_wrap=True)


@app.command(epilog="Example: zonequake images build")
def build(
    agent: Annotated[
        bool, typer.Option("--agent", help="Build the fault agent's image too (docs/agent.md).")
    ] = False,
) -> None:
    """Build every image whose sources changed; print names and archives."""
    try:
        built = build_all(progress=_console.print, also=["agent"] if agent else [])
    except HarnessError as error:
        _fail(error)
    for image in built.values():
        _console.print(f"{image.ref}  {image.archive}")


@app.command("list", epilog="Example: zonequake images list")
def list_images() -> None:
    """List the images of the present sources, and whether each is built."""
    try:
        planned = planned_images(find_own_files())
    except HarnessError as error:
        _fail(error)
    for image in planned.values():
        state = "built" if image.archive.exists() else "not built"
        _console.print(f"{image.ref}  {state}  {image.archive}")


def _fail(error: HarnessError) -> None:
    Console(stderr=True, highlight=False, soft_wrap=True).print(f"error: {error}", markup=False)
    raise typer.Exit(_EXIT_HARNESS_FAILED)


if __name__ == "__main__":
    app()

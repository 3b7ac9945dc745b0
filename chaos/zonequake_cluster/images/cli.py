"""`zonequake images build | list | push | etcd | ignite`."""

from __future__ import annotations

import shutil
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from zonequake_cluster.images.build import build_all, planned_images, push_all
from zonequake_cluster.images.etcd import build_etcd_release
from zonequake_cluster.images.ignite import build_ignite_release
from zonequake_cluster.own_files import find_own_files
from zonequake_kube.errors import HARNESS_EXIT_CODE, USAGE_EXIT_CODE, HarnessError, UsageError

app = typer.Typer(
    add_completion=False,
    help="Build and list container images, without Docker.",
    epilog="Example: zonequake images build",
    no_args_is_help=True,
)

_console = Console(highlight=False, soft_wrap=True)


@app.command(epilog="Example: zonequake images build")
def build(
    agent: Annotated[
        bool, typer.Option("--agent", help="Build the fault agent's image too (docs/agent.md).")
    ] = False,
    analysis: Annotated[
        bool,
        typer.Option(
            "--analysis",
            help="Build the image of the analysis too (docs/how-to/analyze-in-the-cluster.md).",
        ),
    ] = False,
) -> None:
    """Build every image whose sources changed; print names and archives."""
    asked_for = {"agent": agent, "analysis": analysis}
    try:
        built = build_all(
            progress=_console.print, also=[name for name, asked in asked_for.items() if asked]
        )
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


@app.command(epilog="Example: zonequake images push registry.example/zonequake")
def push(
    repository: Annotated[
        str, typer.Argument(help="Registry and path; the images' names are added to it.")
    ],
    tag: Annotated[
        str | None, typer.Option("--tag", help="Default: the version of this program.")
    ] = None,
    bills: Annotated[
        Path | None,
        typer.Option("--bills", help="Folder for the bills of materials (CycloneDX)."),
    ] = None,
    plain_http: Annotated[
        bool, typer.Option("--plain-http", help="For a registry without TLS.")
    ] = False,
) -> None:
    """Build our images and push them to a registry; print their names."""
    tag = tag or version("zonequake")
    try:
        pushed = push_all(repository, tag=tag, plain_http=plain_http, progress=_console.print)
    except HarnessError as error:
        _fail(error)
    for name, image in pushed.items():
        _console.print(f"{repository}/{name}:{tag}")
        if bills is not None:
            bills.mkdir(parents=True, exist_ok=True)
            shutil.copy2(image.bill, bills / f"{name}.cdx.json")


@app.command(epilog="Example: zonequake images etcd 3.5.2")
def etcd(
    release: Annotated[
        str,
        typer.Argument(
            help="A release of etcd from 3.5.0 on; with its failpoints as 3.5.2+failpoints."
        ),
    ],
) -> None:
    """Build a release of etcd from the Go proxy, as an image; print its name and archive."""
    try:
        built = build_etcd_release(release, progress=_console.print)
    except (HarnessError, UsageError) as error:
        _fail(error)
    _console.print(f"{built.ref}  {built.archive}")


@app.command(epilog="Example: zonequake images ignite 3.1.0")
def ignite(
    release: Annotated[str, typer.Argument(help="A release of Apache Ignite 3: 3.1.0.")],
) -> None:
    """Build a release of Apache Ignite from Maven Central, as an image; print name and archive."""
    try:
        built = build_ignite_release(release, progress=_console.print)
    except (HarnessError, UsageError) as error:
        _fail(error)
    _console.print(f"{built.ref}  {built.archive}")


def _fail(error: HarnessError | UsageError) -> None:
    Console(stderr=True, highlight=False, soft_wrap=True).print(f"error: {error}", markup=False)
    raise typer.Exit(USAGE_EXIT_CODE if isinstance(error, UsageError) else HARNESS_EXIT_CODE)


if __name__ == "__main__":
    app()

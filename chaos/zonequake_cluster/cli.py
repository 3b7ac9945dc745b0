"""`zonequake cluster up | down | status | kubeconfig | limited-volumes`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from zonequake_cluster.choice import choose_cluster
from zonequake_cluster.embedded import EmbeddedCluster
from zonequake_cluster.host.limited_volumes import SMALLEST_MEBIBYTES, STORAGE_CLASS
from zonequake_cluster.provider import ClusterStatus
from zonequake_kube.errors import HarnessError, UsageError

EXIT_NOT_RUNNING = 1
EXIT_USAGE = 254
EXIT_HARNESS_FAILED = 255

app = typer.Typer(
    help="The Kubernetes cluster to run on: an embedded node, or any other's.",
    no_args_is_help=True,
)
_console = Console(highlight=False, soft_wrap=True)
_errors = Console(stderr=True, highlight=False, soft_wrap=True)

Name = Annotated[
    str | None,
    typer.Option("--name", help="Embedded cluster's name; the checkout has one of its own."),
]
Context = Annotated[
    str | None, typer.Option("--context", help="Use this context of a kubeconfig instead.")
]
Kubeconfig = Annotated[
    Path | None,
    typer.Option("--kubeconfig", help="File of the context; default as with kubectl."),
]


@app.command()
def up(name: Name = None, context: Context = None, kubeconfig: Kubeconfig = None) -> None:
    """Starts the embedded node, or checks that the other cluster can be used."""
    with _reporting():
        cluster = choose_cluster(name, context, kubeconfig, say=_say)
        cluster.up()
        _say(f"kubeconfig: {cluster.kubeconfig}")


@app.command()
def down(name: Name = None, context: Context = None, kubeconfig: Kubeconfig = None) -> None:
    """Ends the embedded node and removes all that belongs to it."""
    with _reporting():
        cluster = choose_cluster(name, context, kubeconfig, say=_say)
        cluster.down()
        if cluster.embedded:
            _say(f"cluster {cluster.name} is gone")


@app.command()
def status(name: Name = None, context: Context = None, kubeconfig: Kubeconfig = None) -> None:
    """Says what runs, since when, and where the logs are; ends with 1 if it isn't ready."""
    with _reporting():
        found = choose_cluster(name, context, kubeconfig, say=_say).status()
    _show(found)
    if not found.ready:
        raise typer.Exit(EXIT_NOT_RUNNING)


@app.command()
def kubeconfig(name: Name = None) -> None:
    """Prints the path of the embedded cluster's kubeconfig, for KUBECONFIG=$(…)."""
    with _reporting():
        path = choose_cluster(name, None, None, say=_say).kubeconfig
        if not path.is_file():
            raise HarnessError("the cluster does not run: start it with `zonequake cluster up`")
    typer.echo(path)


@app.command("limited-volumes")
def limited_volumes(
    name: Name = None,
    count: Annotated[int, typer.Option(min=1, max=20, help="How many there shall be.")] = 3,
    mebibytes: Annotated[
        int, typer.Option(min=SMALLEST_MEBIBYTES, max=65_536, help="Size of each new one.")
    ] = 192,
) -> None:
    """Adds volumes of the storage class `limited`, whose size the kernel enforces."""
    with _reporting():
        EmbeddedCluster(name, say=_say).limit_volumes(count=count, mebibytes=mebibytes)
        _say(f"{count} volumes of storage class {STORAGE_CLASS}, new ones of {mebibytes} MiB")


def _show(found: ClusterStatus) -> None:
    _say(f"cluster {found.name}: {found.detail}")
    if found.since_unix_ns is not None:
        _say(f"since {_moment(found.since_unix_ns)}")
    if found.memory_bytes is not None:
        _say(f"memory of its components: {found.memory_bytes / 2**20:.0f} MiB")
    if found.logs is not None:
        _say(f"logs: {found.logs}")
    if found.components:
        table = Table("component", "process", "since", "restarts", box=None)
        for each in found.components:
            table.add_row(
                each.name,
                str(each.pid) if each.pid else "not running",
                _moment(each.since_unix_ns) if each.since_unix_ns else "never started",
                str(each.restarts),
            )
        _console.print(table)


def _moment(unix_ns: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(unix_ns / 1e9))


def _say(text: str) -> None:
    _console.print(text, markup=False)


@contextmanager
def _reporting() -> Iterator[None]:
    try:
        yield
    except UsageError as error:
        _errors.print(f"error: {error}", markup=False)
        raise typer.Exit(EXIT_USAGE) from error
    except HarnessError as error:
        _errors.print(f"error: {error}", markup=False)
        raise typer.Exit(EXIT_HARNESS_FAILED) from error


if __name__ == "__main__":
    app()

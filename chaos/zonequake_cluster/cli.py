"""`zonequake cluster up | down | status | kubeconfig | load | limited-volumes`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from zonequake_cluster.choice import choose_cluster
from zonequake_cluster.embedded import EmbeddedCluster
from zonequake_cluster.machine.limited_volumes import SMALLEST_MEBIBYTES, STORAGE_CLASS
from zonequake_cluster.provider import Cluster, ClusterStatus
from zonequake_kube.errors import HARNESS_EXIT_CODE, USAGE_EXIT_CODE, HarnessError, UsageError
from zonequake_kube.options import context_option, expanded, kubeconfig_option

EXIT_NOT_RUNNING = 1

app = typer.Typer(
    add_completion=False,
    help="Start, stop and show a cluster: an embedded node, or a context.",
    epilog="Example: zonequake cluster up",
    no_args_is_help=True,
)
_console = Console(highlight=False, soft_wrap=True)
_errors = Console(stderr=True, highlight=False, soft_wrap=True)

ClusterName = Annotated[
    str | None,
    typer.Option("--name", help="Name of the embedded cluster. Default: one per clone or user."),
]
Context = Annotated[str | None, context_option("Use this context instead of the embedded cluster.")]
Kubeconfig = Annotated[
    Path | None, kubeconfig_option("Kubeconfig of the context. Default: as for kubectl.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """Names an embedded cluster, or another one by its context."""

    name: ClusterName = None
    context: Context = None
    kubeconfig: Kubeconfig = None

    def choose(self) -> Cluster:
        """Finds the cluster. Raises UsageError."""
        return choose_cluster(self.name, self.context, self.kubeconfig, say=_say)


@app.command(epilog="Example: zonequake cluster up")
@expanded
def up(where: ClusterOptions) -> None:
    """Start the embedded node, or check that another cluster can be used."""
    with _reporting():
        cluster = where.choose()
        cluster.up()
        _say(f"kubeconfig: {cluster.kubeconfig}")


@app.command(epilog="Example: zonequake cluster down")
@expanded
def down(where: ClusterOptions) -> None:
    """Stop the embedded node and remove its files."""
    with _reporting():
        cluster = where.choose()
        cluster.down()
        if cluster.embedded:
            _say(f"cluster {cluster.name} is gone")


@app.command(epilog="Example: zonequake cluster status")
@expanded
def status(where: ClusterOptions) -> None:
    """Show what runs, since when, and where the logs are; exit code 1 if not ready."""
    with _reporting():
        found = where.choose().status()
    _show(found)
    if not found.ready:
        raise typer.Exit(EXIT_NOT_RUNNING)


@app.command(epilog="Example: export KUBECONFIG=$(zonequake cluster kubeconfig)")
def kubeconfig(name: ClusterName = None) -> None:
    """Print the path of the embedded cluster's kubeconfig."""
    with _reporting():
        path = choose_cluster(name, None, None, say=_say).kubeconfig
        if not path.is_file():
            raise HarnessError("the cluster does not run: start it with `zonequake cluster up`")
    typer.echo(path)


@app.command(epilog="Example: zonequake cluster load store.tar")
def load(
    archives: Annotated[
        list[Path], typer.Argument(help="OCI or Docker archives, as of `docker save`.")
    ],
    name: ClusterName = None,
) -> None:
    """Load images into the embedded cluster; print the names by which pods get them."""
    with _reporting():
        for archive in archives:
            if not archive.is_file():
                raise UsageError(
                    f"found no archive {archive}: expected a file as `docker save` writes"
                )
        cluster = EmbeddedCluster(name, say=_say)
        for archive in archives:
            _say(f"loaded {cluster.load_image(archive)}")


@app.command(
    "limited-volumes", epilog="Example: zonequake cluster limited-volumes --count 3 --mebibytes 192"
)
def limited_volumes(
    name: ClusterName = None,
    count: Annotated[int, typer.Option(min=1, max=20, help="Number of volumes.")] = 3,
    mebibytes: Annotated[
        int,
        typer.Option(min=SMALLEST_MEBIBYTES, max=65_536, help="Size of each new volume, in MiB."),
    ] = 192,
) -> None:
    """Add volumes of the storage class `limited`, whose size the kernel enforces."""
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
        raise typer.Exit(USAGE_EXIT_CODE) from error
    except HarnessError as error:
        _errors.print(f"error: {error}", markup=False)
        raise typer.Exit(HARNESS_EXIT_CODE) from error


if __name__ == "__main__":
    app()

"""`kubectl zq`: kubectl runs the program kubectl-zq that it finds on the PATH."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from zonequake_ctl.closed_output import ends_with_its_reader
from zonequake_ctl.context import ReleasePlace
from zonequake_ctl.program import run_program
from zonequake_ctl.zq.look import find_current
from zonequake_ctl.zq.status import run_status
from zonequake_kube.errors import UsageError
from zonequake_kube.options import context_option, expanded, kubeconfig_option

FAILED_EXIT_CODE = 1

app = typer.Typer(
    name="kubectl-zq",
    help="Show zones, forecast the effect of a change, pause and resume rebalances.",
    epilog="Example: kubectl zq status",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    add_completion=False,
    pretty_exceptions_enable=False,
)
console = Console(highlight=False)

Kubeconfig = Annotated[Path | None, kubeconfig_option("Default: $KUBECONFIG.")]
Context = Annotated[str | None, context_option("Default: the current context.")]
Namespace = Annotated[
    str | None, typer.Option("--namespace", "-n", help="Default: the namespace of the context.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentOptions:
    """Names a namespace, by default the one that kubectl would use."""

    kubeconfig: Kubeconfig = None
    context: Context = None
    namespace: Namespace = None

    def place(self) -> ReleasePlace:
        """Finds the namespace. Raises UsageError."""
        return find_current(
            kubeconfig=self.kubeconfig, context=self.context, namespace=self.namespace
        )


ZoneName = Annotated[str, typer.Argument(metavar="ZONE", help="Name of a DistributionZone.")]
MaybeZone = Annotated[
    str | None,
    typer.Argument(metavar="[ZONE]", help="Name of a zone. Default: all zones of the namespace."),
]


@app.command(epilog="Example: kubectl zq status orders --watch")
@expanded
def status(
    zone: MaybeZone = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Refresh every 2 s.")] = False,
    *,
    where: CurrentOptions,
) -> None:
    """Show each zone: nodes, timers, partitions by state, moves, risks and their reasons."""
    run_status(where.place(), zone, watch=watch)


@app.command(epilog="Example: kubectl zq plan orders --set replicas=5")
@expanded
def plan(
    zone: MaybeZone = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Manifest of the zone as it would be.")
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", help="Set FIELD=VALUE, or remove with FIELD=; repeatable."),
    ] = None,
    show_all: Annotated[
        bool, typer.Option("--all", help="Show all partitions, not the first twelve.")
    ] = False,
    *,
    where: CurrentOptions,
) -> None:
    """Forecast a change: which partitions would move, where to, how many bytes."""
    from zonequake_ctl.zq.planning import answer, wish_of_settings, wishes_of_file

    if file is not None and (zone is not None or setting):
        raise UsageError("give either a file with -f, or a zone, with --set for each field")
    if file is None and zone is None:
        raise UsageError("give a file with -f, or a zone, with --set for each field that changes")
    if file is not None:
        wishes = wishes_of_file(file)
    else:
        assert zone is not None
        wishes = [wish_of_settings(zone, setting or [])]
    place = where.place()

    async def ask() -> None:
        async with await place.connect() as kube:
            for wish in wishes:
                console.print(await answer(kube, wish, show_all=show_all))

    asyncio.run(ask())


@app.command(epilog="Example: kubectl zq pause orders")
@expanded
def pause(zone: ZoneName, where: CurrentOptions) -> None:
    """Pause a zone: no partition moves and no timer fires; reads and writes go on."""
    asyncio.run(_set_paused(where.place(), zone, paused=True))


@app.command(epilog="Example: kubectl zq resume orders")
@expanded
def resume(zone: ZoneName, where: CurrentOptions) -> None:
    """Resume a paused zone."""
    asyncio.run(_set_paused(where.place(), zone, paused=False))


async def _set_paused(place: ReleasePlace, zone: str, *, paused: bool) -> None:
    from zonequake_ctl.zq.pausing import set_paused

    async with await place.connect() as kube:
        console.print(await set_paused(kube, zone, paused=paused))


@app.command(epilog="Example: kubectl zq report --out report.zip")
@expanded
def report(
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Default: zonequake-report-<time>.zip.")
    ] = None,
    *,
    where: CurrentOptions,
) -> None:
    """Write a zip file for support: resources, node reports, logs, metrics."""
    from zonequake_ctl.zq.support_report import write_report

    place = where.place()
    path = out or Path(f"zonequake-report-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.zip")

    async def pack() -> list[str]:
        async with await place.connect() as kube:
            return await write_report(kube, path)

    try:
        missing = asyncio.run(pack())
    except OSError as error:
        raise UsageError(f"{path} can't be written: {error}") from error
    for line in missing:
        console.print(f"missing: {line}", style="yellow", markup=False)
    console.print(
        f"{path}: it holds no keys, values or secrets of yours; check it before you send it"
    )


@ends_with_its_reader
def main() -> NoReturn:
    """Entry point: 0, 1 if the work could not be done, 254 for a usage error."""
    run_program(app, failed=FAILED_EXIT_CODE, name="kubectl zq")


if __name__ == "__main__":
    main()

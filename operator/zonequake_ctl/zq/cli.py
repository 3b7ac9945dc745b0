"""`kubectl zq`: kubectl runs the program kubectl-zq that it finds on the PATH."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text
from typer.exceptions import TyperException

from zonequake_ctl.context import Place
from zonequake_ctl.zq.findings import duration_text
from zonequake_ctl.zq.look import find_current, look
from zonequake_ctl.zq.screen import screen
from zonequake_ctl.zq.sight import Sight, narrowed
from zonequake_kube.errors import USAGE_EXIT_CODE, ChaosError, ClusterError, UsageError

FAILED_EXIT_CODE = 1
WATCH_PERIOD_S = 2.0

app = typer.Typer(
    name="kubectl-zq",
    help="Zones of zonequake: how they are, what a change would do, and how to hold it back.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    add_completion=False,
    pretty_exceptions_enable=False,
)
console = Console(highlight=False)

Kubeconfig = Annotated[Path | None, typer.Option("--kubeconfig", help="Else $KUBECONFIG.")]
Context = Annotated[str | None, typer.Option("--context", help="Else the current one.")]
Namespace = Annotated[
    str | None, typer.Option("--namespace", "-n", help="Else the one of the context.")
]
ZoneName = Annotated[str, typer.Argument(metavar="ZONE", help="A DistributionZone's name.")]
MaybeZone = Annotated[
    str | None, typer.Argument(metavar="[ZONE]", help="One zone; else all of the namespace.")
]


@app.command()
def status(
    zone: MaybeZone = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Again every 2 s.")] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = None,
) -> None:
    """One screen per zone: nodes, timers, partitions by state, what moves, what is at risk, why."""
    place = find_current(kubeconfig=kubeconfig, context=context, namespace=namespace)
    if watch:
        asyncio.run(_watch(place, zone))
    else:
        console.print(screen(asyncio.run(_see(place, zone))))


async def _see(place: Place, zone: str | None) -> Sight:
    async with await place.connect() as kube:
        return chosen(await look(kube), zone)


async def _watch(place: Place, zone: str | None) -> None:
    async with await place.connect() as kube:
        shown = screen(chosen(await look(kube), zone))
        seen_s = time.monotonic()
        with Live(shown, console=console, screen=True, auto_refresh=False) as live:
            while True:
                await asyncio.sleep(WATCH_PERIOD_S)
                try:
                    shown = screen(chosen(await look(kube), zone))
                    seen_s = time.monotonic()
                    live.update(shown, refresh=True)
                except ClusterError as error:  # whoever watches an incident stays at the screen
                    live.update(
                        Group(_stale(error, time.monotonic() - seen_s), shown), refresh=True
                    )


def _stale(error: ClusterError, age_s: float) -> Text:
    return Text(f"As it was {duration_text(age_s)} ago, since then: {error}\n", style="bold red")


def chosen(sight: Sight, zone: str | None) -> Sight:
    """All zones, or the named one. Raises UsageError if there is no such zone."""
    return sight if zone is None else narrowed(sight, zone)


@app.command()
def plan(
    zone: MaybeZone = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="A manifest with the zone as wanted.")
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", help="FIELD=VALUE over the present spec, FIELD= without it; again."),
    ] = None,
    show_all: Annotated[bool, typer.Option("--all", help="Every partition, not a dozen.")] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = None,
) -> None:
    """Before a change: which partitions would move, where to, how many bytes. Changes nothing."""
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
    place = find_current(kubeconfig=kubeconfig, context=context, namespace=namespace)

    async def ask() -> None:
        async with await place.connect() as kube:
            for wish in wishes:
                console.print(await answer(kube, wish, show_all=show_all))

    asyncio.run(ask())


@app.command()
def pause(
    zone: ZoneName,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = None,
) -> None:
    """Hold a zone as it is: nothing moves, no timer fires. It is served as before."""
    place = find_current(kubeconfig=kubeconfig, context=context, namespace=namespace)
    asyncio.run(_set_paused(place, zone, paused=True))


@app.command()
def resume(
    zone: ZoneName,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = None,
) -> None:
    """End a pause."""
    place = find_current(kubeconfig=kubeconfig, context=context, namespace=namespace)
    asyncio.run(_set_paused(place, zone, paused=False))


async def _set_paused(place: Place, zone: str, *, paused: bool) -> None:
    from zonequake_ctl.zq.pausing import set_paused

    async with await place.connect() as kube:
        console.print(await set_paused(kube, zone, paused=paused))


@app.command()
def report(
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Else zonequake-report-<time>.zip here.")
    ] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = None,
) -> None:
    """Pack all that support needs into one zip file: resources, node reports, logs, metrics."""
    from zonequake_ctl.zq.support_report import write_report

    place = find_current(kubeconfig=kubeconfig, context=context, namespace=namespace)
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
    console.print(f"{path}: it holds no keys, values or secrets of yours; look before you send it")


def main() -> None:
    """Entry point: 0, 1 if the cluster didn't let us, 254 for wrong words."""
    errors = Console(stderr=True)
    try:
        code = typer.main.get_command(app).main(prog_name="kubectl zq", standalone_mode=False)
    except TyperException as error:
        errors.print(error.format_message(), style="red", markup=False)
        sys.exit(USAGE_EXIT_CODE)
    except UsageError as error:
        errors.print(str(error), style="red", markup=False)
        sys.exit(USAGE_EXIT_CODE)
    except ChaosError as error:
        errors.print(str(error), style="red", markup=False)
        sys.exit(FAILED_EXIT_CODE)
    except KeyboardInterrupt:
        sys.exit(0)
    sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()

"""`zonequake reset`: gives up a lost majority by hand (document `high-availability`, "manual
partition disaster recovery"; design §3, hole 7).

Shows the proof, asks, writes the request into the zone, and waits for the operator, which judges it
by the same rules as its own resets: it refuses while a majority or its leader may be alive. If no
node that is there holds the newest data, it shows which data a reset to each of the others would
give up, and asks for one of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated

import typer
from rich.console import Console

from zonequake_ctl.context import ReleasePlace
from zonequake_ctl.options import UserOptions
from zonequake_ctl.reset_by_hand import (
    proofs_of,
    refusal,
    request,
    requests_for,
    to_reset,
    told,
    wait,
)
from zonequake_ctl.zq.screens.findings import partitions_text
from zonequake_kube.client import Kube
from zonequake_kube.errors import UsageError
from zonequake_kube.options import expanded
from zonequake_operator.resources.model import ResetRequest

REFUSED, UNFINISHED = 1, 2

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
console = Console(highlight=False, soft_wrap=True)


@app.command(epilog="Example: zonequake reset orders --dry-run")
@expanded
def reset(
    zone: Annotated[str, typer.Argument(help="Name of the DistributionZone.")],
    partitions: Annotated[
        list[int] | None, typer.Argument(help="Default: all that have lost their majority.")
    ] = None,
    survivor: Annotated[
        str | None,
        typer.Option(
            "--survivor", help="Node to continue with. Default: the one with the newest data."
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask for confirmation.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the proof; change nothing.")
    ] = False,
    wait_s: Annotated[float, typer.Option("--wait", help="Seconds to wait for the operator.")] = 60,
    *,
    where: UserOptions,
) -> None:
    """Reset partitions that lost their majority: continue from what is left of their data."""
    place = where.place()
    code = asyncio.run(
        _reset(
            place, zone, partitions or [], named=survivor, yes=yes, dry_run=dry_run, wait_s=wait_s
        )
    )
    raise typer.Exit(code)


async def _reset(
    place: ReleasePlace,
    name: str,
    chosen: list[int],
    *,
    named: str | None,
    yes: bool,
    dry_run: bool,
    wait_s: float,
) -> int:
    async with await place.connect() as kube:
        uid, found = await proofs_of(kube, name, chosen, named)
        refused = refusal(name, found, chosen)
        proofs = to_reset(found, chosen)
        console.print("\n".join(refused or told(proofs)), markup=False)
        if refused:
            return REFUSED
        if dry_run:
            return 0
        if not yes and not _confirmed(len(proofs)):
            console.print("nothing was reset")
            return REFUSED
        requests = requests_for(proofs)
        await request(kube, name, uid, requests)
        return await _wait(kube, name, uid, requests, wait_s)


def _confirmed(count: int) -> bool:
    which = "1 partition" if count == 1 else f"{count} partitions"
    try:
        return typer.confirm(f"Give up what only the others have of {which}?", default=False)
    except typer.Abort:
        raise UsageError(
            "found no answer, expected y or n, so nothing was reset: "
            "give --yes to skip the question"
        ) from None


async def _wait(
    kube: Kube, name: str, uid: str, requests: Mapping[int, ResetRequest], wait_s: float
) -> int:
    outcome = await wait(kube, name, uid, requests, wait_s)
    if outcome.open:
        text = f"not carried out yet: {partitions_text(outcome.open)}."
        console.print(" ".join([text, *outcome.said]), markup=False)
        return UNFINISHED
    if outcome.lapsed:
        which = partitions_text(outcome.lapsed)
        were = "was" if len(outcome.lapsed) == 1 else "were"
        console.print(f"{which} {were} not reset: the assignments changed meanwhile; ask again")
        return REFUSED
    console.print(f"{partitions_text(requests)} {'was' if len(requests) == 1 else 'were'} reset")
    return 0

"""Shows the screen of each zone, once or continuously: `kubectl zq status`, `zonequake status`."""

from __future__ import annotations

import asyncio
import contextlib
import time

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from zonequake_ctl.context import ReleasePlace
from zonequake_ctl.zq.look import look
from zonequake_ctl.zq.screens.findings import duration_text
from zonequake_ctl.zq.screens.namespace_view import NamespaceView, narrowed
from zonequake_ctl.zq.screens.screen import screen
from zonequake_kube.client import Kube
from zonequake_kube.errors import ClusterError

WATCH_PERIOD_S = 2.0
console = Console(highlight=False)


def run_status(place: ReleasePlace, zone: str | None, *, watch: bool) -> None:
    """Shows the zones as `show_status` does, for a command: Ctrl-C ends a watch."""
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(show_status(place, zone, watch=watch))


async def show_status(place: ReleasePlace, zone: str | None, *, watch: bool) -> None:
    """Shows all zones of `place`, or the named one. Raises ClusterError, UsageError."""
    async with await place.connect() as kube:
        shown = screen(await _see(kube, zone))
        if watch:
            await _watch(kube, zone, shown)
        else:
            console.print(shown)


async def _see(kube: Kube, zone: str | None) -> NamespaceView:
    view = await look(kube)
    return view if zone is None else narrowed(view, zone)


async def _watch(kube: Kube, zone: str | None, shown: RenderableType) -> None:
    seen_s = time.monotonic()
    with Live(shown, console=console, screen=True, auto_refresh=False) as live:
        while True:
            await asyncio.sleep(WATCH_PERIOD_S)
            try:
                shown = screen(await _see(kube, zone))
                seen_s = time.monotonic()
                live.update(shown, refresh=True)
            except ClusterError as error:  # keeps running: an incident may be watched
                live.update(Group(_stale(error, time.monotonic() - seen_s), shown), refresh=True)


def _stale(error: ClusterError, age_s: float) -> Text:
    return Text(f"As it was {duration_text(age_s)} ago, since then: {error}\n", style="bold red")

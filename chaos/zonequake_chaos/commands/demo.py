"""`zonequake demo`: from an empty machine to a verdict, with the time of each step.

    cluster up → images → load → install → run kill-during-catchup → analysis → down

Steps whose work is already done are quick. The demo stops everything that it started, even if a
step fails; a cluster that was up before stays up.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Iterator

import uvloop
from rich.console import Console
from rich.table import Table

from zonequake_analysis.verdict import EXIT_CODES, Verdict
from zonequake_chaos.commands.run import RunOptions, judge_run, run_once, summarize
from zonequake_cluster.images.build import build_all
from zonequake_ctl.context import DEFAULT_NAMESPACE, DEFAULT_RELEASE, find_place
from zonequake_ctl.release.install import install_release


class StageTimes:
    """Prints each step as it begins, its duration, and a summary at the end."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._started_s = time.monotonic()
        self._rows: list[tuple[str, float]] = []

    @contextlib.contextmanager
    def step(self, title: str) -> Iterator[None]:
        self._console.rule(f"[bold]{title}", align="left")
        # Called each time, because a run installs its own handlers and removes them again.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        started_s = time.monotonic()
        try:
            yield
        finally:
            took_s = time.monotonic() - started_s
            self._rows.append((title, took_s))
            self._console.print(f"{title}: {took_s:.1f} s", style="dim")

    def table(self) -> Table:
        table = Table("step", "seconds", title="Times", title_justify="left")
        for title, took_s in self._rows:
            table.add_row(title, f"{took_s:.1f}")
        table.add_row("all", f"{time.monotonic() - self._started_s:.1f}", style="bold")
        return table


def run_demo(options: RunOptions, console: Console, *, keep: bool) -> Verdict:
    """Runs all steps. Raises ChaosError if one fails."""
    from zonequake_cluster.embedded import EmbeddedCluster

    timed = StageTimes(console)
    cluster = EmbeddedCluster()
    was_up = cluster.kubeconfig.is_file()
    try:
        with timed.step("Cluster"):
            cluster.up()
        with timed.step("Images"):
            built = build_all(progress=console.print)
            present = set(cluster.images())
            for image in built.values():
                if image.ref not in present:
                    console.print(f"loading {image.ref}")
                    cluster.load_image(image.archive)
        place = find_place(
            kubeconfig=None, context=None, namespace=DEFAULT_NAMESPACE, release=DEFAULT_RELEASE
        )
        with timed.step("Install"):
            refs = {name: image.ref for name, image in built.items()}
            asyncio.run(install_release(place, images=refs))
        with timed.step(f"Run {options.scenario}"):
            folder, report = uvloop.run(run_once(options, place, console))
        with timed.step("Analysis"):
            ended = judge_run(options, folder, report, console)
    finally:
        if not keep and not was_up:
            with timed.step("Cluster down"):
                cluster.down()
    console.print(timed.table())
    verdict = summarize([ended], console)
    console.print(f"exit code {EXIT_CODES[verdict]}")
    return verdict

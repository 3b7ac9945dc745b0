"""Runs in which a silence of a vantage may hide a longer window than any that is known. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from zonequake_analysis.first_few import first_few
from zonequake_analysis.many_runs.measured_run import MeasuredRun
from zonequake_analysis.many_runs.quantities import WINDOW, Estimate

_MOST_NAMED = 5


def at_worst(runs: Sequence[MeasuredRun]) -> list[Estimate]:
    """Returns the longest window of each run, as long as a silence may hide one."""
    return [
        replace(run.estimates[WINDOW], value=run.hidden_window_ms, high=run.hidden_window_ms)
        if run.hidden_window_ms
        else run.estimates[WINDOW]
        for run in runs
        if WINDOW in run.estimates
    ]


def for_certain(runs: Sequence[MeasuredRun]) -> list[Estimate]:
    """Returns the longest window of each run in which none can hide a longer one."""
    return [
        run.estimates[WINDOW]
        for run in runs
        if WINDOW in run.estimates and not run.hidden_window_ms
    ]


def left_out(runs: Sequence[MeasuredRun], side: str) -> list[str]:
    """Returns a sentence on the runs whose longest window isn't known, if there are any."""
    hidden = [run.run for run in runs if run.hidden_window_ms]
    if not hidden:
        return []
    return [
        f"the longest window of {len(hidden)} of {len(runs)} runs of the {side} is left out, as "
        "silences of their probes may hide a longer one: "
        + first_few(hidden, _MOST_NAMED, separator=", ")
    ]

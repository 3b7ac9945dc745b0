"""`zonequake run`, once or `--repeat` times, with its reports for a pipeline.

The requested files are written in any case, even if a run fails before its first step: a pipeline
must not mistake a run that never began for one without problems.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import uvloop
from rich.console import Console

from zonequake_analysis.errors import LocationError
from zonequake_analysis.judgement import verdict_json
from zonequake_analysis.judgement.junit import render_junit
from zonequake_analysis.judgement.pull_request import append_summary, render_summary
from zonequake_analysis.judgement.write_reports import write_together
from zonequake_analysis.verdict import EXIT_CODES, Kind, Verdict, worst
from zonequake_chaos.commands.run import (
    JudgeLocation,
    RunEnd,
    RunOptions,
    judge_run,
    planned,
    replay_command,
    run_once,
    seed_of,
    summarize,
)
from zonequake_ctl.context import ReleasePlace
from zonequake_kube.errors import USAGE_EXIT_CODE, HarnessError, UsageError, in_words


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedRuns:
    """A series of runs: their number, and the files to report them in.

    `junit` is overwritten, `summary` is appended to. With `repeat` above 1 each run has its own
    folder `seed-<seed>` in `options.out` or `options.store`, which holds the reports of all runs.
    """

    repeat: int = 1
    fail_fast: bool = False
    junit: Path | None = None
    summary: Path | None = None


@dataclass(slots=True)
class _Results:
    """The results of the runs so far; `failure` is the error that ended the series."""

    ended: list[RunEnd] = field(default_factory=list)
    told: list[verdict_json.ReportedRun] = field(default_factory=list)
    failure: BaseException | None = None


def run_series(
    options: RunOptions, series: RepeatedRuns, find: Callable[[], ReleasePlace], console: Console
) -> Verdict:
    """Runs until all are done, one is interrupted or can't begin, or (`fail_fast`) one fails.

    Returns the worst verdict. Raises the error that kept the first run from ending, after reporting
    it.
    """
    walked = _Results()
    try:
        _walk(options, series, find, console, walked)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - raised below, once it was reported
        walked.failure = error
    _tell(options, series, walked, console)
    if walked.failure is not None and not walked.ended:
        raise walked.failure
    if walked.failure is not None:
        console.print(in_words(walked.failure), style="red", markup=False)
    verdict = summarize(walked.ended, console)
    if walked.failure is not None:
        verdict = worst([verdict, Verdict.HARNESS_FAILED])
    if series.repeat > 1:
        made = f"{len(walked.ended)} of {series.repeat} runs"
        console.print(f"{made} ended: {verdict.value} (exit code {EXIT_CODES[verdict]})")
    return verdict


def _walk(
    options: RunOptions,
    series: RepeatedRuns,
    find: Callable[[], ReleasePlace],
    console: Console,
    walked: _Results,
) -> None:
    current = replace(options, seed=seed_of(options))
    try:
        if series.repeat < 1:
            raise UsageError(f"--repeat {series.repeat}: expected 1 or more")
        planned(options)
        place = find()
        for number, one in enumerate(each(current, series.repeat), 1):
            current = one
            if series.repeat > 1:
                title = f"Run {number} of {series.repeat}, seed {one.seed}"
                console.rule(f"[bold]{title}", align="left")
            folder, report = uvloop.run(run_once(current, place, console))
            # A run restores the handlers, and an analysis that SIGTERM kills would report nothing.
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            judge = _judge_in_cluster(current, place, console)
            ended, told = _told_of(current, judge_run(current, folder, report, console, judge))
            walked.ended.append(ended)
            walked.told += told
            failed = ended.verdict is not Verdict.PASSED
            if report.interrupted or (failed and series.fail_fast):
                return
    except (Exception, KeyboardInterrupt) as error:
        walked.told.append(broken(current, error))
        raise


def _judge_in_cluster(
    options: RunOptions, place: ReleasePlace, console: Console
) -> JudgeLocation | None:
    if not options.in_cluster:
        return None
    from zonequake_chaos.analysis_pods.launch import InCluster, judge_in_cluster

    where = InCluster(release=place, secret=options.store_secret)
    say = partial(console.print, markup=False, highlight=False)
    return lambda run: judge_in_cluster(run, where, say)


def _told_of(options: RunOptions, ended: RunEnd) -> tuple[RunEnd, list[verdict_json.ReportedRun]]:
    """Returns the end of a run with its report entries: its own, and one for each failure of the
    store that was to take it. Raises RunFolderError."""
    if ended.not_told:
        why = "; ".join(filter(None, (ended.not_told, ended.not_stored)))
        return ended, [broken(options, HarnessError(why))]
    try:
        document = verdict_json.read_document(ended.folder)
    except LocationError as error:
        verdict = worst([ended.verdict, Verdict.HARNESS_FAILED])
        return replace(ended, verdict=verdict), [broken(options, HarnessError(str(error)))]
    told = [verdict_json.ReportedRun(document=document, folder=str(ended.folder))]
    if ended.not_stored:
        told.append(broken(options, HarnessError(ended.not_stored)))
    return ended, told


def each(options: RunOptions, repeat: int) -> list[RunOptions]:
    """Returns the options of each run: its seed is that of the run before plus 1."""
    if repeat == 1:
        return [options]
    first = seed_of(options)
    seeds = range(first, first + repeat)
    return [
        replace(
            options,
            seed=seed,
            out=None if options.out is None else options.out / f"seed-{seed}",
            store=None if options.store is None else options.store / f"seed-{seed}",
        )
        for seed in seeds
    ]


def broken(options: RunOptions, error: BaseException) -> verdict_json.ReportedRun:
    """Returns the report entry of a run that did not end."""
    seed = seed_of(options)
    words = "interrupted" if isinstance(error, KeyboardInterrupt) else in_words(error)
    check = verdict_json.CheckEntry(
        name="harness",
        kind=Kind.HARNESS,
        verdict=Verdict.HARNESS_FAILED,
        summary=words,
        violations=1,
        checked=1,
    )
    name = Path(options.scenario).stem
    facts = verdict_json.RunFacts(
        run="", scenario=name, seed=str(seed), replay=replay_command(options, seed)
    )
    told = verdict_json.without_analysis([check], facts)
    code = USAGE_EXIT_CODE if isinstance(error, UsageError) else EXIT_CODES[Verdict.HARNESS_FAILED]
    return verdict_json.ReportedRun(document=verdict_json.with_exit_code(told, code))


def _tell(options: RunOptions, series: RepeatedRuns, walked: _Results, console: Console) -> None:
    """Writes the requested reports; in `options.out` only those that no run has written there."""
    out = options.store or options.out
    try:
        if out is not None and not (out / "run.yaml").exists():
            write_together(walked.told, out, asked=series.repeat)
    except LocationError as error:
        console.print(f"no report of all runs can be written: {error}", style="red", markup=False)
    if series.junit is not None:
        series.junit.parent.mkdir(parents=True, exist_ok=True)
        series.junit.write_bytes(render_junit(walked.told))
    if series.summary is not None:
        series.summary.parent.mkdir(parents=True, exist_ok=True)
        append_summary(series.summary, render_summary(walked.told, asked=series.repeat))

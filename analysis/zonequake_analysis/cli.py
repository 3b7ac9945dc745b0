"""`zonequake analyze RUN`: judges a run folder and writes its report."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import typer

from zonequake_analysis.cluster.options import wrong_option
from zonequake_analysis.command_errors import sentence_of
from zonequake_analysis.ended_early import EndedEarly
from zonequake_analysis.errors import FolderHeld, LocationError, MetricsThere, RunNotWhole
from zonequake_analysis.inputs.completeness import RecordedRun
from zonequake_analysis.inputs.prometheus.live_server import LiveServer
from zonequake_analysis.judgement.judge import judge_run
from zonequake_analysis.judgement.one_analysis import AnalysisLock, tell_broken_off
from zonequake_analysis.metrics.live_samples import check_no_metrics, check_serves
from zonequake_analysis.pods.last_line import last_line
from zonequake_analysis.report import write_report
from zonequake_analysis.run_argument import (
    OF_A_RUN,
    Archives,
    DriverHost,
    Master,
    Prometheus,
    PrometheusMatch,
    Remote,
    RunPlace,
    live_server,
    remote_or_environment,
)
from zonequake_analysis.spark_pass.class_archive import ArchivedRun, keep_at_exit
from zonequake_analysis.spark_pass.executor_deaths import ended_if_executors_die
from zonequake_analysis.spark_pass.session import build_session
from zonequake_analysis.spark_pass.settings import LOCAL, is_local, size_of
from zonequake_analysis.storage.location import Location
from zonequake_analysis.storage.upload_mark import MARK_FILE, check_whole
from zonequake_analysis.text.untrusted_text import one_line
from zonequake_analysis.verdict import EXIT_CODES, USAGE_EXIT_CODE, Verdict

app = typer.Typer(help="Analyze run folders.", add_completion=False)


def judge_folder(
    run: Path | str | Location | RecordedRun,
    master: str | None = None,
    remote: str | None = None,
    driver_host: str | None = None,
    archives: Path | None = None,
    lock: AnalysisLock | None = None,
    prometheus: LiveServer | None = None,
) -> Verdict:
    """Judges `run` and writes verdict, report and tables into it.

    `run`: a folder, or the URI of one (docs/storage.md). `master`: a Spark
    master instead of `local[*]`; `remote`: a Spark Connect server; `driver_host`: the address at
    which executors find this process; `archives`: their Python, a file of `zonequake
    executor-archive`; `lock`: the caller's lock of the run, to tell of an analysis that breaks
    off; `prometheus`: a live server to read the metrics of a run from that has none. Raises
    AnalysisError for a folder that can't be judged at all, FolderHeld if another analysis may hold
    it, MetricsThere if the run has metrics besides `prometheus`.
    """
    record = RecordedRun.of(run)
    run = record.location
    run.check_reachable()
    check_whole(run)
    if prometheus is not None:
        check_no_metrics(run)
    history_bytes = record.histories.size_bytes
    with ExitStack() as at_end:
        lock = lock or at_end.enter_context(AnalysisLock(run))
        lock.take()
        _ = record.description  # its errors are reported before Spark starts
        if prometheus is not None and remote is None and is_local(master or LOCAL):
            check_serves(prometheus)  # elsewhere executors may reach what this process doesn't
        kind = ArchivedRun.of(has_metrics=bool(prometheus or record.metrics_bytes))
        spark = build_session(
            size=size_of(history_bytes),
            master=master,
            remote=remote,
            driver_host=driver_host,
            archives=archives,
            recorded=kind,
        )
        with ended_if_executors_die(spark):
            judgement = judge_run(
                spark, record, progress=partial(_step, lock), prometheus=prometheus
            )
        write_report(run, judgement, told=partial(_say, run), check=lock.check)
        judgement.ingested.forget_ops()
        keep_at_exit(kind)
    for check in judgement.checks:
        if check.verdict is not Verdict.PASSED:
            _say(run, f"{check.verdict}: {check.name}: {check.summary}")
    print(last_line(run, judgement.verdict), file=sys.stderr)  # noqa: T201
    return judgement.verdict


def analyze(
    run: Path | str | Location | RecordedRun,
    master: str | None = None,
    remote: str | None = None,
    driver_host: str | None = None,
    archives: Path | None = None,
    begun: Callable[[AnalysisLock], None] | None = None,
    prometheus: LiveServer | None = None,
) -> int:
    """Runs `judge_folder`, but returns the exit code.

    A folder that can't be judged is a failure of the harness, never a pass. A folder that is no
    run folder is a usage error, and is left as it is; so are an option that can be seen to be
    wrong, and `prometheus` for a run that has metrics. `begun` is called with the analysis's lock
    of the folder, before it holds it.
    """
    wrong = wrong_option(master, remote, driver_host, archives)
    if wrong is not None:
        print(one_line(f"analyze: {wrong}"), file=sys.stderr)  # noqa: T201
        return USAGE_EXIT_CODE
    try:
        record = RecordedRun.of(run)
    except LocationError as error:
        print(f"analyze: {error}", file=sys.stderr)  # noqa: T201
        return EXIT_CODES[Verdict.HARNESS_FAILED]
    with AnalysisLock(record.location) as lock:
        if begun is not None:
            begun(lock)
        judge = partial(
            judge_folder, record, master, remote, driver_host, archives, prometheus=prometheus
        )
        return _exit_code(record, lock, judge)


def _exit_code(
    record: RecordedRun, lock: AnalysisLock, judge: Callable[[AnalysisLock], Verdict]
) -> int:
    run = record.location
    try:
        run.check_reachable()
        if not _is_run(run):
            _say(
                run,
                f"{run} is no run folder: found none of {', '.join(OF_A_RUN)}, expected at least "
                "history/*.jsonl; name a folder under runs/",
            )
            return USAGE_EXIT_CODE
        return EXIT_CODES[judge(lock)]
    except MetricsThere as error:
        _say(run, str(error))
        return USAGE_EXIT_CODE
    except (FolderHeld, RunNotWhole) as error:
        _say(run, str(error))
    except Exception as error:  # noqa: BLE001 - Python's own exit code would mean a violation
        told = sentence_of(error)
        if isinstance(error, LocationError) and error.unreachable:
            _say(run, f"{told}; no verdict can be written")
        elif told is not None:
            _break_off(lock, told)
        else:
            first = str(error).strip().partition("\n")[0]
            _break_off(lock, f"{type(error).__name__}: {first}", traceback.format_exc())
    return EXIT_CODES[Verdict.HARNESS_FAILED]


def _is_run(run: Location) -> bool:
    """Returns whether the folder has files of a run, or is to have them. Raises LocationError if
    its bucket isn't there.
    """
    names, _ = run.names_and_folders()
    return not names.isdisjoint((*OF_A_RUN, MARK_FILE))


def _break_off(lock: AnalysisLock, why: str, trace: str = "") -> None:
    """Says why, and writes the verdict, unless another analysis may hold the run."""
    _say(lock.run, why)
    try:
        tell_broken_off(lock, why, first=partial(_keep_trace, lock.run, trace))
    except (OSError, FolderHeld, LocationError) as error:
        _say(lock.run, f"no verdict can be written: {error}")


def _keep_trace(run: Location, trace: str) -> None:
    """Writes the trace of an error, if it has one, into the run's `logs/analysis.txt`."""
    if not trace:
        return
    file = run / "logs" / "analysis.txt"
    try:
        (run / "logs").make_folder()
        file.write(trace.encode(errors="backslashreplace"))
    except (OSError, LocationError) as error:
        _say(run, f"the trace of the error can't be written: {error}")
    else:
        _say(run, f"an error that the analysis doesn't know; its trace is in {file}")


def _step(lock: AnalysisLock, text: str) -> None:
    """Says what was done, and ends an analysis whose run another one may hold."""
    _say(lock.run, text)
    lock.check()


def _say(run: Location, text: str) -> None:
    shown = one_line(f"analyze {run.resolve().name}: {text}")
    print(shown, file=sys.stderr)  # noqa: T201


@app.command("analyze", epilog="Example: zonequake analyze runs/leader-kill-1")
def analyze_command(
    run: RunPlace,
    master: Master = None,
    remote: Remote = None,
    driver_host: DriverHost = None,
    archives: Archives = None,
    prometheus: Prometheus = None,
    prometheus_match: PrometheusMatch = None,
) -> None:
    """Analyze a run folder again; `history/*.jsonl` alone is enough."""
    live = live_server(prometheus, prometheus_match)
    remote = remote_or_environment(remote, others=(master, driver_host))
    early = EndedEarly(run=run)
    with early.at_sigterm():
        raise typer.Exit(analyze(run, master, remote, driver_host, archives, early.begin, live))

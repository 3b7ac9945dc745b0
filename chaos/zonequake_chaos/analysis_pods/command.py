"""`zonequake analyze RUN`, here or in the cluster."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from zonequake_analysis.cluster.options import wrong_option
from zonequake_analysis.ended_early import EndedEarly
from zonequake_analysis.inputs.completeness import RecordedRun
from zonequake_analysis.jvm import local_jvm
from zonequake_analysis.run_argument import (
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
from zonequake_ctl.options import ReleaseOptions
from zonequake_kube.errors import UsageError
from zonequake_kube.options import expanded

app = typer.Typer(help="Analyze run folders.", add_completion=False)

InClusterOption = Annotated[
    bool, typer.Option("--in-cluster", help="Run Spark as pods beside the release; RUN is a URI.")
]
StoreSecret = Annotated[
    str,
    typer.Option(
        "--store-secret",
        help="Secret in the analysis's namespace with the store's variables. Default: the "
        "release's `analysis.storeSecret`.",
    ),
]


@app.command("analyze", epilog="Example: zonequake analyze runs/leader-kill-1")
@expanded
def analyze_command(
    run: RunPlace,
    where: ReleaseOptions,
    master: Master = None,
    remote: Remote = None,
    driver_host: DriverHost = None,
    archives: Archives = None,
    prometheus: Prometheus = None,
    prometheus_match: PrometheusMatch = None,
    in_cluster: InClusterOption = False,
    store_secret: StoreSecret = "",
) -> None:
    """Analyze a run folder again; `history/*.jsonl` alone is enough."""
    live = live_server(prometheus, prometheus_match)
    if not in_cluster:
        if store_secret or where != ReleaseOptions():
            raise UsageError(
                "found --store-secret or an option of a release, expected --in-cluster beside it"
            )
        remote = remote_or_environment(remote, others=(master, driver_host))
        early = EndedEarly(run=run)
        with early.at_sigterm():
            record = RecordedRun.of(run)
            wrong = wrong_option(master, remote, driver_host, archives)  # told by `analyze`
            if remote is None and wrong is None:
                local_jvm.begin(record, master=master, reads_metrics=live is not None)
            # It imports what the JVM's start leaves time for.
            from zonequake_analysis.cli import analyze

            code = analyze(record, master, remote, driver_host, archives, early.begin, live)
            raise typer.Exit(code)
    if any(each is not None for each in (master, remote, driver_host, archives)):
        raise UsageError(
            "found --in-cluster beside --master, --remote, --driver-host or --archives, expected "
            "it alone: the release's settings decide where it runs"
        )
    if live is not None:
        raise UsageError(
            "found --in-cluster beside --prometheus, expected it alone: read the metrics by an "
            "analysis here, whose files one in the cluster then finds"
        )
    from zonequake_chaos.analysis_pods.launch import InCluster, analyze_in_cluster, check_uri

    check_uri(run)
    chosen = InCluster(release=where.place(), secret=store_secret)
    raise typer.Exit(analyze_in_cluster(run, chosen, _say))


def _say(line: str) -> None:
    print(line, file=sys.stderr)  # noqa: T201

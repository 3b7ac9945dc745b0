"""Commands of other packages, each imported when it is called."""

from __future__ import annotations

import importlib

import typer

from zonequake_ctl.release.cli import CLUSTER
from zonequake_kube.errors import UsageError

ZONES, ANALYSIS, RUN = "Zones", "Analysis", "Run"

_COMMANDS = (
    ("cluster", "zonequake_cluster.cli", "chaos", "Start, stop and show a cluster.", CLUSTER),
    (
        "images",
        "zonequake_cluster.images.cli",
        "chaos",
        "Build, list and push container images.",
        CLUSTER,
    ),
    (
        "target",
        "zonequake_chaos.commands.target",
        "chaos",
        "List, make and check systems under test.",
        RUN,
    ),
    (
        "sql",
        "zonequake_ctl.sql_command",
        "chaos,operator",
        "Create, alter, drop and describe zones and tables in SQL.",
        ZONES,
    ),
    (
        "certificates",
        "zonequake_ctl.release.certificates_command",
        "chaos",
        "Show and renew the release's certificates, or replace their authority.",
        CLUSTER,
    ),
    (
        "kv",
        "zonequake_ctl.kv.cli",
        "chaos",
        "Read and write keys: get, put, cas, append, txn.",
        ZONES,
    ),
    (
        "simulate",
        "zonequake_simulation.command",
        "chaos,operator,store,analysis",
        "Search for faults in virtual time; replay and shrink a seed.",
        ANALYSIS,
    ),
    (
        "what-if",
        "zonequake_ctl.what_if.cli",
        "chaos,operator",
        "Show what the operator would do for the events of a file.",
        ZONES,
    ),
    (
        "reset",
        "zonequake_ctl.reset",
        "chaos,operator",
        "Give up a lost majority by hand, after showing the proof.",
        ZONES,
    ),
    (
        "analyze",
        "zonequake_chaos.analysis_pods.command",
        "analysis",
        "Analyze a run folder again.",
        ANALYSIS,
    ),
    (
        "sql-shell",
        "zonequake_analysis.sql_shell.command",
        "analysis",
        "Query the tables of an analyzed run in SQL.",
        ANALYSIS,
    ),
    (
        "columns",
        "zonequake_analysis.inputs.column_files.command",
        "analysis",
        "Write a run's histories as columns, which analyses read faster.",
        ANALYSIS,
    ),
    (
        "executor-archive",
        "zonequake_analysis.executors.command",
        "analysis",
        "Write the Python environment of Spark's executors as one file.",
        ANALYSIS,
    ),
    (
        "import",
        "zonequake_analysis.importing.command",
        "analysis",
        "Import another tool's history as a run folder.",
        ANALYSIS,
    ),
    (
        "import-metrics",
        "zonequake_analysis.importing.metrics_command",
        "analysis",
        "Import samples of a Prometheus' storage into a run folder.",
        ANALYSIS,
    ),
    (
        "compare",
        "zonequake_analysis.many_runs.compare_command",
        "analysis",
        "Compare two runs, or two sets of runs, and find regressions.",
        ANALYSIS,
    ),
    (
        "trend",
        "zonequake_analysis.many_runs.trend_command",
        "analysis",
        "Show how each objective went over many runs and versions.",
        ANALYSIS,
    ),
)
"""Name, module with the typer app, extras that it needs, help, and panel of each."""

MOUNTED = {name: module for name, module, *_ in _COMMANDS}
"""The modules by the commands' names."""


def mount_all(app: typer.Typer) -> None:
    """Mounts each command as a sub-command of `app`."""
    for command in _COMMANDS:
        _mount(app, *command)


def _mount(app: typer.Typer, name: str, module: str, extra: str, about: str, panel: str) -> None:
    @app.command(
        name,
        help=about,
        rich_help_panel=panel,
        add_help_option=False,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )
    def call(context: typer.Context) -> None:
        try:
            found = importlib.import_module(module)
        except ImportError as error:
            raise UsageError(
                f"zonequake {name} can't be loaded ({error}): pip install 'zonequake[{extra}]'"
            ) from error
        command = typer.main.get_command(found.app)
        code = command.main(args=context.args, prog_name=f"zonequake {name}", standalone_mode=False)
        raise typer.Exit(code if isinstance(code, int) else 0)

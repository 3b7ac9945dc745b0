"""The `zonequake` command.

A command imports its modules when it is called: no command waits for another's imports (the
Kubernetes client alone takes half a second), and a missing extra disables only its own commands.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Console

from zonequake_analysis.verdict import EXIT_CODES, Verdict
from zonequake_chaos.commands.mounted import RUN, mount_all
from zonequake_ctl.closed_output import ends_with_its_reader
from zonequake_ctl.options import ReleaseOptions
from zonequake_ctl.program import run_program
from zonequake_ctl.release.cli import LOOK
from zonequake_ctl.release.cli import app as releases
from zonequake_kube.errors import UsageError
from zonequake_kube.options import expanded

if TYPE_CHECKING:
    from zonequake_chaos.cleanup.prove import CleanupProof

app = typer.Typer(
    name="zonequake",
    help="Chaos testing over a Kubernetes deployment, with proof about histories.",
    epilog="Example: zonequake demo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
console = Console()
app.add_typer(releases)

ScenarioOrFile = Annotated[str, typer.Argument(help="Name of a shipped scenario, or a file.")]
Seed = Annotated[
    int | None, typer.Option("--seed", help="Seed for target choice and load; random if omitted.")
]
Out = Annotated[
    str | None,
    typer.Option(
        "--out",
        help="Run folder to write, or its URI: s3://bucket/prefix, gs://…, hdfs://…, file://… "
        "Default: runs/<id>.",
    ),
]
Override = Annotated[
    list[str] | None, typer.Option("--set", help="Override path.in.spec=value; repeatable.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print the plan and its targets; change nothing.")
]
Repeat = Annotated[int, typer.Option("--repeat", help="Number of runs; the worst verdict counts.")]
FailFast = Annotated[
    bool, typer.Option("--fail-fast", help="With --repeat: stop at the first run that fails.")
]


def _file_here(given: str | None) -> str | None:
    """Does what `file_here` says."""
    from zonequake_analysis.run_argument import file_here

    return file_here(given)


Junit = Annotated[
    str | None,
    typer.Option("--junit", callback=_file_here, help="Write a JUnit file for all runs."),
]
Summary = Annotated[
    str | None,
    typer.Option(
        "--summary",
        callback=_file_here,
        help="Append a Markdown summary, as for $GITHUB_STEP_SUMMARY.",
    ),
]


class Where(StrEnum):
    """The place where a run's analysis runs."""

    HERE = "here"
    IN_CLUSTER = "in-cluster"


Analyze = Annotated[
    Where,
    typer.Option(
        "--analyze",
        help="Where to analyze the run when it ends: in-cluster needs --out with a URI.",
    ),
]
NoAnalyze = Annotated[bool, typer.Option("--no-analyze", help="Do not analyze the run.")]
StoreSecret = Annotated[
    str,
    typer.Option(
        "--store-secret",
        help="With --analyze in-cluster: Secret with the store's variables, in the namespace of "
        "the analysis.",
    ),
]
TargetOption = Annotated[
    str | None,
    typer.Option(
        "--target", help="System under test; see `zonequake target list`. Default: the scenario's."
    ),
]
TargetImage = Annotated[
    str | None, typer.Option("--image", help="Image to use instead of the target's own.")
]
RunName = Annotated[str | None, typer.Argument(help="Run folder, or name of a run.")]
Keep = Annotated[bool, typer.Option("--keep", help="Keep the cluster running afterwards.")]


@app.command(rich_help_panel=RUN, epilog="Example: zonequake run leader-kill --seed 1")
@expanded
def run(
    scenario: ScenarioOrFile,
    where: ReleaseOptions,
    seed: Seed = None,
    out: Out = None,
    override: Override = None,
    dry_run: DryRun = False,
    repeat: Repeat = 1,
    fail_fast: FailFast = False,
    junit: Junit = None,
    summary: Summary = None,
    analyze: Analyze = Where.HERE,
    no_analyze: NoAnalyze = False,
    store_secret: StoreSecret = "",
    target: TargetOption = None,
    image: TargetImage = None,
) -> None:
    """Run a scenario against an installed release and judge it."""
    import uvloop

    from zonequake_chaos.commands.repeat import RepeatedRuns, run_series
    from zonequake_chaos.commands.run import RunOptions, print_dry_run
    from zonequake_chaos.commands.upload import chosen_location

    folder, store = chosen_location(out)
    options = RunOptions(
        scenario=scenario,
        overrides=override or [],
        seed=seed,
        out=folder,
        store=store,
        analyze=not no_analyze,
        in_cluster=analyze is Where.IN_CLUSTER and not no_analyze,
        store_secret=store_secret,
        target=target,
        image=image,
    )

    if dry_run:
        uvloop.run(print_dry_run(options, where.place, console))
        return
    series = RepeatedRuns(
        repeat=repeat,
        fail_fast=fail_fast,
        junit=Path(junit) if junit else None,
        summary=Path(summary) if summary else None,
    )
    _exit(run_series(options, series, where.place, console))


@app.command(rich_help_panel=RUN, epilog="Example: zonequake demo leader-kill")
def demo(
    scenario: ScenarioOrFile = "kill-during-catchup",
    seed: Seed = None,
    out: Out = None,
    override: Override = None,
    keep: Keep = False,
) -> None:
    """Start an embedded cluster, install, run a scenario, analyze it, and clean up."""
    from zonequake_chaos.commands.demo import run_demo
    from zonequake_chaos.commands.run import RunOptions, planned
    from zonequake_chaos.commands.upload import chosen_location

    folder, store = chosen_location(out)
    options = RunOptions(
        scenario=scenario,
        overrides=override or [],
        seed=seed,
        out=folder,
        store=store,
        analyze=True,
    )
    planned(options)
    _exit(run_demo(options, console, keep=keep))


@app.command(rich_help_panel=RUN, epilog="Example: zonequake scenarios")
def scenarios() -> None:
    """List the scenarios that come with zonequake, and what each needs."""
    from zonequake_chaos.scenario import manifest
    from zonequake_chaos.scenario.needs import need_of

    for name, text in manifest.shipped().items():
        run = manifest.parse(text, where=name)
        about = " ".join(run.metadata.description.split())
        need = need_of(run.spec.faults).value
        console.print(f"[bold]{name}[/bold]\n  {about} {need}", highlight=False)


@app.command(rich_help_panel=LOOK, epilog="Example: zonequake status --context kind-chaos")
@expanded
def status(
    zone: Annotated[
        str | None, typer.Argument(metavar="[ZONE]", help="Name of a zone. Default: all zones.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Refresh every 2 s.")] = False,
    *,
    where: ReleaseOptions,
) -> None:
    """Show each zone as `kubectl zq status` does, also in the embedded cluster."""
    from zonequake_ctl.zq.status import run_status

    run_status(where.place(), zone, watch=watch)


@app.command(rich_help_panel=RUN, epilog="Example: zonequake clean --all")
@expanded
def clean(
    run: RunName = None,
    everything: Annotated[bool, typer.Option("--all", help="Clean up after all runs.")] = False,
    *,
    where: ReleaseOptions,
) -> None:
    """Undo what a run left in the cluster, and check that nothing is left. Repeatable."""
    import uvloop

    from zonequake_chaos.commands.clean import clean_run, find_run

    if everything == (run is not None):
        raise UsageError("zonequake clean: expected a run or --all, and not both")
    found = find_run(run, where.place)
    _say_proof(run or "all runs", uvloop.run(clean_run(found)))


@app.command(rich_help_panel=RUN, epilog="Example: zonequake abort runs/leader-kill-1")
@expanded
def abort(
    run: Annotated[str, typer.Argument(help="Run folder, or name of a run.")],
    where: ReleaseOptions,
) -> None:
    """Stop a run from any machine: heal its faults, clean up, check that nothing is left."""
    import uvloop

    from zonequake_chaos.commands.clean import abort_run, find_run

    found = find_run(run, where.place)
    _say_proof(run, uvloop.run(abort_run(found, console.print)))


def _say_proof(run: str, proof: CleanupProof) -> None:
    for problem in proof.problems:
        console.print(problem, style="red", markup=False)
    if not proof.proven:
        _exit(Verdict.CLEANUP_NOT_PROVEN)
    console.print(f"{run}: nothing is left. Checked: {', '.join(proof.checked)}", markup=False)


@app.command(rich_help_panel=RUN, epilog="Example: zonequake pack runs --out runs.tar.gz")
def pack(
    runs: Annotated[
        list[str], typer.Argument(help="Run folders of this machine, or a folder of them.")
    ],
    out: Annotated[
        str, typer.Option("--out", help="Archive to write, a file of this machine.")
    ] = "zonequake.tar.gz",
) -> None:
    """Archive run folders without tokens, keys and paths of kubeconfigs."""
    from zonequake_chaos.commands.pack import on_this_machine, pack_runs

    folders = [on_this_machine(run, "RUNS") for run in runs]
    packed = pack_runs(folders, on_this_machine(out, "--out"))
    console.print(f"{out}: {packed.files} files, {packed.size_bytes / 1e6:,.1f} MB")
    for what, count in packed.removed.items():
        if count:
            console.print(f"removed: {what}, {count} times")


@app.command(rich_help_panel=RUN, epilog="Example: zonequake upload runs/leader-kill-1")
def upload(
    run: Annotated[str, typer.Argument(help="Run folder, or name of a run in runs/.")],
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            help="URI to write: s3://bucket/prefix, gs://…, hdfs://… Default: the run's --out.",
        ),
    ] = None,
) -> None:
    """Upload a run folder to a store, as `run --out s3://…` does at its end. Repeatable."""
    from zonequake_chaos.commands.clean import RUNS
    from zonequake_chaos.commands.upload import upload_folder
    from zonequake_chaos.record.run_folder import RunFolder

    here = RUNS / run
    folder = RunFolder.open(here if (here / "run.yaml").is_file() else Path(run))
    upload_folder(folder, to, console)


mount_all(app)


def _exit(verdict: Verdict) -> None:
    raise typer.Exit(EXIT_CODES[verdict])


@ends_with_its_reader
def main() -> NoReturn:
    """Runs the command; exit codes as in docs/interfaces.md, "Verdicts and exit codes"."""
    run_program(app, failed=EXIT_CODES[Verdict.HARNESS_FAILED])

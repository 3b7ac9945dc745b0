"""The commands `zonequake target`: list, make and check targets."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from zonequake_analysis.verdict import EXIT_CODES
from zonequake_chaos.kit.entries import check_name, target_names
from zonequake_chaos.kit.registry import all_targets, find_model, find_target
from zonequake_chaos.kit.skeleton import next_steps, skeleton
from zonequake_chaos.kit.target import TargetPackage
from zonequake_ctl.options import ReleaseOptions
from zonequake_kube.errors import UsageError, unreadable
from zonequake_kube.options import expanded

app = typer.Typer(
    name="target",
    help="List, make and check systems under test.",
    epilog="Example: zonequake target new my-store",
    no_args_is_help=True,
    add_completion=False,
)
console = Console()
_MANY = {"fault": "faults", "trigger": "triggers", "role": "roles"}


@app.command("list", epilog="Example: zonequake target list")
def list_targets() -> None:
    """List the installed targets, what each claims of its order, and what it refuses.

    Ends with 1 if one of them is broken.
    """
    found = all_targets()
    for name, target in found.items():
        console.print(name, style="bold", markup=False, highlight=False)
        if isinstance(target, UsageError):
            console.print(f"  broken: {target}", style="red", markup=False, highlight=False)
            continue
        for line in (target.about, *_claimed(target), *_refused(target)):
            console.print(f"  {line}", markup=False, highlight=False)
    if any(isinstance(target, UsageError) for target in found.values()):
        raise typer.Exit(1)


def _claimed(target: TargetPackage) -> list[str]:
    claims = target.claims
    also = {
        "repeats": claims.repeats,
        "transactions": claims.transactions,
        "dumps": claims.dumps,
    }
    lines = [f"order: {claims.order or 'not claimed'}"]
    lines += [
        f"{name}: {'claimed' if claimed else 'not claimed'}" for name, claimed in also.items()
    ]
    if target.versions is not None:
        lines.append(f"versions: {target.versions.expected}")
    applied = target.refuses.applied.items()
    return lines + [f"{_MANY.get(kind, kind)}: {', '.join(names)}" for kind, names in applied]


def _refused(target: TargetPackage) -> list[str]:
    return [
        f"{kind} {name}: {reason}"
        for kind, table in target.refuses.by_kind.items()
        for name, reason in table.items()
    ]


@app.command(epilog="Example: zonequake target new my-store")
def new(
    name: Annotated[str, typer.Argument(help="Name of the target, as in --target NAME.")],
    out: Annotated[
        str | None,
        typer.Option("--out", help="Folder to write. Default: zonequake-target-NAME."),
    ] = None,
) -> None:
    """Write the package of a new target: a small store that runs, to be replaced piece by piece."""
    from zonequake_cluster.own_files import find_own_files

    check_name(name)
    if name in target_names():
        raise UsageError(f"a target {name!r} is installed: choose another name")
    folder = Path(out or f"zonequake-target-{name}")
    _check_free(folder)
    model = find_model()
    test = find_own_files().find(model.model_test).read_text()
    root = type(model).__module__.partition(".")[0]
    made = skeleton(name, model=model.name, sources=_sources(files(root)), test=test)
    _write(folder, made)
    lines = sum(text.count("\n") for path, text in made.items() if path.endswith(".py"))
    console.print(f"{folder}: {len(made)} files, {lines} lines", markup=False)
    for title, commands in next_steps(name, str(folder)):
        console.print(f"{title}:", markup=False, highlight=False, soft_wrap=True)
        for command in commands:
            console.print(f"  {command}", markup=False, highlight=False, soft_wrap=True)


@app.command(epilog="Example: zonequake target check my-store")
@expanded
def check(
    name: Annotated[str, typer.Argument(help="Name of the target, as in --target NAME.")],
    where: ReleaseOptions,
    override: Annotated[
        list[str] | None,
        typer.Option("--set", help="Override path.in.spec=value, as target.args; repeatable."),
    ] = None,
    image: Annotated[
        str | None, typer.Option("--image", help="Image to use instead of the target's own.")
    ] = None,
    out: Annotated[
        str | None, typer.Option("--out", help="Folder to write. Default: runs/<id>.")
    ] = None,
) -> None:
    """Hold a target and its client to what the checks rely on, against an installed release.

    The same client then tells a planted lie, which must be found: see docs/targets.md.
    """
    import uvloop

    from zonequake_chaos.commands.run import RunOptions, run_once
    from zonequake_chaos.conformance.runner import SCENARIO, ConformanceRunner, conformance_plan

    members = find_target(name).members
    sizes = [f"zones.0.replicas={members}", f"pools.0.replicas={members}"]
    options = RunOptions(
        scenario=str(SCENARIO),
        overrides=[*sizes, *(override or [])],
        seed=0,
        out=Path(out) if out is not None else None,
        analyze=False,
        target=name,
        image=image,
    )
    folder, report = uvloop.run(
        run_once(
            options,
            where.place(),
            console,
            runner_type=ConformanceRunner,
            plan_of=conformance_plan,
        )
    )
    for problem in report.problems:
        console.print(problem, style="red", markup=False)
    console.print(f"{name}: {report.verdict.value} ({folder.path})", markup=False)
    raise typer.Exit(EXIT_CODES[report.verdict])


def _check_free(folder: Path) -> None:
    try:
        full = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
    except OSError as error:
        raise _unwritable(folder, error) from error
    if full:
        raise UsageError(f"{folder} exists, expected a new or empty folder: give another --out")


def _write(folder: Path, texts: Mapping[str, str]) -> None:
    try:
        for path, text in texts.items():
            place = folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
    except OSError as error:
        raise _unwritable(folder, error) from error


def _unwritable(folder: Path, error: OSError) -> UsageError:
    place = error.filename or folder
    return UsageError(
        f"{place} can't be written: {unreadable(error)}; give another --out, a new folder in one "
        "that you may write to"
    )


def _sources(folder: Traversable, below: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for entry in folder.iterdir():
        if entry.is_dir():
            found |= _sources(entry, f"{below}{entry.name}/")
        elif entry.name.endswith(".py"):
            found[f"{below}{entry.name}"] = entry.read_text()
    return found

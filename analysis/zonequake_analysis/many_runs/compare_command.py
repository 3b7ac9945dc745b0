"""`zonequake compare`: two runs, or two sets of runs, side by side.

Exit codes: 0 no regression, 3 a regression beyond its bound, 2 the runs show too little to decide,
254 usage error, 255 a folder can't be read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer.core import TyperCommand

from zonequake_analysis.command_errors import told_errors
from zonequake_analysis.many_runs.bounds import ABOVE_MS, DEFAULTS, KINDS, parse_bounds
from zonequake_analysis.run_argument import file_here, folders_or_uris
from zonequake_analysis.storage.location import Location
from zonequake_analysis.whole_files import write_whole

if TYPE_CHECKING:
    from typer._click.core import Context

app = typer.Typer(help="Compare runs.", add_completion=False)

_OF_A_SIDE = ("--base", "--candidate")


class SidesFirst(TyperCommand):
    """A command that reads `--base A B --candidate C D` as `--base A --base B --candidate C
    --candidate D`, so that a shell's pattern can name the runs of a side."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, each_named(args))


def each_named(args: Sequence[str]) -> list[str]:
    """Returns the arguments with the option repeated before each folder of a side."""
    found: list[str] = []
    side = ""
    is_first = False
    for word in args:
        if word.startswith("-"):
            side, is_first = (word, True) if word in _OF_A_SIDE else ("", False)
        elif side:
            found += [] if is_first else [side]
            is_first = False
        found.append(word)
    return found


_DEFAULTS = ", ".join(f"{name}={value:g}" for name, value in DEFAULTS.items())

Runs = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[BASE CANDIDATE]",
        callback=folders_or_uris,
        help="Two run folders, or their URIs: s3://bucket/prefix, gs://…, hdfs://…, file://…",
    ),
]
BaseRuns = Annotated[
    list[str] | None,
    typer.Option(
        "--base",
        callback=folders_or_uris,
        help="Run folders of the base, or folders of them, or URIs.",
    ),
]
CandidateRuns = Annotated[
    list[str] | None,
    typer.Option(
        "--candidate",
        callback=folders_or_uris,
        help="Run folders of the candidate, or folders of them, or URIs.",
    ),
]
Bound = Annotated[
    list[str] | None,
    typer.Option(
        "--bound",
        help=f"NAME=VALUE, or NAME=none; repeatable. Names: {', '.join(KINDS)}. Default: "
        f"{_DEFAULTS}.",
    ),
]
AboveMs = Annotated[
    float, typer.Option("--above-ms", help="A latency up to this is never a regression.")
]
MarkdownFile = Annotated[
    str | None,
    typer.Option("--markdown", callback=file_here, help="Write Markdown, for a pull request."),
]
JsonFile = Annotated[
    str | None, typer.Option("--json", callback=file_here, help="Write JSON, for programs.")
]


@app.command(
    "compare",
    cls=SidesFirst,
    epilog="Example: zonequake compare runs/before runs/after --bound p99=1.3",
)
def compare_command(
    runs: Runs = None,
    base: BaseRuns = None,
    candidate: CandidateRuns = None,
    bound: Bound = None,
    above_ms: AboveMs = ABOVE_MS,
    markdown: MarkdownFile = None,
    json: JsonFile = None,
) -> None:
    """Compare two runs, or two sets of runs, and find regressions.

    Shows windows, latencies, rates, verdicts and resets of both with their intervals, and ends with
    3 if a quantity is worse than its bound allows, and by more than chance.
    """
    sides = _sides(runs or [], base or [], candidate or [])
    files = [Path(file) if file else None for file in (markdown, json)]
    raise typer.Exit(_compared(sides, bound or [], above_ms, *files))


def _sides(
    runs: Sequence[str], base: Sequence[str], candidate: Sequence[str]
) -> tuple[Sequence[Location], Sequence[Location]]:
    """Returns the folders of both sides. Raises BadParameter."""
    if len(runs) == 2 and not base and not candidate:
        base, candidate, runs = runs[:1], runs[1:], ()
    if base and candidate and not runs:
        return [Location.of(run) for run in base], [Location.of(run) for run in candidate]
    raise typer.BadParameter(
        f"found {len(runs)} run folders, {len(base)} --base and {len(candidate)} --candidate, "
        "expected two run folders, or --base RUN... --candidate RUN..."
    )


def _each_once(folders: Sequence[Location]) -> None:
    """Raises BadParameter for a folder that is there twice: its run would count twice."""
    resolved = Counter(folder.resolve() for folder in folders)
    for folder, times in resolved.items():
        if times > 1:
            raise typer.BadParameter(
                f"found {folder} {times} times, expected each run once: leave out all but one"
            )


def _write(file: Path, content: bytes) -> None:
    """Writes a file whole. Raises BadParameter."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, content)
    except OSError as error:
        raise typer.BadParameter(f"{file} can't be written: {error.strerror}") from error


def _compared(
    sides: tuple[Sequence[Location], Sequence[Location]],
    bound: Sequence[str],
    above_ms: float,
    markdown: Path | None,
    json: Path | None,
) -> int:
    # Loaded only here: reading Parquet and numbers takes half a second to load.
    from zonequake_analysis.many_runs.comparison import compare
    from zonequake_analysis.many_runs.folders import read_run, run_folders
    from zonequake_analysis.many_runs.tell_comparison import to_json, to_markdown, to_text

    try:
        bounds = parse_bounds(bound, above_ms)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    with told_errors("compare"):
        for location in dict.fromkeys(one for side in sides for one in side):
            location.check_reachable()
        folders = [[run for one in side for run in run_folders(one) or [one]] for side in sides]
        _each_once([run for side in folders for run in side])
        base, candidate = ([read_run(run) for run in side] for side in folders)
        try:
            found = compare(base, candidate, bounds)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error
        print(to_text(found), end="")  # noqa: T201
        for file, content in ((markdown, to_markdown(found).encode()), (json, to_json(found))):
            if file is not None:
                _write(file, content)
    return found.exit_code

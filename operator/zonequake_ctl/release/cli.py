"""Commands about the release and this installation: install, uninstall, access, version, doctor."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from zonequake_ctl.options import ReleaseOptions
from zonequake_ctl.release.access import CONTEXT, DEFAULT_HOURS, write_access
from zonequake_kube.errors import UsageError
from zonequake_kube.options import expanded

LOOK, CLUSTER = "Look", "Cluster and release"

app = typer.Typer(add_completion=False)
console = Console(highlight=False, soft_wrap=True)

Images = Annotated[
    list[str] | None,
    typer.Option("--image", help="NAME=REFERENCE: use this image of your registry; repeatable."),
]
FaultAgent = Annotated[
    bool,
    typer.Option("--fault-agent", help="Install the privileged fault agent too (docs/agent.md)."),
]
Analysis = Annotated[
    bool,
    typer.Option("--analysis", help="Install what `zonequake analyze --in-cluster` needs too."),
]
ChartValues = Annotated[
    list[str] | None, typer.Option("--set", help="Chart value, as in `helm --set`; repeatable.")
]


@app.command(
    rich_help_panel=CLUSTER,
    epilog="Example: zonequake install --context kind-chaos "
    "--set images.repository=registry.example/zonequake",
)
@expanded
def install(
    where: ReleaseOptions,
    image: Images = None,
    value: ChartValues = None,
    fault_agent: FaultAgent = False,
    analysis: Analysis = False,
) -> None:
    """Install or upgrade the release and wait until it is ready."""
    from zonequake_ctl.release.install import install_release, next_steps, parse_images

    place = where.place()
    refs = parse_images(image or [])
    if place.embedded and not refs:
        refs = _own_images(also=[*(["agent"] * fault_agent), *(["analysis"] * analysis)])
    switched = {"faultAgent": fault_agent, "analysis": analysis}
    values = [*(value or []), *(f"{name}.enabled=true" for name, on in switched.items() if on)]
    found = asyncio.run(install_release(place, images=refs, values=values))
    for line in next_steps(place, found):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


@app.command(rich_help_panel=CLUSTER, epilog="Example: zonequake uninstall --context kind-chaos")
@expanded
def uninstall(where: ReleaseOptions) -> None:
    """Remove the release."""
    from zonequake_ctl.release.install import uninstall_release

    uninstall_release(where.place())


@app.command(rich_help_panel=CLUSTER, epilog="Example: zonequake access --out chaos.kubeconfig")
@expanded
def access(
    out: Annotated[Path, typer.Option("--out", help="Kubeconfig file to write.")],
    where: ReleaseOptions,
    hours: Annotated[
        int, typer.Option(min=1, help="Lifetime of its token, in hours.")
    ] = DEFAULT_HOURS,
) -> None:
    """Write a kubeconfig for the release's chaos account."""
    place = where.place()
    asyncio.run(write_access(place, out, hours=hours))
    console.print(f"{out}: zonequake run --kubeconfig {out} --context {CONTEXT}")


@app.command(rich_help_panel=LOOK, epilog="Example: zonequake version --context kind-chaos")
@expanded
def version(
    where: ReleaseOptions,
    client: Annotated[
        bool, typer.Option("--client", help="Show this program's version alone.")
    ] = False,
) -> None:
    """Show the versions of this program, the release, its resources and images."""
    from zonequake_ctl.release.versions import client_rows, release_rows, row_lines

    rows = client_rows()
    if not client:
        try:
            place = where.place()
        except UsageError as error:
            if where.kubeconfig is not None or where.context is not None:
                raise
            rows.append(("release", str(error)))
        else:
            rows += asyncio.run(release_rows(place))
    for line in row_lines(rows):
        console.print(line, markup=False)


@app.command(rich_help_panel=LOOK, epilog="Example: zonequake doctor")
def doctor() -> None:
    """Show what this machine lacks for each kind of work, with the command that mends it."""
    from zonequake_cluster.own_files import find_own_files
    from zonequake_ctl.release.doctor import examine

    missing = 0
    for finding in examine(find_own_files()):
        missing += not finding.well
        mark = "ok     " if finding.well else "missing"
        console.print(f"{mark} {finding.work}: {finding.found}", markup=False, highlight=False)
        if not finding.well:
            console.print(f"        fix it with: {finding.mend}", markup=False, highlight=False)
    if missing:
        raise typer.Exit(1)


def _own_images(*, also: Sequence[str]) -> dict[str, str]:
    from zonequake_cluster.embedded import EmbeddedCluster
    from zonequake_cluster.images.build import build_all

    cluster = EmbeddedCluster()
    built = build_all(progress=console.print, also=also)
    present = set(cluster.images())
    for image in built.values():
        if image.ref not in present:
            cluster.load_image(image.archive)
    return {name: image.ref for name, image in built.items()}

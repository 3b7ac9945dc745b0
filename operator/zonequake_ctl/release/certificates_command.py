"""`zonequake certificates`: show and replace what the chart made (docs/tls.md)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated

import typer
from rich.console import Console

from zonequake_ctl.options import ReleaseOptions
from zonequake_ctl.release.certificates import Certificates
from zonequake_ctl.release.tls_settings import TlsPlace
from zonequake_kube.errors import UsageError
from zonequake_kube.options import expanded

app = typer.Typer(
    add_completion=False,
    name="certificates",
    help="Show and renew the release's certificates, or replace their authority.",
    epilog="Example: zonequake certificates show",
    no_args_is_help=True,
)
console = Console(highlight=False, soft_wrap=True)

Patience = Annotated[
    float, typer.Option("--patience", help="Seconds to wait for all processes at each step.")
]
PATIENCE_S = 300.0


def _with(
    where: ReleaseOptions, patience_s: float, work: Callable[[Certificates], Awaitable[None]]
) -> None:
    place = where.place()

    async def connected() -> None:
        async with await place.connect() as kube:
            harness = await kube.get("ConfigMap", f"{place.release}-harness")
            tls = TlsPlace.of(harness["data"])
            if tls is None:
                raise UsageError(
                    f"release {place.release} has no TLS: its value tls.enabled is false"
                )
            await work(Certificates(kube, tls, tell=console.print, patience_s=patience_s))

    asyncio.run(connected())


@app.command(epilog="Example: zonequake certificates show")
@expanded
def show(where: ReleaseOptions) -> None:
    """Show each certificate: owner, issuer and expiry."""

    async def work(certificates: Certificates) -> None:
        for line in await certificates.show():
            console.print(line)

    _with(where, PATIENCE_S, work)


@app.command(epilog="Example: zonequake certificates renew")
@expanded
def renew(
    where: ReleaseOptions,
    patience: Patience = PATIENCE_S,
) -> None:
    """Renew all certificates and wait until they are in use; nothing restarts."""

    async def work(certificates: Certificates) -> None:
        await certificates.renew()
        console.print("every process shows its new certificate")

    _with(where, patience, work)


@app.command(name="replace-authority", epilog="Example: zonequake certificates replace-authority")
@expanded
def replace_authority(
    where: ReleaseOptions,
    patience: Patience = PATIENCE_S,
) -> None:
    """Replace the certificate authority, with an overlap; nothing restarts."""

    async def work(certificates: Certificates) -> None:
        await certificates.replace_authority()
        console.print("certificates signed by the old authority are no longer accepted")

    _with(where, patience, work)

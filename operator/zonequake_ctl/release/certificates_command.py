"""`zonequake certificates`: show and replace what the chart made (docs/tls.md)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from zonequake_ctl.context import DEFAULT_NAMESPACE, DEFAULT_RELEASE, find_place
from zonequake_ctl.release.certificates import Certificates
from zonequake_ctl.release.tls_settings import TlsPlace
from zonequake_kube.errors import UsageError
from zonequake_kube.options import Context, Kubeconfig, Namespace, Release

app = typer.Typer(
    name="certificates", help="Show and rotate the release's certificates.", no_args_is_help=True
)
console = Console(highlight=False, soft_wrap=True)

Patience = Annotated[
    float, typer.Option("--patience", help="Seconds to wait for all processes at each step.")
]
PATIENCE_S = 300.0


def _with(
    kubeconfig: Path | None,
    context: str | None,
    namespace: str,
    release: str,
    patience_s: float,
    work: Callable[[Certificates], Awaitable[None]],
) -> None:
    place = find_place(kubeconfig=kubeconfig, context=context, namespace=namespace, release=release)

    async def connected() -> None:
        async with await place.connect() as kube:
            harness = await kube.get("ConfigMap", f"{release}-harness")
            where = TlsPlace.of(harness["data"])
            if where is None:
                raise UsageError(f"release {release} has no TLS: its value tls.enabled is false")
            await work(Certificates(kube, where, tell=console.print, patience_s=patience_s))

    asyncio.run(connected())


@app.command(epilog="Example: zonequake certificates show")
def show(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
    release: Release = DEFAULT_RELEASE,
) -> None:
    """Show each certificate: owner, issuer and expiry."""

    async def work(certificates: Certificates) -> None:
        for line in await certificates.show():
            console.print(line)

    _with(kubeconfig, context, namespace, release, PATIENCE_S, work)


@app.command(epilog="Example: zonequake certificates renew")
def renew(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
    release: Release = DEFAULT_RELEASE,
    patience: Patience = PATIENCE_S,
) -> None:
    """Renew all certificates and wait until they are in use; nothing restarts."""

    async def work(certificates: Certificates) -> None:
        await certificates.renew()
        console.print("every process shows its new certificate")

    _with(kubeconfig, context, namespace, release, patience, work)


@app.command(name="replace-authority", epilog="Example: zonequake certificates replace-authority")
def replace_authority(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
    release: Release = DEFAULT_RELEASE,
    patience: Patience = PATIENCE_S,
) -> None:
    """Replace the certificate authority, with an overlap; nothing restarts."""

    async def work(certificates: Certificates) -> None:
        await certificates.replace_authority()
        console.print("who has but the old authority's signature gets in no more")

    _with(kubeconfig, context, namespace, release, patience, work)

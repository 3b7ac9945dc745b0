"""`python -m zonequake_operator`; its environment stands in docs/operator.md."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import sys

import kopf
from prometheus_client import REGISTRY

from zonequake_operator.api_server.kube import NamespaceApi
from zonequake_operator.controller.app import App
from zonequake_operator.controller.elector import Elector
from zonequake_operator.election.candidate import Candidate
from zonequake_operator.errors import OperatorSettingsError
from zonequake_operator.settings import settings_from
from zonequake_protocol.exit_codes import USAGE_EXIT_CODE
from zonequake_tls.credentials import Credentials, UnusableCredentials
from zonequake_tls.identity import TlsRole
from zonequake_tls.metrics import CertificateCollector
from zonequake_tls.settings import TlsSettingsError, tls_from


def main() -> None:
    """Run until SIGTERM; exit code 254 for settings that can't be used."""
    try:
        settings = settings_from(os.environ)
        credentials = _credentials()
    except OperatorSettingsError as error:
        print(error, file=sys.stderr)  # noqa: T201
        sys.exit(USAGE_EXIT_CODE)
    logging.basicConfig(
        level=settings.log_level, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    logging.getLogger("kopf").setLevel(logging.WARNING)
    # Without it kopf looks up the user's name, and in a container the uid has none.
    os.environ.setdefault("POD_ID", socket.gethostname())
    asyncio.run(_run(App(settings.options, credentials), settings.election_s))


def _credentials() -> Credentials | None:
    """Raises OperatorSettingsError."""
    try:
        settings = tls_from(os.environ)
        if settings is None:
            return None
        credentials = Credentials(settings, TlsRole.OPERATOR)
    except (TlsSettingsError, UnusableCredentials) as error:
        raise OperatorSettingsError(str(error)) from error
    REGISTRY.register(CertificateCollector(credentials))
    return credentials


async def _run(app: App, election_s: float) -> None:
    server = await app.serve()
    try:
        if election_s:
            await _run_elected(app, election_s)
        else:
            await _operate(app)
    finally:
        await server.close()


async def _operate(app: App) -> None:
    await kopf.operator(registry=app.registry, namespaces=[app.options.namespace], standalone=True)


async def _run_elected(app: App, election_s: float) -> None:
    """Stand by until this process leads. It never stands by again: a fresh one takes its place."""
    options = app.options
    kube = await NamespaceApi.connect(options.namespace, options.release)
    name = f"{socket.gethostname()}-{secrets.token_hex(4)}"
    elector = Elector(kube, f"{options.release}-operator", Candidate(name, election_s))
    app.stands_by = True
    await elector.won()
    app.stands_by = False
    app.may_act = lambda: elector.leads
    watching = asyncio.create_task(elector.watch(_end), name="leadership")
    try:
        await _operate(app)
    finally:
        watching.cancel()
        await elector.resign()
        await kube.close()


def _end() -> None:
    """Ends the process at once: another operator now does whatever this one was about to do."""
    logging.getLogger(__name__).critical("this operator no longer leads, and ends")
    logging.shutdown()
    os._exit(1)


if __name__ == "__main__":
    main()

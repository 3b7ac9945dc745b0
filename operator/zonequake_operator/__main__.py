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
from zonequake_operator.controller.app import HTTP_PORT, App, OperatorOptions
from zonequake_operator.leader.election import Candidate
from zonequake_operator.leader.elector import Elector
from zonequake_operator.resources.model import DEFAULT_RETRY_THRESHOLD
from zonequake_tls.credentials import Credentials, UnusableCredentials
from zonequake_tls.identity import TlsRole
from zonequake_tls.metrics import CertificateCollector
from zonequake_tls.settings import TlsSettingsError, tls_from

DEFAULT_RESYNC_S = "5"
DEFAULT_VIEW_PERIOD_S = "5"


def main() -> None:
    """Run until SIGTERM."""
    logging.basicConfig(
        level=os.environ.get("ZQ_LOG_LEVEL", "INFO"),
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    logging.getLogger("kopf").setLevel(logging.WARNING)
    try:
        options = OperatorOptions(
            namespace=os.environ["ZQ_NAMESPACE"],
            release=os.environ["ZQ_RELEASE"],
            resync_s=float(os.environ.get("ZQ_RESYNC_S", DEFAULT_RESYNC_S)),
            view_period_s=float(os.environ.get("ZQ_VIEW_PERIOD_S", DEFAULT_VIEW_PERIOD_S)),
            http_port=int(os.environ.get("ZQ_HTTP_PORT", str(HTTP_PORT))),
            read_nodes=os.environ.get("ZQ_READ_NODES", "") == "true",
            retry_threshold=int(os.environ.get("ZQ_RETRY_THRESHOLD", str(DEFAULT_RETRY_THRESHOLD))),
        )
        election_s = float(os.environ.get("ZQ_ELECTION_S", "0"))
    except KeyError as error:
        sys.exit(f"found no {error.args[0]} in the environment; set it to the release's own")
    except ValueError as error:
        sys.exit(
            "ZQ_RESYNC_S, ZQ_VIEW_PERIOD_S, ZQ_HTTP_PORT, ZQ_RETRY_THRESHOLD or ZQ_ELECTION_S: "
            f"{error}; expected a number"
        )
    # Without it kopf looks up the user's name, and in a container the uid has none.
    os.environ.setdefault("POD_ID", socket.gethostname())
    asyncio.run(_run(App(options, _credentials()), election_s))


def _credentials() -> Credentials | None:
    try:
        settings = tls_from(os.environ)
        if settings is None:
            return None
        credentials = Credentials(settings, TlsRole.OPERATOR)
    except (TlsSettingsError, UnusableCredentials) as error:
        sys.exit(str(error))
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

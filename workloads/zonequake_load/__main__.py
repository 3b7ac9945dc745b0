"""Runs one load pod: `python -m zonequake_load`.

Environment: `ZQ_LOAD_PLAN` (JSON file with a `LoadPlan`), `ZQ_LOAD_DIR` (default `/history`),
`ZQ_LOAD_PORT` (default 8081), `ZQ_BIND` (default `0.0.0.0`), `ZQ_LOAD_POD` (default the host name),
`ZQ_LOAD_ORDINAL` (default the number after the last dash of the pod's name); `ZQ_TLS_DIR` and
`ZQ_TLS_DOMAIN` (docs/tls.md).

Exit codes: 0 stopped by SIGTERM or SIGINT, 1 the history could not be written, 254 usage error.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import re
import signal
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import uvloop
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from zonequake_load.errors import LoadError, PlanError
from zonequake_load.pod.clients import client_for
from zonequake_load.pod.control import LoadPlan
from zonequake_load.pod.history import Recorder, machine_clock
from zonequake_load.pod.identity import begin_incarnation
from zonequake_load.pod.load import LoadPod
from zonequake_load.pod.recovery import read_past
from zonequake_load.pod.server import make_app
from zonequake_load.pod.tally import OperationTally
from zonequake_protocol.exit_codes import USAGE_EXIT_CODE
from zonequake_tls.credentials import Credentials, UnusableCredentials
from zonequake_tls.http_server import serve
from zonequake_tls.identity import TlsRole
from zonequake_tls.metrics import CertificateCollector
from zonequake_tls.settings import TlsSettings, TlsSettingsError, tls_from

GRACE_S = 2.0
"""After a signal outstanding operations may end for so long; the rest end as `info`."""

log = logging.getLogger("zonequake_load")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSettings:
    """The settings from the environment."""

    plan: LoadPlan
    directory: Path
    bind: str
    port: int
    pod: str
    ordinal: int
    tls: TlsSettings | None


def settings_from(environment: Mapping[str, str], host_name: str) -> LoadSettings:
    """Raises PlanError if something is missing or unreadable."""
    plan_file = environment.get("ZQ_LOAD_PLAN")
    if not plan_file:
        raise PlanError("found no ZQ_LOAD_PLAN, expected the name of a JSON file with the plan")
    try:
        plan = msgspec.json.decode(Path(plan_file).read_bytes(), type=LoadPlan)
    except (OSError, msgspec.MsgspecError) as error:
        raise PlanError(f"cannot read the plan {plan_file}: {error}") from error
    pod = environment.get("ZQ_LOAD_POD", host_name)
    ordinal = environment.get("ZQ_LOAD_ORDINAL")
    if ordinal is None:
        behind_dash = re.search(r"-(\d+)$", pod)
        ordinal = behind_dash[1] if behind_dash else "0"
    try:
        return LoadSettings(
            plan=plan,
            directory=Path(environment.get("ZQ_LOAD_DIR", "/history")),
            bind=environment.get("ZQ_BIND", "0.0.0.0"),  # noqa: S104 - a pod serves its network
            port=_port(environment.get("ZQ_LOAD_PORT", "8081")),
            pod=pod,
            ordinal=int(ordinal),
            tls=tls_from(environment),
        )
    except TlsSettingsError as error:
        raise PlanError(str(error)) from error
    except ValueError as error:
        raise PlanError(f"expected a number in ZQ_LOAD_ORDINAL: {error}") from error


def _port(text: str) -> int:
    """Raises PlanError for what is no port; 0 lets the kernel choose."""
    if not text.isdecimal() or int(text) > 65_535:
        raise PlanError(f"ZQ_LOAD_PORT is {text!r}; expected an integer from 0 to 65535")
    return int(text)


async def run(settings: LoadSettings) -> None:
    """Run until SIGTERM. Raises LoadError."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    credentials = _credentials(settings.tls, registry)
    settings.directory.mkdir(parents=True, exist_ok=True)
    recovered = read_past(settings.directory)
    for name in recovered.damaged:
        log.warning("%s has an unreadable line", name)
    incarnation = begin_incarnation(settings.directory, int(time.time()))
    rng = random.Random(f"{settings.plan.seed}/{settings.ordinal}/{incarnation}/client")  # noqa: S311 - a seed replays it
    load = LoadPod(
        settings.plan,
        pod=settings.pod,
        ordinal=settings.ordinal,
        incarnation=incarnation,
        directory=settings.directory,
        target=client_for(settings.plan, rng, credentials),
        recorder=Recorder(
            settings.directory, f"{settings.pod}-{incarnation}", settings.plan.zone, machine_clock()
        ),
        tally=OperationTally(registry),
        recovered=recovered,
    )
    app = make_app(load, settings.directory, registry)
    serving = await serve(app, settings.bind, settings.port, name="control", behind_proxy=True)
    running = asyncio.create_task(load.run())
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    stopped = asyncio.create_task(stopping.wait())
    log.info("load pod %s, incarnation %d, port %d", settings.pod, incarnation, settings.port)
    try:
        await asyncio.wait({running, stopped}, return_when=asyncio.FIRST_COMPLETED)
        load.end()
        await asyncio.wait({running}, timeout=GRACE_S)
        running.cancel()
        try:
            await running
        except asyncio.CancelledError:
            log.info("stopped with operations outstanding; they are recorded as info")
    finally:
        stopped.cancel()
        await serving.close()


def _credentials(tls: TlsSettings | None, registry: CollectorRegistry) -> Credentials | None:
    """Raises PlanError."""
    if tls is None:
        return None
    try:
        credentials = Credentials(tls, TlsRole.LOAD)
    except UnusableCredentials as error:
        raise PlanError(str(error)) from error
    registry.register(CertificateCollector(credentials))
    return credentials


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        settings = settings_from(os.environ, socket.gethostname())
    except PlanError as error:
        log.error("%s", error)
        return USAGE_EXIT_CODE
    exit_code = 0
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(run(settings))
    except* PlanError as group:
        log.error("%s", group.exceptions[0])
        exit_code = USAGE_EXIT_CODE
    except* LoadError:
        log.exception("the load can't go on")
        exit_code = 1
    return exit_code


if __name__ == "__main__":
    sys.exit(main())

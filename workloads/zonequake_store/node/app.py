"""The data node's process: opens everything, serves, and ends gracefully.

lock and open the directory ─► listeners ─► ready ─► SIGTERM ─► drain ─► flush ─► close
                                                 └─► an unexpected error: exit code 1

A storage that fails ends no process: its replicas are broken, /healthz fails and says why, and the
kubelet, which watches that, starts the process again (`storage_watch`).
"""

from __future__ import annotations

import asyncio
import gc
import logging
import secrets
import signal
import sys
import time
from collections import Counter
from pathlib import Path

from prometheus_client import CollectorRegistry

from zonequake_protocol.admin import NodeIdentity
from zonequake_store.errors import ProtocolError, SettingsError
from zonequake_store.lease.keeper import LeaseKeeper
from zonequake_store.lease.kubernetes import LeaseObjects
from zonequake_store.lease.rules.node_lease import NodeLease
from zonequake_store.network.framing import FrameFlush
from zonequake_store.network.peer_protocol import Frame, Hello, Messages, TransactionLetter
from zonequake_store.network.transport import Transport
from zonequake_store.node.host import Host
from zonequake_store.node.loop_errors import is_of_the_loop
from zonequake_store.node.orders import Orders
from zonequake_store.serving.admin_api import DRAIN_TIMEOUT_S, AdminApi
from zonequake_store.serving.client_server import ClientServer
from zonequake_store.serving.journal import EventJournal, JournalClock
from zonequake_store.serving.metrics import CommitTimes, NodeCollector
from zonequake_store.settings import NodeSettings, PlantedFault
from zonequake_store.storage.directory import Storage
from zonequake_tls.credentials import Credentials, UnusableCredentials
from zonequake_tls.http_server import serve
from zonequake_tls.identity import TlsRole
from zonequake_tls.listener import Admission
from zonequake_tls.memory_trim import map_large_buffers
from zonequake_tls.metrics import CertificateCollector, ConnectionCollector

_log = logging.getLogger("zonequake_store")

# Entries and commands are tuples and structs without cycles: collecting them often only costs
# pauses, long ones with many live entries.
_GC_THRESHOLDS = (50_000, 50, 100)

# The loop waits for the interpreter lock while a writer thread holds it; half a millisecond keeps
# that below a commit.
_SWITCH_INTERVAL_S = 0.0005

# How long `ack-before-commit` holds entries back: longer than a leader kill needs.
_PLANTED_APPEND_DELAY_S = 0.25

# `late-hand-over` sends its clients away and keeps its leaderships for so long; with `late-answers`
# each answer waits while the process is young.
_PLANTED_HAND_OVER_DELAY_S = 1.5
_PLANTED_ANSWER_DELAY_S = 0.25
_PLANTED_YOUTH_S = 10.0


class Node:
    """A running data node. `run` returns the process's exit code."""

    def __init__(self, settings: NodeSettings) -> None:
        self._settings = settings
        self._incarnation = secrets.token_hex(8)
        self._storage = Storage(settings, fresh_incarnation=secrets.token_hex(8))
        self._journal = EventJournal(settings.data_dir / "events.jsonl", _clock())
        self._peer_address = ""
        self._client_address = ""
        self._host: Host | None = None
        self._finished = asyncio.Event()
        self._failure: Exception | None = None
        self._refused: Counter[tuple[str, str]] = Counter()
        self._credentials = _credentials(settings)

    async def run(self) -> int:
        """Serve until SIGTERM or SIGINT (0; 1 if the storage has failed), or an error (1)."""
        settings, loop = self._settings, asyncio.get_running_loop()
        loop.set_exception_handler(self._unexpected)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._finished.set)
        registry = CollectorRegistry()
        times = CommitTimes(registry)
        self._storage.start(
            observe_log_s=times.observe_log_s,
            observe_data_s=times.observe_data_s,
        )
        frame_flush = FrameFlush()
        transport = Transport(
            domain=settings.peer_domain,
            port=settings.peer_port,
            hello=self._hello,
            received=self._received,
            ended=self._ended,
            frame_flush=frame_flush,
            credentials=self._credentials,
        )
        fault = settings.planted_fault
        host = self._host = Host(
            name=settings.name,
            storage=self._storage,
            transport=transport,
            frame_flush=frame_flush,
            journal=self._journal,
            heartbeat_ticks=settings.heartbeat_ticks,
            lease=NodeLease(holder=self._incarnation, duration_s=settings.lease_s),
            append_delay_s=(
                _PLANTED_APPEND_DELAY_S if fault is PlantedFault.ACK_BEFORE_COMMIT else 0.0
            ),
            flushes=fault is not PlantedFault.DROP_LOG_TAIL,
        )
        keeper = LeaseKeeper(host, LeaseObjects(settings))
        orders = Orders(host, random=secrets.randbelow, planted_fault=fault)
        late_answers = fault is PlantedFault.LATE_ANSWERS
        clients = ClientServer(
            host,
            answer_delay_s=_PLANTED_ANSWER_DELAY_S if late_answers else 0.0,
            delayed_until_s=loop.time() + _PLANTED_YOUTH_S,
        )
        allowed = settings.tls.clients if settings.tls is not None else ()
        peer_port = await transport.listen(
            settings.bind, settings.peer_port, self._admission("peers", TlsRole.STORE)
        )
        client_port = await clients.listen(
            settings.bind, settings.client_port, self._admission("clients", *allowed)
        )
        self._peer_address = f"{settings.host}:{peer_port}"
        self._client_address = f"{settings.host}:{client_port}"
        admin = AdminApi(
            host,
            orders,
            identity=self._identity(),
            registry=registry,
            guarded=self._credentials is not None,
            open_dumps=settings.open_dumps,
        )
        registry.register(NodeCollector(host, admin.statuses))
        if self._credentials is not None:
            registry.register(CertificateCollector(self._credentials, self._refused))
        serving = [await serve(admin.application, settings.bind, settings.admin_port, name="admin")]
        admission = self._admission("orders", TlsRole.OPERATOR)
        if admission is not None:
            application, port = admin.guarded_application, settings.orders_port
            serving.append(
                await serve(application, settings.bind, port, name="orders", admission=admission)
            )
        limits = [transport.limits, clients.limits, *(each.limits for each in serving)]
        registry.register(ConnectionCollector(limits))
        put_aside = "; ".join(self._storage.put_aside) or None
        if self._storage.crash is not None:
            _log.error("the process before this one was ended by:\n%s", self._storage.crash)
        if put_aside is not None:
            _log.error("%s", put_aside)
        keeper.start()
        self._journal.add("node.started", data={**self._incarnations(), "reason": put_aside})
        admin.is_ready = True
        _shorten_pauses()
        map_large_buffers()
        _log.info(
            "%s is ready: peers %s, clients %s, admin %s",
            settings.name,
            self._peer_address,
            self._client_address,
            serving[0].port,
        )
        await self._finished.wait()
        self._journal.add("node.stopping", data=self._incarnations())
        if fault is PlantedFault.LATE_HAND_OVER:
            clients.close()
            await asyncio.sleep(_PLANTED_HAND_OVER_DELAY_S)
        if self._failure is None:
            await host.drain(DRAIN_TIMEOUT_S)
        # Before the replicas: in a report of those that aren't closed yet the others would be lost.
        for each in reversed(serving):
            await each.close()
        if self._failure is None:
            await host.close()
            clients.close()
        await keeper.close()
        await transport.close()
        if self._failure is None:
            self._storage.close()
        self._journal.close()
        return 0 if self._failure is None and host.watch.failure is None else 1

    def _admission(self, port: str, *allowed: str) -> Admission | None:
        if self._credentials is None:
            return None
        return Admission(
            name=port, credentials=self._credentials, allowed=allowed, refused=self._refused
        )

    def _identity(self) -> NodeIdentity:
        settings = self._settings
        return NodeIdentity(
            name=settings.name,
            process_incarnation=self._incarnation,
            storage_incarnation=self._storage.incarnation,
            pod_uid=settings.pod_uid,
            attributes=settings.attributes,
            peer_address=self._peer_address,
            client_address=self._client_address,
        )

    def _incarnations(self) -> dict[str, object]:
        return {
            "process_incarnation": self._incarnation,
            "storage_incarnation": self._storage.incarnation,
        }

    def _hello(self) -> Hello:
        return Hello(
            self._settings.name, self._incarnation, self._peer_address, self._client_address
        )

    def _received(self, node: str, frame: Frame) -> None:
        host = self._host
        assert host is not None, "the listeners open after the host is there"
        match frame:
            case Messages():
                host.received(frame)
            case TransactionLetter():
                host.letter_router.received(node, frame)
            case Hello():
                raise ProtocolError(f"{node} said hello twice on one connection")
            case _:
                host.catch_up.received(frame)

    def _ended(self, node: str, process: str) -> None:
        host = self._host
        assert host is not None, "the listeners open after the host is there"
        host.node_ended(node, process)

    def _fail(self, error: Exception) -> None:
        """Something is not as we think it is: end, and let the pod be started again."""
        _log.critical("the node ends: %s", error, exc_info=error)
        self._failure = error
        self._finished.set()

    def _unexpected(self, _: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        error = context.get("exception")
        if isinstance(error, Exception) and is_of_the_loop(error):
            # The loop's TLS writes to closed connections, which is harmless.
            _log.warning("a connection ended: %s: %s", context.get("message"), error)
        elif isinstance(error, Exception):
            self._fail(error)
        else:
            _log.error("the event loop reports: %s", context.get("message"))


def _credentials(settings: NodeSettings) -> Credentials | None:
    if settings.tls is None:
        return None
    try:
        return Credentials(settings.tls, TlsRole.STORE)
    except UnusableCredentials as error:
        raise SettingsError(str(error)) from error


def _shorten_pauses() -> None:
    """Shortens the interpreter's pauses, once all is there that lives as long as the process."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    sys.setswitchinterval(_SWITCH_INTERVAL_S)


def _clock() -> JournalClock:
    boot_id = Path("/proc/sys/kernel/random/boot_id")
    return JournalClock(
        monotonic_ns=time.monotonic_ns,
        wall_ns=time.time_ns,
        name=boot_id.read_text().strip() if boot_id.exists() else "unknown",
    )

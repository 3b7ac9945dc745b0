"""Nodes that are lost one after the other, and how long after the last one the operator wrote what
follows: beside a real API server, whose watch tells when."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.kube.operator.api_server import UNVERIFIED, wait_until
from tests.patience import PATIENCE_S

if TYPE_CHECKING:
    from tests.kube.operator.api_server import ApiServer
    from tests.kube.operator.machine import Machine

GROUP = "/apis/zonequake.io/v1alpha1"
ZONE = "z"
SPREAD_S = 1.5
"""All losses fall into so long."""


@dataclass(slots=True)
class Seen:
    """What a watch showed last, and when each object came, in monotonic seconds."""

    versions: list[tuple[float, dict[str, Any]]] = field(default_factory=list)

    def first_s(self, has: Callable[[dict[str, Any]], bool]) -> float | None:
        """When the first one came of which this holds."""
        return next((at_s for at_s, obj in list(self.versions) if has(obj)), None)


def request(api: ApiServer, method: str, path: str, body: Any = None) -> Any:
    """A call that waits for no kubectl to start."""
    headers = {
        "Authorization": f"Bearer {api.token}",
        "Content-Type": "application/merge-patch+json" if method == "PATCH" else "application/json",
    }
    data = json.dumps(body).encode() if body is not None else None
    asked = urllib.request.Request(api.url + path, data=data, headers=headers, method=method)
    return urllib.request.urlopen(asked, timeout=PATIENCE_S, context=UNVERIFIED)


@contextmanager
def watched(api: ApiServer, path: str) -> Iterator[Seen]:
    """Follow a resource until the block ends."""
    seen = Seen()
    answer = request(api, "GET", f"{path}?watch=true&timeoutSeconds=600")

    def follow() -> None:
        with answer, contextlib.suppress(OSError, http.client.IncompleteRead):
            for line in answer:
                seen.versions.append((time.monotonic(), json.loads(line)["object"]))

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        with contextlib.suppress(OSError):
            answer.fp.raw._sock.shutdown(socket.SHUT_RDWR)  # the thread reads its end
        thread.join()


def create(api: ApiServer, *, replicas: int, reset_timeout_s: int) -> None:
    """A HighAvailability zone of one partition that is on `replicas` nodes."""
    api.create_zone(
        ZONE,
        partitions=1,
        replicas=replicas,
        consistencyMode="HighAvailability",
        partitionDistributionResetTimeout=reset_timeout_s,
    )


def in_a_row(losses: Sequence[Callable[[], float]]) -> float:
    """Let these happen, `SPREAD_S` from the first to the last; when the last one was said, in
    monotonic seconds. Each says when it was."""
    pause_s = SPREAD_S / max(1, len(losses) - 1)
    began_s = said_s = time.monotonic()
    for number, loss in enumerate(losses):
        time.sleep(max(0.0, began_s + number * pause_s - time.monotonic()))
        said_s = loss()
    return said_s


def lose(machine: Machine, ordinal: int) -> float:
    """Kill this node's process, and say so as a kubelet does; when that was, in monotonic
    seconds."""
    api = machine.api
    machine.kill_unseen(ordinal)
    status = {"status": machine.pod_status(ordinal, running=False)}
    path = f"/api/v1/namespaces/{api.namespace}/pods/zq-default-{ordinal}/status"
    said_s = time.monotonic()
    request(api, "PATCH", path, status).close()
    machine.restarts[ordinal] = machine.restarts.get(ordinal, 0) + 1
    return said_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Seconds from the event that proves the last loss until the API server's watch showed what
    follows. `left_s`: a topology without any of the lost. `decided_s`: a timer armed by it; with
    time-out 0, a pending that is forced to a survivor."""

    left_s: float
    decided_s: float
    said_s: float
    """When that event was, in monotonic seconds."""


def measure(
    api: ApiServer, names: set[str], losses: Sequence[Callable[[], float]], *, reset_timeout_s: int
) -> Written:
    """Let these nodes be lost, and see what is written."""
    base = f"{GROUP}/namespaces/{api.namespace}"
    with (
        watched(api, f"{base}/distributionzones") as zones,
        watched(api, f"{base}/partitions") as partitions,
        watched(api, f"{base}/logicaltopologies") as topologies,
    ):
        said_s = in_a_row(losses)

        def is_left(obj: dict[str, Any]) -> bool:
            return not names & {node["name"] for node in obj["status"].get("nodes", [])}

        def is_armed(obj: dict[str, Any]) -> bool:
            version = min(o["status"]["version"] for _, o in topologies.versions if is_left(o))
            armed = (obj["status"].get("reset") or {}).get("topologyVersion", 0)
            return bool(armed >= version)

        def is_forced(obj: dict[str, Any]) -> bool:
            pending = obj["status"].get("pending") or {}
            return bool(pending.get("force")) and not names & set(pending["nodes"])

        wait_until(lambda: topologies.first_s(is_left) is not None)
        decided, is_decided = (zones, is_armed) if reset_timeout_s else (partitions, is_forced)
        wait_until(lambda: decided.first_s(is_decided) is not None)
        left_s, decided_s = topologies.first_s(is_left), decided.first_s(is_decided)
    assert left_s is not None
    assert decided_s is not None
    return Written(left_s=left_s - said_s, decided_s=decided_s - said_s, said_s=said_s)

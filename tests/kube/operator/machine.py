"""Data nodes and the operator as plain processes, beside a real API server.

There is no kubelet: the test plays it, and writes pods' statuses by hand.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.kube.operator.addresses import address, told_address
from tests.kube.operator.api_server import UNVERIFIED, wait_until
from tests.kube.operator.relay import Relay
from tests.warm_processes import WarmProcess

if TYPE_CHECKING:
    from tests.kube.operator.api_server import ApiServer

LABELS = {
    "app.kubernetes.io/component": "store",
    "app.kubernetes.io/instance": "zq",
    "app.kubernetes.io/name": "zonequake",
}
VIEW_PERIOD_S = 0.4
"""Of an operator behind a relay: views are written more often than by default, to end sooner."""


class Machine:
    """Pods whose containers are plain processes, each on a loopback address of its own.

    `told_address`: what the pods' statuses say, and thereby where the operator finds a node.
    """

    def __init__(
        self,
        api: ApiServer,
        folder: Path,
        *,
        told_address: Callable[[int], str] = address,
        operator_environment: Mapping[str, str] | None = None,
    ) -> None:
        self.api, self.folder = api, folder
        self._told_address = told_address
        self._operator_environment = operator_environment or {}
        self.node_environment: dict[str, str] = {}
        """Of nodes that are started from now on."""
        self.processes: dict[int, WarmProcess] = {}
        self.restarts: dict[int, int] = {}
        self.operator: WarmProcess | None = None

    def want(self, replicas: int) -> None:
        template = {
            "metadata": {"labels": LABELS},
            "spec": {"containers": [{"name": "store", "image": "none"}]},
        }
        self.api.put(
            {
                "apiVersion": "apps/v1",
                "kind": "StatefulSet",
                "metadata": {"name": "zq-default", "labels": LABELS},
                "spec": {
                    "replicas": replicas,
                    "serviceName": "zq-store",
                    "selector": {"matchLabels": LABELS},
                    "template": template,
                },
            }
        )

    def begin(self, nodes: int, *program: str, want: int | None = None) -> None:
        """The first `nodes` of as many as the StatefulSet wants, and the operator, or a `program`
        that stands for it."""
        self.want(nodes if want is None else want)
        self.start(*range(nodes))
        self.start_operator(*program)

    def begin_zone(
        self, nodes: int, *program: str, want: int | None = None, **spec: object
    ) -> None:
        """The same with a zone `z` of this spec, until that is whole."""
        self.begin(nodes, *program, want=want)
        self.api.create_zone(**spec)
        wait_until(lambda: self.is_whole(nodes))

    def start(self, *ordinals: int) -> None:
        for ordinal in ordinals:
            self._start(ordinal)

    def _start(self, ordinal: int) -> None:
        name = f"zq-default-{ordinal}"
        self.api.put(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "labels": LABELS},
                "spec": {
                    "readinessGates": [{"conditionType": "zonequake.io/caught-up"}],
                    "containers": [{"name": "store", "image": "none"}],
                },
            }
        )
        self._tell(ordinal, running=True)
        environment = {
            **os.environ,
            "ZQ_NODE": name,
            "ZQ_NAMESPACE": self.api.namespace,
            "ZQ_POD_UID": self.api.get("pod", name)["metadata"]["uid"],
            "ZQ_POD_IP": address(ordinal),
            "ZQ_PEER_DOMAIN": "",
            "ZQ_DATA_DIR": str(self.data(ordinal)),
            "ZQ_ATTRIBUTES": json.dumps({"tags": "SSD"}),
            "ZQ_BIND": address(ordinal),
            "ZQ_LOG_MAP_BYTES": str(1 << 30),
            "ZQ_DATA_MAP_BYTES": str(1 << 30),
            "ZQ_API_SERVER": self.api.url,
            "ZQ_API_CREDENTIALS": str(self.api.credentials),
            **self.node_environment,
        }
        self.data(ordinal).mkdir(parents=True, exist_ok=True)
        self.processes[ordinal] = self._run(
            ("-m", "zonequake_store"), environment, f"{ordinal}.log"
        )

    def data(self, ordinal: int) -> Path:
        return self.folder / str(ordinal)

    def kill(self, *ordinals: int) -> None:
        for ordinal in ordinals:  # all at once, however long it takes to tell
            self.kill_unseen(ordinal)
        for ordinal in ordinals:
            self._tell(ordinal, running=False)
            self.restarts[ordinal] = self.restarts.get(ordinal, 0) + 1

    def kill_unseen(self, ordinal: int) -> None:
        """Without the kubelet's word."""
        self.processes[ordinal].kill()
        self.processes.pop(ordinal).wait()

    def start_operator(self, *program: str) -> None:
        """The operator, or a `program` that stands for it."""
        self.operator = self.run_operator("operator.log", *program)

    def run_operator(self, log: str, *program: str, **environment: str) -> WarmProcess:
        """One more, which the caller ends."""
        return self._run(
            program or ("-m", "zonequake_operator"),
            {
                **os.environ,
                "ZQ_NAMESPACE": self.api.namespace,
                "ZQ_RELEASE": "zq",
                "ZQ_READ_NODES": "true",
                "ZQ_HTTP_PORT": "0",  # any; one that was free a moment ago may be taken now
                "KUBECONFIG": str(self.api.kubeconfig_of("operator", self.folder)),
                **self._operator_environment,
                **environment,
            },
            log,
        )

    def kill_operator(self) -> None:
        assert self.operator is not None
        self.operator.kill()
        self.operator.wait()

    def end(self) -> None:
        for process in (*self.processes.values(), self.operator):
            if process is not None:
                process.kill()
                process.wait()

    def _run(self, command: tuple[str, ...], environment: dict[str, str], log: str) -> WarmProcess:
        return WarmProcess(command, environment, self.folder / log)

    def _tell(self, ordinal: int, *, running: bool) -> None:
        status = {"status": self.pod_status(ordinal, running=running)}
        self.api.patch("pod", f"zq-default-{ordinal}", status, subresource="status")

    def pod_status(self, ordinal: int, *, running: bool) -> dict[str, Any]:
        """What the kubelet says of a pod."""
        return {
            "phase": "Running",
            "podIP": self._told_address(ordinal),
            "podIPs": [{"ip": self._told_address(ordinal)}],
            "containerStatuses": [
                {
                    "name": "store",
                    "image": "none",
                    "imageID": "none",
                    "ready": running,
                    "restartCount": self.restarts.get(ordinal, 0),
                    "state": {"running": {}} if running else {"terminated": {"exitCode": 137}},
                }
            ],
        }

    # what the operator says

    def status(self, zone: str = "z") -> dict[str, Any]:
        return (self.api.get("dz", zone) or {}).get("status", {})  # type: ignore[no-any-return]

    def set_spec(self, **spec: object) -> None:
        """Change a zone's spec, and wait until the operator has seen it."""
        self.api.patch("dz", "z", {"spec": spec})
        wait_until(self._is_observed)

    def _is_observed(self) -> bool:
        found = self.api.get("dz", "z") or {"metadata": {"generation": None}}
        seen = found.get("status", {}).get("observedGeneration")
        return seen is not None and seen == found["metadata"]["generation"]

    def until_steady(self, read: Callable[[], object], for_s: float) -> None:
        """Wait until what is read stays the same for so long: a busy operator may write late."""

        def is_steady() -> bool:
            before, until_s = read(), time.monotonic() + for_s
            while time.monotonic() < until_s:
                if read() != before:
                    return False
                time.sleep(0.1)
            return True

        wait_until(is_steady)

    def conditions(self) -> dict[str, bool]:
        return conditions(self.status())

    def is_whole(self, nodes: int, zone: str = "z") -> bool:
        status = self.status(zone)  # read once: conditions of before don't speak for these nodes
        found = conditions(status)
        return (
            status.get("dataNodeCount") == nodes
            and found.get("Ready", False)
            and found.get("Synced", False)
            and not found.get("Progressing", True)
            and not found.get("Degraded", True)
        )

    def present(self) -> list[str]:
        """Nodes of the topology."""
        return (self.api.get("topo", "topology") or {}).get("status", {}).get("nodeNames", [])  # type: ignore[no-any-return]

    def partition(self) -> dict[str, Any]:
        """The keys of the zone's first partition; what follows is of these."""
        return (self.api.get("zp", "z-0") or {}).get("status", {})  # type: ignore[no-any-return]

    def is_stable(self, *names: str) -> bool:
        """Is this the stable set, and no other pending?"""
        keys = self.partition()
        stable, pending = ((keys.get(key) or {}).get("nodes") for key in ("stable", "pending"))
        return stable == list(names) and not pending

    def chain(self) -> list[list[str]]:
        return [link["nodes"] for link in self.partition().get("chain", [])]

    def event_reasons(self) -> list[str]:
        return [e["reason"] for e in self.api.get("events")["items"]]

    def told(self, reason: str) -> int:
        """How many Events have this reason."""
        return self.event_reasons().count(reason)

    def versions(self) -> list[str]:
        return [
            item["metadata"]["resourceVersion"]
            for kind in ("dz", "zp", "topo")
            for item in self.api.get(kind)["items"]
        ]


def conditions(status: dict[str, Any]) -> dict[str, bool]:
    return {c["type"]: c["status"] == "True" for c in status.get("conditions", [])}


@contextmanager
def relayed(api: ApiServer, folder: Path, *, nodes: int) -> Iterator[tuple[Machine, Relay]]:
    """A machine, in a namespace named like `folder`, and the relay through which its operator
    speaks to the API server and to its first `nodes` data nodes. Nothing is started yet."""
    api = api.in_namespace(folder.name.replace("_", "-").lower())
    with ExitStack() as running:
        relay = Relay(api.url, api.accounts["operator"], UNVERIFIED)
        running.callback(relay.close)
        for ordinal in range(nodes):
            relay.serve_node(told_address(ordinal), address(ordinal))
        machine = Machine(
            api,
            folder,
            told_address=told_address,
            operator_environment={
                "KUBECONFIG": str(api.kubeconfig_of("operator", folder, url=relay.serve_api())),
                "ZQ_VIEW_PERIOD_S": str(VIEW_PERIOD_S),
            },
        )
        running.callback(machine.end)
        yield machine, relay

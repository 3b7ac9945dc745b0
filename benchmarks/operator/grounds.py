"""Where a benchmark's zone lives: processes beside a real API server, or the embedded cluster.

Both hand out the same: a kubeconfig, as many data nodes as asked for, and which processes are
whose. In the cluster the caller works in the node's network, where pods answer at their addresses.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.kube.operator import api_server
from tests.kube.operator.machine import Machine
from tests.processes.store.ports import free_ports
from zonequake_agent import pods
from zonequake_chaos.faults.kinds.scale import set_replicas, stateful_set
from zonequake_cluster.embedded import EmbeddedCluster
from zonequake_cluster.images.build import build_all
from zonequake_cluster.instance import MARK, find_instance
from zonequake_cluster.machine import processes
from zonequake_ctl.context import DEFAULT_NAMESPACE, DEFAULT_RELEASE, ReleasePlace
from zonequake_ctl.release.install import install_release
from zonequake_kube.client import Kube
from zonequake_kube.objects import Json

Processes = Mapping[str, list[int]]
"""By who they are: `operator`, `kube-apiserver`, `etcd`, and the data nodes' names."""

OPERATOR_PORT = 8080
CLUSTER = "scale"
VALUES = (
    # The harness's own asks every process for all metrics once a second.
    "prometheus.enabled=false",
    # Hundreds of groups that were just written keep their logs' ends in memory.
    "store.resources.limits.memory=3Gi",
    "store.resources.limits.cpu=2",
    # Values are written from here straight to the pods, without a certificate.
    "tls.enabled=false",
)
CLONE_NEWNET = 0x40000000


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """The operator and data nodes, running. `grow(nodes)`: have this many data nodes."""

    kubeconfig: Path
    namespace: str
    operator_metrics: str
    grow: Callable[[int], Awaitable[None]]
    processes: Callable[[], Awaitable[Processes]]


@asynccontextmanager
async def on_processes(folder: Path, nodes: int) -> AsyncIterator[Ground]:
    """Plain processes on loopback addresses, whose pods only stand in the API server."""
    with api_server.running(folder) as server:
        (port,) = free_ports(1)
        machine = Machine(
            server.in_namespace("scale"), folder, operator_environment={"ZQ_HTTP_PORT": str(port)}
        )

        def grow(wanted: int) -> None:
            machine.want(wanted)
            machine.start(*range(len(machine.processes), wanted))

        async def found() -> Processes:
            assert machine.operator is not None
            pids = {"operator": machine.operator.pid, **server.pids}
            pids |= {f"zq-default-{n}": each.pid for n, each in machine.processes.items()}
            return {name: [pid] for name, pid in pids.items()}

        try:
            grow(nodes)
            machine.start_operator()
            yield Ground(
                kubeconfig=server.kubeconfig,
                namespace="scale",
                operator_metrics=f"http://127.0.0.1:{port}/metrics",
                grow=lambda wanted: asyncio.to_thread(grow, wanted),
                processes=found,
            )
        finally:
            machine.end()


@asynccontextmanager
async def on_embedded_cluster(nodes: int) -> AsyncIterator[Ground]:
    """An embedded cluster of its own, beside any other of this checkout."""
    cluster = EmbeddedCluster(CLUSTER, say=_say)
    cluster.down()  # what an earlier run may have left
    try:
        cluster.up()
        built = build_all(progress=_say)
        for image in built.values():
            cluster.load_image(image.archive)
        place = ReleasePlace(
            kubeconfig=cluster.kubeconfig,
            context=cluster.context,
            namespace=DEFAULT_NAMESPACE,
            release=DEFAULT_RELEASE,
            embedded=True,
        )
        refs = {name: image.ref for name, image in built.items()}
        await install_release(place, images=refs, values=VALUES)
        async with await place.connect() as kube:

            async def grow(wanted: int) -> None:
                name = stateful_set(DEFAULT_RELEASE, "default")
                await set_replicas(kube, name=name, replicas=wanted)

            await grow(nodes)
            (operator,) = await kube.find("Pod", _component("operator"))
            with _network_of_node():
                yield Ground(
                    kubeconfig=cluster.kubeconfig,
                    namespace=DEFAULT_NAMESPACE,
                    operator_metrics=f"http://{operator['status']['podIP']}:{OPERATOR_PORT}/metrics",
                    grow=grow,
                    processes=lambda: _of_pods(kube, cluster),
                )
    finally:
        cluster.down()


async def _of_pods(kube: Kube, cluster: EmbeddedCluster) -> Processes:
    def of(pod: Json) -> list[int]:
        return [process.pid for process in pods.processes(pod["metadata"]["uid"])]

    (operator,) = await kube.find("Pod", _component("operator"))
    stores = await kube.find("Pod", _component("store"))
    parts = {each.name: [each.pid] for each in cluster.status().components if each.pid}
    return {
        "operator": of(operator),
        **{name: parts[name] for name in ("kube-apiserver", "etcd")},
        **{pod["metadata"]["name"]: of(pod) for pod in stores},
    }


def _component(name: str) -> str:
    return f"app.kubernetes.io/component={name},app.kubernetes.io/instance={DEFAULT_RELEASE}"


@contextmanager
def _network_of_node() -> Iterator[None]:
    """This thread, and those that it starts, are in the node's network inside the block."""
    init = processes.find_init(MARK, str(find_instance(CLUSTER).folder))
    assert init is not None, "the cluster has just come up"
    with open("/proc/self/ns/net") as own, open(f"/proc/{init}/ns/net") as nodes:
        _enter(nodes.fileno())
        try:
            yield
        finally:
            _enter(own.fileno())


def _enter(namespace: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"setns: {os.strerror(number)}")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)

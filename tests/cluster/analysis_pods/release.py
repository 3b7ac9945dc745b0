"""A release with the analysis on an embedded cluster, and an S3 server that its pods reach."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cluster.planted_nodes import faults_of_nodes
from tests.foreign.s3_server import S3Server, serving
from tests.kube.operator.audit_log import lacking
from zonequake_cluster.embedded import EmbeddedCluster
from zonequake_cluster.images.build import build_all
from zonequake_cluster.instance import find_instance
from zonequake_ctl.context import DEFAULT_NAMESPACE, DEFAULT_RELEASE, ReleasePlace
from zonequake_ctl.release.access import CONTEXT, write_access
from zonequake_ctl.release.install import install_release
from zonequake_kube.client import Kube
from zonequake_kube.errors import ClusterError

NAMESPACE = f"{DEFAULT_NAMESPACE}-analysis"
SECRET = "run-store"
STORE_PORT = 9000
"""Of the node, which has no other server there."""
WITH_ANALYSIS = (
    "analysis.enabled=true",
    "analysis.driver.memoryMebibytes=700",
    "analysis.executors.memoryMebibytes=600",
    "analysis.executors.cpu=100m",
    # The node enforces them: what gets through here, gets through by a rule of the chart.
    "networkPolicy.enabled=true",
    f"networkPolicy.runStore.ports={{{STORE_PORT}}}",
)
VALUES = (
    # The analysis alone: no data node, no operator.
    *WITH_ANALYSIS,
    "nodePools[0].name=default",
    "nodePools[0].replicas=0",
    "operator.enabled=false",
    "prometheus.enabled=false",
)
DATA_NODES = 3
"""Of the chart's own pool."""
Told = subprocess.CompletedProcess[str]
Upload = Callable[[str], str]
"""Puts a run into the store under a name, and returns its URI."""
Plant = Callable[[str], None]
"""Has every data node run with this bug, or with none if it is empty."""


@dataclass(kw_only=True)
class Watched:
    """Pods of the analysis's namespace, as they were last seen, by name."""

    pods: dict[str, dict[str, Any]] = field(default_factory=dict)

    def of(self, component: str) -> list[dict[str, Any]]:
        label = "app.kubernetes.io/component"
        return [pod for pod in self.pods.values() if pod["metadata"]["labels"][label] == component]


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """The installed release; each command runs under the chaos account, but `kubectl`."""

    place: ReleasePlace
    server: S3Server
    run: Path
    kubeconfig: Path
    logs: Path

    def analyze(self, uri: str, *options: str) -> Told:
        """What a user does."""
        return self.finished(
            [
                *(str(Path(sys.executable).parent / "zonequake"), "analyze", uri, "--in-cluster"),
                *("--kubeconfig", str(self.kubeconfig), "--context", CONTEXT),
                *options,
            ]
        )

    def run_and_analyze(self, scenario: str, uri: str, *options: str, folder: Path) -> Told:
        """What a user does whose machine has no Java; the spool is in `folder`."""
        return self.finished(
            [
                *(str(Path(sys.executable).parent / "zonequake"), "run", scenario, "--out", uri),
                *("--analyze", "in-cluster", "--store-secret", SECRET),
                *("--kubeconfig", str(self.kubeconfig), "--context", CONTEXT),
                *options,
            ],
            {**self.server.environment(), "JAVA_HOME": "/no/java", "COLUMNS": "200"},
            folder,
        )

    def analyze_here(self, uri: str) -> Told:
        """The analysis of a run in the store by this machine."""
        command = [str(Path(sys.executable).parent / "zonequake"), "analyze", uri]
        return self.finished(command, self.server.environment())

    def finished(
        self,
        command: Sequence[str],
        environment: dict[str, str] | None = None,
        folder: Path | None = None,
    ) -> Told:
        """Nothing of the store is in the environment, unless it is given."""
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            env={**os.environ, **(environment or {})},
            cwd=folder,
            check=False,
            timeout=900,
        )

    def kubectl(self, *words: str, stdin: str = "") -> str:
        from zonequake_cluster.supply import tools

        kubeconfig = f"--kubeconfig={self.place.kubeconfig}"
        command = [str(tools.kubectl_path()), kubeconfig, f"--namespace={NAMESPACE}", *words]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def check_rights(self) -> None:
        """No request was refused."""
        assert lacking(self.logs) == set(), "rights that the chart's accounts lack"

    @contextlib.contextmanager
    def watched(self) -> Iterator[Watched]:
        """All pods that are there meanwhile."""
        found, ended = Watched(), threading.Event()

        async def watch() -> None:
            async with await self.place.connect() as kube:
                there = kube.in_namespace(NAMESPACE)
                while not ended.is_set():
                    await _look(there, found)
                    await asyncio.sleep(0.5)

        beside = threading.Thread(target=lambda: asyncio.run(watch()))
        beside.start()
        try:
            yield found
        finally:
            ended.set()
            beside.join()


async def _look(kube: Kube, found: Watched) -> None:
    with contextlib.suppress(ClusterError):
        for pod in await kube.find("Pod"):
            found.pods[pod["metadata"]["name"]] = pod


def install(cluster: EmbeddedCluster) -> ReleasePlace:
    """Installs the chart with images of this checkout; it goes with the cluster."""
    images = build_all(progress=print, also=["analysis"])
    cluster.load_image(images["analysis"].archive)
    place = ReleasePlace(
        kubeconfig=cluster.kubeconfig,
        context=cluster.context,
        namespace=DEFAULT_NAMESPACE,
        release=DEFAULT_RELEASE,
        embedded=True,
    )
    refs = {name: image.ref for name, image in images.items()}
    asyncio.run(install_release(place, images=refs, values=VALUES))
    return place


@contextlib.contextmanager
def with_data_nodes(cluster: EmbeddedCluster, place: ReleasePlace) -> Iterator[Plant]:
    """The installed release with operator, Prometheus and data nodes, from the first `plant` on.

    Afterwards there is the analysis alone again.
    """
    images = build_all(progress=print, also=["analysis"])
    for name, image in images.items():
        if name != "analysis":
            cluster.load_image(image.archive)
    refs = {name: image.ref for name, image in images.items()}

    def plant(fault: str) -> None:
        values = [*WITH_ANALYSIS, *([f"store.plantedFault={fault}"] if fault else [])]
        asyncio.run(install_release(place, images=refs, values=values))
        found = asyncio.run(faults_of_nodes(place))
        assert len(found) == DATA_NODES, found
        assert set(found.values()) == {fault}, f"wanted {fault!r} in each data node, got {found}"

    try:
        yield plant
    finally:
        asyncio.run(install_release(place, images=refs, values=VALUES))


@contextlib.contextmanager
def analysis_beside_a_store(
    cluster: EmbeddedCluster, place: ReleasePlace, folder: Path, run: Path
) -> Iterator[Analysis]:
    """The release, a run, and a store in this folder with its credentials in a Secret."""
    spec = find_instance(cluster.name, None).read_spec()
    init = next(each.pid for each in cluster.status().components if each.pid)
    assert spec is not None
    # Pods reach the node, and not the machine that carries it.
    on_the_node = ["nsenter", "--target", str(init), "--net"]
    kubeconfig = cluster.kubeconfig.with_name("kubeconfig-chaos")
    asyncio.run(write_access(place, kubeconfig))
    store = serving(folder, host=spec.node_address, within=on_the_node, port=STORE_PORT)
    with store as server:
        found = Analysis(
            place=place,
            server=server,
            run=run,
            kubeconfig=kubeconfig,
            logs=cluster.kubeconfig.parent / "logs",
        )
        variables = {k: v for k, v in server.environment().items() if v != os.devnull}
        given = "".join(f"{name}={value}\n" for name, value in variables.items())
        found.kubectl(
            *("create", "secret", "generic", SECRET, "--from-env-file=/dev/stdin"), stdin=given
        )
        yield found


def verdict_of(analysis: Analysis, uri: str) -> bytes:
    """`verdict.json` of a run in the store."""
    return (analysis.server.folder / uri.removeprefix("s3://") / "verdict.json").read_bytes()

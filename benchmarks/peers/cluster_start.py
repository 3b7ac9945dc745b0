"""From nothing to a node that is Ready: the embedded cluster beside a bare control plane.

    python -m benchmarks.peers.cluster_start

As root; programs are built before. The peer is what test suites of operators use in a cluster's
place (as envtest does): etcd and kube-apiserver of the same build, without kubelet, scheduler, DNS
or any container. A cluster of kind is no peer here: it needs a container engine and a registry.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.store import figures
from benchmarks.store.figures import Limit, Result, Row
from tests.kube.operator import api_server
from zonequake_cluster.embedded import EmbeddedCluster

STARTS = 5
LIMIT_S = 15.0
NAME = "bench"


def embedded_s() -> float:
    """Until the node is Ready, and CoreDNS with it."""
    cluster = EmbeddedCluster(NAME, say=lambda _: None)
    cluster.down()
    begun_s = time.monotonic()
    try:
        cluster.up()
        return time.monotonic() - begun_s
    finally:
        cluster.down()


def control_plane_s() -> float:
    """Until the API server is ready and knows the CRDs."""
    with tempfile.TemporaryDirectory() as folder:
        begun_s = time.monotonic()
        with api_server.running(Path(folder)):
            return time.monotonic() - begun_s


async def measure(_: Path) -> Result:
    """Sync calls on purpose: nothing else runs."""
    ours = [embedded_s() for _ in range(STARTS)]
    theirs = [control_plane_s() for _ in range(STARTS)]
    rows: list[Row] = [
        {
            "what": f"{name} of {STARTS}, s",
            "embedded cluster": of(ours),
            "bare control plane": of(theirs),
            "ratio": of(ours) / of(theirs),
        }
        for name, of in (("median", statistics.median), ("longest", max))
    ]
    return Result(rows=rows, limits=[Limit(name="node Ready s", found=max(ours), value=LIMIT_S)])


if __name__ == "__main__":
    figures.run(__doc__, measure)

"""The running parts of a release: its workloads, their images and versions, as the API server has
them.
"""

from __future__ import annotations

from dataclasses import dataclass

from zonequake_kube.client import Kube
from zonequake_kube.objects import Json

_GROUP = "zonequake.io"
_VERSION_LABEL, _COMPONENT_LABEL = "app.kubernetes.io/version", "app.kubernetes.io/component"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A Deployment or StatefulSet of the release. `version`: the chart's that made it."""

    name: str
    component: str
    image: str
    version: str
    ready: int
    wanted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledRelease:
    """`workloads` is empty if there is no such release. `served`: versions of our resources."""

    kubernetes: str
    served: tuple[str, ...]
    workloads: tuple[Workload, ...]

    @property
    def versions(self) -> list[str]:
        """The chart's versions, as the workloads report them; more than one in the middle of an
        upgrade.
        """
        return sorted({workload.version for workload in self.workloads})


async def look_at_release(kube: Kube, release: str) -> InstalledRelease:
    """Reads the release in the connection's namespace. Raises ClusterError."""
    labels = f"app.kubernetes.io/name=zonequake,app.kubernetes.io/instance={release}"
    found = [
        _workload(manifest)
        for kind in ("Deployment", "StatefulSet")
        for manifest in await kube.find(kind, labels)
        if _VERSION_LABEL in manifest["metadata"]["labels"]  # a run's load has none
    ]
    return InstalledRelease(
        kubernetes=await kube.version(),
        served=tuple(await kube.served_versions(_GROUP)),
        workloads=tuple(sorted(found, key=lambda workload: workload.name)),
    )


def _workload(manifest: Json) -> Workload:
    labels = manifest["metadata"]["labels"]
    containers = manifest["spec"]["template"]["spec"]["containers"]
    return Workload(
        name=manifest["metadata"]["name"],
        component=labels.get(_COMPONENT_LABEL, ""),
        image=containers[0]["image"],
        version=labels[_VERSION_LABEL],
        ready=int((manifest.get("status") or {}).get("readyReplicas", 0)),
        wanted=int(manifest["spec"].get("replicas", 1)),
    )

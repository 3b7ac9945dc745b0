"""The interface of every cluster, whatever runs it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentStatus:
    """One supervised program of an embedded node.

    `pid` is the host's number, 0 while it isn't running; `since_unix_ns` is its last start.
    """

    name: str
    pid: int
    since_unix_ns: int
    restarts: int
    log: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """`ready`: the API server answers and every node is Ready. `detail` is one sentence."""

    name: str
    running: bool
    ready: bool
    detail: str
    since_unix_ns: int | None = None
    memory_bytes: int | None = None
    logs: Path | None = None
    components: tuple[ComponentStatus, ...] = ()


class Cluster(Protocol):
    """A Kubernetes cluster to run on. Every method raises ProviderError."""

    @property
    def name(self) -> str:
        """Names the cluster in messages."""

    @property
    def kubeconfig(self) -> Path:
        """File with address and credentials; of an embedded cluster it exists while it is up."""

    @property
    def context(self) -> str | None:
        """Context in `kubeconfig`; None is its current one."""

    @property
    def embedded(self) -> bool:
        """Whether `up` and `down` start and stop it."""

    def up(self) -> None:
        """Makes the cluster usable; does nothing if it is."""

    def down(self) -> None:
        """Removes what `up` made; does nothing if there is nothing."""

    def status(self) -> ClusterStatus:
        """Returns the present status."""

    def load_image(self, archive: Path) -> str:
        """Puts the image of an OCI or Docker archive on the nodes and returns its name."""

    def images(self) -> list[str]:
        """Names of the images on the nodes, sorted."""

"""The interface of every cluster."""

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
    """The status of a cluster. `ready`: the API server answers and every node is Ready. `detail` is
    one sentence."""

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
        """The cluster's name in messages."""

    @property
    def kubeconfig(self) -> Path:
        """The file with address and credentials; that of an embedded cluster exists while it is
        up."""

    @property
    def context(self) -> str | None:
        """The context in `kubeconfig`; None for its current one."""

    @property
    def embedded(self) -> bool:
        """Whether `up` and `down` start and stop it."""

    def up(self) -> None:
        """Makes the cluster usable; does nothing if it is."""

    def down(self) -> None:
        """Removes what `up` created; does nothing if there is nothing."""

    def status(self) -> ClusterStatus:
        """Returns the present status."""

    def load_image(self, archive: Path) -> str:
        """Loads the image of an OCI or Docker archive onto the nodes; returns its name."""

    def images(self) -> list[str]:
        """Returns the names of the images on the nodes, sorted."""

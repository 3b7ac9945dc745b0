"""A foreign cluster: any context of a kubeconfig. It is used, never started or stopped."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from zonequake_cluster.api import Api
from zonequake_cluster.errors import ProviderError, StartFailed, Unsupported
from zonequake_cluster.provider import ClusterStatus
from zonequake_cluster.supply.tools import kubectl_path
from zonequake_kube.errors import UsageError


class ForeignCluster:
    """The cluster of `context` (None: the current one) in `kubeconfig` (None: as kubectl finds it).

    Raises UsageError if there is no such file.
    """

    def __init__(
        self,
        *,
        context: str | None,
        kubeconfig: Path | None = None,
        say: Callable[[str], None] = print,
    ) -> None:
        self._context = context
        self._kubeconfig = kubeconfig if kubeconfig is not None else default_kubeconfig()
        self._say = say
        if not self._kubeconfig.is_file():
            raise UsageError(
                f"found no kubeconfig {self._kubeconfig}: name one with --kubeconfig, "
                "or leave out --context for the embedded cluster"
            )

    @property
    def name(self) -> str:
        return self._context if self._context is not None else str(self._kubeconfig)

    @property
    def kubeconfig(self) -> Path:
        return self._kubeconfig

    @property
    def context(self) -> str | None:
        return self._context

    @property
    def embedded(self) -> bool:
        return False

    def up(self) -> None:
        """Checks that the cluster answers and has a Ready node. Raises ProviderError."""
        ready, nodes = self._api().ready_nodes()
        if ready == 0:
            raise StartFailed(
                f"cluster {self.name} answers and none of its {nodes} nodes is Ready: "
                "start one, or name another cluster"
            )
        self._say(f"cluster {self.name} has {ready} of {nodes} nodes Ready")

    def down(self) -> None:
        """Leaves the cluster unchanged, and prints that."""
        self._say(f"cluster {self.name} was not started by zonequake: left unchanged")

    def status(self) -> ClusterStatus:
        """Returns the API server's status; a missing answer is no error."""
        try:
            ready, nodes = self._api().ready_nodes()
        except ProviderError as error:
            return ClusterStatus(name=self.name, running=False, ready=False, detail=str(error))
        return ClusterStatus(
            name=self.name,
            running=True,
            ready=nodes > 0 and ready == nodes,
            detail=f"{ready} of {nodes} nodes Ready",
        )

    def load_image(self, archive: Path) -> str:
        """Raises Unsupported: only a registry reaches all nodes."""
        raise Unsupported(
            f"{archive} can't be put onto the nodes of cluster {self.name}: push the image to a "
            "registry that they reach, and name it there with --image"
        )

    def images(self) -> list[str]:
        """Returns the image names that its nodes report. Raises ProviderError."""
        return self._api().node_images()

    def _api(self) -> Api:
        return Api(
            kubectl=kubectl_path(self._say), kubeconfig=self._kubeconfig, context=self._context
        )


def default_kubeconfig() -> Path:
    """Returns the first file of $KUBECONFIG, else ~/.kube/config, as kubectl does."""
    named = os.environ.get("KUBECONFIG", "").split(os.pathsep)[0]
    return Path(named) if named else Path.home() / ".kube" / "config"

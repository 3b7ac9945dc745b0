"""The cluster that a command means."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from zonequake_cluster.embedded import EmbeddedCluster
from zonequake_cluster.foreign import ForeignCluster
from zonequake_cluster.provider import Cluster
from zonequake_kube.errors import UsageError


def choose_cluster(
    name: str | None,
    context: str | None,
    kubeconfig: Path | None,
    *,
    say: Callable[[str], None],
) -> Cluster:
    """The foreign cluster of `context` or `kubeconfig`, else the embedded one of `name`.

    Raises UsageError if both are asked for, or the kubeconfig does not exist.
    """
    if context is None and kubeconfig is None:
        return EmbeddedCluster(name, say=say)
    if name is not None:
        raise UsageError(
            "--name selects an embedded cluster, --context and --kubeconfig select another: "
            "omit one of them"
        )
    return ForeignCluster(context=context, kubeconfig=kubeconfig, say=say)

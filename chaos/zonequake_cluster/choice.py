"""Chooses the cluster of a command."""

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
    """Returns the foreign cluster of `context` or `kubeconfig`; by default the embedded one of
    `name`.

    Raises UsageError if both are given, or if the kubeconfig does not exist.
    """
    if context is None and kubeconfig is None:
        return EmbeddedCluster(name, say=say)
    if name is not None:
        raise UsageError(
            "--name selects an embedded cluster, --context and --kubeconfig select another: "
            "omit one of them"
        )
    return ForeignCluster(context=context, kubeconfig=kubeconfig, say=say)

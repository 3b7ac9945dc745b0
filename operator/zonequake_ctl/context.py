"""The cluster that a command is for: the one of a kubeconfig, or this checkout's embedded one."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from zonequake_kube.errors import UsageError

if TYPE_CHECKING:
    from zonequake_kube.client import Kube

DEFAULT_NAMESPACE = "zonequake"
DEFAULT_RELEASE = "zq"


class NoCluster(UsageError):
    """No option names a cluster, and no embedded one is up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasePlace:
    """A kubeconfig, a context in it, a namespace and a release there."""

    kubeconfig: Path | None
    context: str | None
    namespace: str
    release: str
    embedded: bool

    async def connect(self) -> Kube:
        """Opens a connection; close it as an async context. Raises UsageError."""
        # Only here: the client of Kubernetes takes longer to load than most commands take.
        from zonequake_kube.client import Kube

        return await Kube.open(
            kubeconfig=self.kubeconfig, context=self.context, namespace=self.namespace
        )


def find_place(
    *,
    kubeconfig: Path | None,
    context: str | None,
    namespace: str,
    release: str,
    from_environment: bool = False,
) -> ReleasePlace:
    """Returns the place that the options name; without any, the embedded cluster.

    `from_environment`: before that, the one of $KUBECONFIG. Chaos is never aimed at what happens to
    be in the environment; there the variable only says where a named context is looked up.

    Raises UsageError if there is no such kubeconfig, NoCluster if no option is given and no
    embedded cluster is up.
    """
    if kubeconfig is None and context is None and from_environment:
        kubeconfig = _from_environment()
    if kubeconfig is not None and not kubeconfig.is_file():
        raise UsageError(f"there is no kubeconfig {kubeconfig}")
    if kubeconfig is None and context is None:
        from zonequake_cluster.embedded import EmbeddedCluster

        own = EmbeddedCluster()
        if not own.kubeconfig.is_file():
            raise NoCluster(
                "no cluster: start one with `zonequake cluster up`, or name one with --context"
            )
        return ReleasePlace(
            kubeconfig=own.kubeconfig,
            context=own.context,
            namespace=namespace,
            release=release,
            embedded=True,
        )
    return ReleasePlace(
        kubeconfig=kubeconfig or _from_environment(),
        context=context,
        namespace=namespace,
        release=release,
        embedded=False,
    )


def _from_environment() -> Path | None:
    """Returns the first file of $KUBECONFIG, as kubectl has it."""
    named = os.environ.get("KUBECONFIG", "").split(os.pathsep)[0]
    return Path(named) if named else None

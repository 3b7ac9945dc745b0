"""Finds the deployment for `--target` and `--image`: a plain table, no discovery."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from zonequake_chaos.deployments import etcd
from zonequake_chaos.deployments.etcd_plan import check_run
from zonequake_chaos.deployments.names import ETCD, OURS, TARGETS
from zonequake_chaos.deployments.protocol import Deployment
from zonequake_chaos.deployments.zonequake import ZonequakeDeployment
from zonequake_chaos.load.installation import Installation
from zonequake_chaos.node_access.own_machine import OwnMachine
from zonequake_chaos.scenario.run import ChaosRun
from zonequake_kube.client import Kube
from zonequake_kube.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetChoice:
    """The target of a run. `image` names a build of a target that is not ours."""

    target: str = OURS
    image: str | None = None

    @property
    def foreign(self) -> str:
        """The target's name; None for our own store."""
        return "" if self.target == OURS else self.target

    def check(self, run: ChaosRun) -> None:
        """Raises UsageError if there is no such target, or if the scenario can't be run against
        it."""
        if self.target not in TARGETS:
            raise UsageError(f"--target {self.target!r}: expected {' or '.join(TARGETS)}")
        if self.target == ETCD:
            check_run(run)
        elif self.image is not None:
            raise UsageError(
                "--image goes with --target etcd: the release names our own images, "
                "leave --image out"
            )


DEFAULT = TargetChoice()


async def deployment_for(
    choice: TargetChoice,
    run: ChaosRun,
    *,
    kube: Kube,
    run_id: str,
    installation: Installation,
    node: OwnMachine | None,
    say: Callable[[str], None],
) -> Deployment:
    """Returns the deployment of one run, its image in place. Raises UsageError, ChaosError."""
    if choice.target == OURS:
        return ZonequakeDeployment(
            kube=kube, spec=run.spec, run_id=run_id, installation=installation
        )
    image = choice.image
    if image is None:
        if node is None:
            raise UsageError(
                "--target etcd on a cluster that isn't the embedded one needs --image, a build of "
                "etcd that the cluster can pull, for instance quay.io/coreos/etcd:v3.6.4"
            )
        image = await asyncio.to_thread(_own_image, node, say)
    return etcd.EtcdDeployment(
        kube=kube, spec=run.spec, run_id=run_id, installation=installation, image=image
    )


def _own_image(node: OwnMachine, say: Callable[[str], None]) -> str:
    """Loads the embedded node's own etcd as an image; returns the image's name."""
    from zonequake_cluster.embedded import EmbeddedCluster
    from zonequake_cluster.images.etcd import build_etcd

    built = build_etcd(progress=say)
    cluster = EmbeddedCluster(node.instance.name, root=node.instance.root, say=say)
    if built.ref not in cluster.images():
        say(f"loading {built.ref}")
        cluster.load_image(built.archive)
    return built.ref

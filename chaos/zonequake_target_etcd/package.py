"""etcd as a target package."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from zonequake_chaos.kit.alteration import in_texts
from zonequake_chaos.kit.client_code import ClientCode
from zonequake_chaos.kit.deployment import Deployment
from zonequake_chaos.kit.limits.one_group import unsuited_to_one_group
from zonequake_chaos.kit.limits.refusals import FIXED_MEMBERS
from zonequake_chaos.kit.member_deployment import MemberSetDeployment
from zonequake_chaos.kit.member_set import MemberSet
from zonequake_chaos.kit.target import (
    TargetClaims,
    TargetPackage,
    TargetPlace,
    TargetVersions,
)
from zonequake_chaos.scenario.run import ChaosRun
from zonequake_cluster.images.releases import ETCD_EXPECTED, ETCD_PATTERN
from zonequake_kube.errors import UsageError
from zonequake_target_etcd.interface.arguments import unsuited_options, unsuited_secret
from zonequake_target_etcd.members import (
    METRICS_PORT,
    OWN_OPTIONS,
    PORTS,
    PROGRAM,
    SERVER_METRICS,
    EtcdMembers,
)


class EtcdPackage(TargetPackage):
    """An etcd that each run creates and removes."""

    name = "etcd"
    about = "etcd: one group, as many members as the zone has replicas, made by each run."
    claims = TargetClaims(
        order=(
            "Lineage 0, term 1, and as index the revision: one counter over all keys and leaders."
        ),
        transactions=True,
    )
    client = ClientCode(connect="zonequake_target_etcd.client:connect", takes_secret=True)
    refuses = FIXED_MEMBERS
    server_metrics = SERVER_METRICS
    versions = TargetVersions(pattern=ETCD_PATTERN, expected=ETCD_EXPECTED)
    alters = in_texts("etcd/member/snap/db")

    async def deployment(self, place: TargetPlace) -> Deployment:
        (zone,) = place.run.spec.zones
        image = place.run.spec.target.image or await asyncio.to_thread(_own_image, place)
        return MemberSetDeployment(
            place,
            client=self.client,
            members=MemberSet.of(
                place,
                target=self.name,
                program=PROGRAM,
                ports=PORTS,
                image=image,
                metrics_port=METRICS_PORT,
            ),
            system=EtcdMembers(
                place.kube,
                run_id=place.run_id,
                zone=zone.name,
                args=place.run.spec.target.args,
            ),
        )

    def unsuited(self, run: ChaosRun) -> Iterator[str]:
        target = run.spec.target
        yield from unsuited_to_one_group(run)
        yield from unsuited_options(target.args, target.env, OWN_OPTIONS)
        yield from unsuited_secret(target.args, target.client_secret)


def _own_image(place: TargetPlace) -> str:
    """Loads the version that the scenario names, or else the embedded node's own etcd, as an image;
    returns the image's name.
    """
    version = place.run.spec.target.version
    if place.node is None and version is not None:
        raise UsageError(
            f"target.version {version} of etcd on a cluster that isn't the embedded one: expected "
            "--image in its place, one that the cluster can pull: `zonequake images etcd "
            f"{version}` builds one to push, or quay.io/coreos/etcd:v{version}"
        )
    if place.node is None:
        raise UsageError(
            "target etcd on a cluster that isn't the embedded one needs --image, a build of etcd "
            "that the cluster can pull, for instance quay.io/coreos/etcd:v3.6.4"
        )
    from zonequake_cluster.images.etcd import build_etcd, build_etcd_release

    if version is None:
        built = build_etcd(progress=place.say)
    else:
        built = build_etcd_release(version, progress=place.say)
    return place.load_image(built.ref, built.archive)


TARGET = EtcdPackage()

"""Apache Ignite 3 as a target package."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import replace

from zonequake_chaos.kit.client_code import ClientCode
from zonequake_chaos.kit.deployment import Deployment
from zonequake_chaos.kit.limits.one_group import POD_VARIABLE
from zonequake_chaos.kit.limits.refusals import FIXED_MEMBERS, Refusals
from zonequake_chaos.kit.member_set import MemberSet
from zonequake_chaos.kit.target import (
    TargetClaims,
    TargetPackage,
    TargetPlace,
    TargetVersions,
)
from zonequake_chaos.scenario.run import ChaosRun
from zonequake_cluster.images.releases import IGNITE_EXPECTED, IGNITE_RELEASES
from zonequake_kube.errors import UsageError
from zonequake_target_ignite.deployment import IgniteDeployment
from zonequake_target_ignite.nodes import (
    CONFIGURATION,
    LOGGING,
    LOGGING_TEXT,
    PORTS,
    PROGRAM,
    configuration,
    status_server_sources,
)
from zonequake_target_ignite.settings import unsuited_settings
from zonequake_target_ignite.zone.definition import unsuited_zones

RELEASE = "3.1.0"
"""The release that a run makes, if the scenario names neither image nor version."""


class IgnitePackage(TargetPackage):
    """An Ignite that each run creates and removes."""

    name = "ignite"
    about = "Apache Ignite 3: a cluster, a distribution zone and a table, made by each run."
    claims = TargetClaims(order="", dumps=False)
    client = ClientCode(connect="zonequake_target_ignite.client:connect", takes_secret=True)
    versions = TargetVersions(
        pattern="|".join(map(re.escape, IGNITE_RELEASES)), expected=IGNITE_EXPECTED
    )
    refuses = Refusals(
        faults={name: why for name, why in FIXED_MEMBERS.faults.items() if name != "scale"},
        triggers={"key": "waits for a key of a Partition, which Ignite does not tell"},
    )

    async def deployment(self, place: TargetPlace) -> Deployment:
        members = MemberSet.of(place, target=self.name, program=PROGRAM, ports=PORTS)
        files = {
            CONFIGURATION: configuration(members),
            LOGGING: LOGGING_TEXT,
            **status_server_sources(self.client),
        }
        members = replace(members, files=files, volume_size="2Gi")
        image = place.run.spec.target.image
        if image is None:  # only now: what can't be is refused before an image is built
            image = await asyncio.to_thread(_own_image, place)
        return IgniteDeployment(
            place, target=self.name, client=self.client, members=replace(members, image=image)
        )

    def unsuited(self, run: ChaosRun) -> Iterator[str]:
        yield from unsuited_zones(run)
        if POD_VARIABLE in run.spec.target.env:
            yield f"target.env has {POD_VARIABLE}, which the run sets itself: leave it out"
        yield from unsuited_settings(run.spec.target)


def _own_image(place: TargetPlace) -> str:
    """Builds the release and loads it into the embedded node; returns the image's name."""
    version = place.run.spec.target.version
    release = version or RELEASE
    if place.node is None:
        instead = "" if version is None else " in place of target.version"
        raise UsageError(
            f"target ignite on a cluster that isn't the embedded one needs --image{instead}, an "
            "image with a Java runtime and Ignite's jars in /opt/ignite/lib that the cluster can "
            f"pull: `zonequake images ignite {release}` builds one to push"
        )
    from zonequake_cluster.images.ignite import build_ignite_release

    built = build_ignite_release(release, progress=place.say)
    return place.load_image(built.ref, built.archive)


TARGET = IgnitePackage()

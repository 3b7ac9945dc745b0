"""Our own store as a target package."""

from __future__ import annotations

from collections.abc import Iterator

from zonequake_analysis.inputs.prometheus.server_metrics import OF_STORE
from zonequake_chaos.errors import GuardError
from zonequake_chaos.kit.client_code import ClientCode
from zonequake_chaos.kit.deployment import Deployment
from zonequake_chaos.kit.target import TargetClaims, TargetPackage, TargetPlace
from zonequake_chaos.load.installation import Installation
from zonequake_chaos.observe.observer import MemberSource
from zonequake_chaos.scenario.run import ChaosRun
from zonequake_kube.client import Kube
from zonequake_target_store.alteration import CELLS
from zonequake_target_store.data_nodes import DataNodeSource
from zonequake_target_store.deployment import StoreDeployment


class StorePackage(TargetPackage):
    """The store that a release installs."""

    name = "zonequake"
    about = "Our own store: the data nodes and the operator of the installed release."
    claims = TargetClaims(
        order="Place in the partition's log: lineage, term, and index of the entry.",
        repeats=True,
        transactions=True,
    )
    client = ClientCode(connect="zonequake_target_store.client:connect")
    in_release = True
    has_control = True
    server_metrics = OF_STORE
    alters = CELLS

    async def deployment(self, place: TargetPlace) -> Deployment:
        return StoreDeployment(
            kube=place.kube,
            spec=place.run.spec,
            run_id=place.run_id,
            installation=place.installation,
            client=self.client,
        )

    def unsuited(self, run: ChaosRun) -> Iterator[str]:
        for field in run.spec.target.changed:
            yield (
                f"target.{field} can't be changed by a run, since the release starts its data "
                "nodes: leave it out, and give `zonequake install` the value"
            )

    def check_release(self, installation: Installation) -> None:
        """Raises GuardError if the release's data nodes allow no dumps."""
        if not installation.gives_dumps:
            raise GuardError(
                f"release {installation.release} allows no dumps of replicas (its value "
                "harness.dumps is false), which a run needs to compare replicas: allow them with "
                f"`zonequake install`, or with `helm upgrade {installation.release} CHART "
                "--reuse-values --set harness.dumps=true`, CHART being the one that it was "
                "installed from"
            )

    def standing_members(self, kube: Kube) -> MemberSource:
        return DataNodeSource(kube)


TARGET = StorePackage()

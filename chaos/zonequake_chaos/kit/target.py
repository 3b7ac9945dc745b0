"""A target: a system under test as one installed package.

Its entry point, in the group `zonequake.targets`, is an object of a class that extends
`TargetPackage`. Nothing else of the harness knows a target by its name (docs/targets.md).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from zonequake_analysis.inputs.prometheus.server_metrics import ServerMetric
from zonequake_chaos.kit.alteration import Alteration
from zonequake_chaos.kit.client_code import ClientCode
from zonequake_chaos.kit.deployment import Deployment
from zonequake_chaos.kit.limits.refusals import Refusals
from zonequake_chaos.load.installation import Installation
from zonequake_chaos.node_access.own_machine import OwnMachine
from zonequake_chaos.observe.observer import MemberSource
from zonequake_chaos.scenario.run import ChaosRun
from zonequake_kube.client import Kube


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetClaims:
    """The claims of a target that its conformance suite holds it to.

    `order`: what (lineage, term, index) of an answer are, in a sentence; empty if answers have no
    place, so that histories are judged without. `repeats`: an operation
    that may have happened is sent again under its id, and applied once; without it the client must
    send nothing of that kind twice. `transactions`: steps on several keys are done together or not
    at all. `dumps`: each member tells the state that it holds; without it members aren't compared.
    """

    order: str
    repeats: bool = False
    transactions: bool = False
    dumps: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetVersions:
    """The versions of a target that a scenario may name by `target.version` instead of an image.

    `pattern`: a regular expression of them. `expected`: which there are, after "expected" in an
    error. `deployment` of the package builds the image.
    """

    pattern: str
    expected: str

    def has(self, version: str) -> bool:
        return re.fullmatch(self.pattern, version) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetPlace:
    """The place of one run: its cluster, its scenario, and the release that it runs against.

    `node` is the embedded cluster of this machine, if the run is on it; `say` prints a line.
    """

    kube: Kube
    run: ChaosRun
    run_id: str
    installation: Installation
    node: OwnMachine | None
    say: Callable[[str], None]

    def load_image(self, ref: str, archive: Path) -> str:
        """Loads an image into the embedded cluster, if that has none of its name; returns the name.

        Raises ProviderError.
        """
        from zonequake_cluster.embedded import EmbeddedCluster

        assert self.node is not None, "a place without the embedded cluster has no own image"
        instance = self.node.instance
        cluster = EmbeddedCluster(instance.name, root=instance.root, say=self.say)
        if ref not in cluster.images():
            self.say(f"loading {ref}")
            cluster.load_image(archive)
        return ref


class TargetPackage(ABC):
    """Base of targets.

    `in_release`: the installed release is this system, and a run only sizes it; it is the target of
    a scenario that names none. `has_control`: it can have nodes without data (`spec.control`).
    `server_metrics`: those of its members' own load, in the order in which the report shows them
    beside what clients saw; members give them at `MemberSet.metrics_port`. `versions`: those whose
    images `deployment` builds; None: a scenario can only name an image.
    `model_test`: of the target that `zonequake target new` copies, the path of its test. For the
    conformance suite: `members` is their number; `alters` is how a value in a member's data is
    altered in its files while it doesn't run.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    claims: ClassVar[TargetClaims]
    client: ClassVar[ClientCode]
    refuses: ClassVar[Refusals] = Refusals()
    in_release: ClassVar[bool] = False
    has_control: ClassVar[bool] = False
    server_metrics: ClassVar[tuple[ServerMetric, ...]] = ()
    versions: ClassVar[TargetVersions | None] = None
    members: ClassVar[int] = 3
    alters: ClassVar[Alteration | None] = None
    model_test: ClassVar[str] = ""

    @abstractmethod
    async def deployment(self, place: TargetPlace) -> Deployment:
        """Returns the deployment of one run, its image in place. Raises UsageError, ChaosError."""

    def unsuited(self, run: ChaosRun) -> Iterator[str]:
        """Yields each part of the scenario that the target does not support beside what it
        `refuses`, as text.
        """
        yield from ()

    def check_release(self, installation: Installation) -> None:
        """Raises UsageError if the release lacks what a run against the target needs."""
        del installation

    def standing_members(self, kube: Kube) -> MemberSource:
        """Returns the source of the members that are there before a run. Called of a target that is
        `in_release`.
        """
        raise NotImplementedError

"""The target itself: how its member is started and asked, what it claims and refuses."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Any

import msgspec

from zonequake_chaos.kit.alteration import in_texts
from zonequake_chaos.kit.client_code import ClientCode
from zonequake_chaos.kit.deployment import Deployment
from zonequake_chaos.kit.limits.one_group import unsuited_to_one_group
from zonequake_chaos.kit.limits.refusals import FIXED_MEMBERS, Refusals
from zonequake_chaos.kit.member_deployment import MemberSetDeployment
from zonequake_chaos.kit.member_set import DATA_FOLDER, MemberSet
from zonequake_chaos.kit.members import DumpedKey, MemberDump, MemberStatus
from zonequake_chaos.kit.target import TargetClaims, TargetPackage, TargetPlace
from zonequake_chaos.observe.view import LinkPorts
from zonequake_chaos.scenario.run import ChaosRun
from zonequake_kube.client import Kube
from zonequake_kube.objects import Json
from zonequake_protocol.admin import ReplicaRole

PORTS = LinkPorts(clients=2379, peers=7001)
"""Of each member: for clients, and for its peers, by which a cut of a link tells them apart. The
release's value `networkPolicy.target` must have these numbers too, where it has network policies.
"""

SERVER = "/server/server.py"
"""The path of the server in the members' containers; the file is mounted there."""

PROGRAM = "python"
"""The last part of the first word of the server's command line: signals go to processes of that
name in the member's pod."""


ALONE = Refusals(
    roles={"follower": "targets a follower, and the only member always leads"},
    traffic={"peers": "affects traffic between members, and there is but one"},
)
"""The refusals of a system of one member: remove them with the second one."""


class ToyMembers:
    """The members of one run (see `members.MemberSystem`)."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube

    def container(self, members: MemberSet) -> Json:
        health = {"httpGet": {"path": "/status", "port": "clients"}, "periodSeconds": 1}
        port = str(PORTS.clients)
        return {
            "command": [PROGRAM, SERVER],
            "args": ["--folder", DATA_FOLDER, "--port", port, "--name", "$(POD)"],
            "startupProbe": health | {"failureThreshold": 60},
            "readinessProbe": health | {"failureThreshold": 2},
            "resources": {
                "requests": {"cpu": "50m", "memory": "64Mi"},
                "limits": {"cpu": "1", "memory": "256Mi"},
            },
        }

    async def version(self, pod: str) -> str:
        return str((await self._ask(pod, "/status"))["version"])

    async def status(self, pod: str, *, timeout_s: float) -> MemberStatus:
        said = await self._ask(pod, "/status", timeout_s)
        return MemberStatus(
            role=ReplicaRole.LEADER,
            term=said["term"],
            applied=said["index"],
            commit=said["index"],
            storage=said["identity"],
        )

    async def differences(self, pods: Sequence[str], applied: int) -> str:
        return ""  # there is but one

    async def dump(self, pod: str) -> MemberDump:
        said = await self._ask(pod, "/dump")
        keys = [DumpedKey(key=k, value=value, index=index) for k, value, index in said["keys"]]
        return MemberDump(
            applied=said["index"],
            digest=hashlib.sha256(msgspec.json.encode(said["keys"])).hexdigest()[:16],
            storage=said["identity"],
            keys=keys,
            term=said["term"],
        )

    async def _ask(self, pod: str, path: str, timeout_s: float = 10.0) -> dict[str, Any]:
        raw = await self._kube.pod_proxy(pod, PORTS.clients, path, timeout_s=timeout_s)
        return msgspec.json.decode(raw, type=dict[str, Any])


class ToyPackage(TargetPackage):
    """The target that an entry point in the group `zonequake.targets` names."""

    name = "toy"
    about = "A store of one process that loses its last second of writes, but for --sync."
    claims = TargetClaims(
        order="Lineage 0, as term the number of starts, and as index the number of writes."
    )
    client = ClientCode(connect="zonequake_target_toy.client:connect")
    refuses = FIXED_MEMBERS.and_also(ALONE)
    members = 1
    # The suite changes a value in this file, below DATA_FOLDER, and expects another dump.
    alters = in_texts("writes.jsonl")
    model_test = "tests/unit/targets/test_toy.py"

    async def deployment(self, place: TargetPlace) -> Deployment:
        members = MemberSet.of(
            place,
            target=self.name,
            program=PROGRAM,
            ports=PORTS,
            files={SERVER: (files(__package__) / "server.py").read_text()},
        )
        return MemberSetDeployment(
            place, client=self.client, members=members, system=ToyMembers(place.kube)
        )

    def unsuited(self, run: ChaosRun) -> Iterator[str]:
        yield from unsuited_to_one_group(run)
        if run.spec.zones[0].replicas != 1:
            yield "the target has one member: --set zones.0.replicas=1 --set pools.0.replicas=1"


TARGET = ToyPackage()

"""The target itself: how its members are started and asked, what it claims and refuses.

The library is mounted into the members from the machine of the run, which needs the extra
`pysyncobj`: so the load's image, which has Python, is enough.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from importlib.resources import files
from importlib.util import find_spec
from typing import Any

import msgspec

from zonequake_chaos.kit.alteration import in_pickles
from zonequake_chaos.kit.client_code import ClientCode
from zonequake_chaos.kit.deployment import Deployment
from zonequake_chaos.kit.limits.one_group import unsuited_to_one_group
from zonequake_chaos.kit.limits.refusals import FIXED_MEMBERS
from zonequake_chaos.kit.member_deployment import MemberSetDeployment
from zonequake_chaos.kit.member_set import DATA_FOLDER, MemberSet
from zonequake_chaos.kit.members import DumpedKey, MemberDump, MemberStatus
from zonequake_chaos.kit.target import TargetClaims, TargetPackage, TargetPlace
from zonequake_chaos.observe.view import LinkPorts
from zonequake_chaos.scenario.run import ChaosRun
from zonequake_kube.client import Kube
from zonequake_kube.errors import ClusterError, UsageError
from zonequake_kube.objects import Json
from zonequake_protocol.admin import ReplicaRole
from zonequake_target_pysyncobj.settings import unsuited_settings

PORTS = LinkPorts(clients=2379, peers=7001)
LIBRARY = "pysyncobj"
NO_LIBRARY = (
    f"found no Python package {LIBRARY}, which this target mounts into its members: "
    "pip install 'zonequake[pysyncobj]'"
)
FOLDER = "/server"
_ROLES = (ReplicaRole.FOLLOWER, ReplicaRole.CANDIDATE, ReplicaRole.LEADER)
"""By the library's numbers of states."""


class PysyncobjMembers:
    """The members of one run (see `members.MemberSystem`)."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube

    def container(self, members: MemberSet) -> Json:
        health = {"httpGet": {"path": "/status", "port": "clients"}, "periodSeconds": 1}
        addresses = [members.address(pod, PORTS.peers) for pod in members.pods]
        own = members.address("$(POD)", PORTS.peers)
        # A member gets the names of all, its own too: the library leaves that out.
        return {
            "command": ["python", f"{FOLDER}/server.py"],
            "args": [
                *("--folder", DATA_FOLDER, "--port", str(PORTS.clients)),
                *("--name", "$(POD)", "--own", own),
                *("--others", *addresses),
            ],
            "startupProbe": health | {"failureThreshold": 60},
            "readinessProbe": health | {"failureThreshold": 2, "timeoutSeconds": 2},
            "resources": {
                "requests": {"cpu": "50m", "memory": "64Mi"},
                "limits": {"cpu": "1", "memory": "512Mi"},
            },
        }

    async def version(self, pod: str) -> str:
        return str((await self._ask(pod, "/status"))["version"])

    async def status(self, pod: str, *, timeout_s: float) -> MemberStatus:
        return status_of(await self._ask(pod, "/status", timeout_s))

    async def differences(self, pods: Sequence[str], applied: int) -> str:
        dumps = {pod: await self.dump(pod) for pod in pods}
        if {dump.applied for dump in dumps.values()} != {applied}:
            raise ClusterError(f"members went on from {applied} while they were compared")
        digests = {pod: dump.digest for pod, dump in dumps.items()}
        return "" if len(set(digests.values())) == 1 else f"digests at {applied} differ: {digests}"

    async def dump(self, pod: str) -> MemberDump:
        return dumped(await self._ask(pod, "/dump"))

    async def _ask(self, pod: str, path: str, timeout_s: float = 10.0) -> dict[str, Any]:
        raw = await self._kube.pod_proxy(pod, PORTS.clients, path, timeout_s=timeout_s)
        return msgspec.json.decode(raw, type=dict[str, Any])


def status_of(said: dict[str, Any]) -> MemberStatus:
    """Returns the status that a member told."""
    return MemberStatus(
        role=_ROLES[said["state"]],
        term=said["term"],
        applied=said["applied"],
        commit=said["commit"],
        storage=said["identity"],
        knows_leader=said["knows_leader"],
    )


def dumped(said: dict[str, Any]) -> MemberDump:
    """Returns the dump that a member told."""
    return MemberDump(
        applied=said["applied"],
        digest=hashlib.sha256(msgspec.json.encode(said["keys"])).hexdigest()[:16],
        storage=said["identity"],
        keys=[DumpedKey(key=key, value=value, index=index) for key, value, index in said["keys"]],
    )


def mounted() -> dict[str, str]:
    """Returns the server and the library as files of the members. Raises UsageError."""
    if find_spec(LIBRARY) is None:
        raise UsageError(NO_LIBRARY)
    library = {
        f"{FOLDER}/{LIBRARY}/{file.name}": file.read_text()
        for file in files(LIBRARY).iterdir()
        if file.name.endswith(".py")
    }
    return {f"{FOLDER}/server.py": (files(__package__) / "server.py").read_text(), **library}


class PysyncobjPackage(TargetPackage):
    """A store on pysyncobj that each run creates and removes."""

    name = "pysyncobj"
    about = "A store on the Raft library pysyncobj, whose followers may drop stored entries."
    claims = TargetClaims(
        order=(
            "Lineage 0, term 1, and as index the place in the log at which the member that answers "
            "applied the operation, reads too; bounded reads have none."
        )
    )
    client = ClientCode(connect="zonequake_target_pysyncobj.client:connect")
    refuses = FIXED_MEMBERS
    alters = in_pickles("journal")

    async def deployment(self, place: TargetPlace) -> Deployment:
        members = MemberSet.of(
            place,
            target=self.name,
            program="python",
            ports=PORTS,
            files=mounted(),
        )
        return MemberSetDeployment(
            place, client=self.client, members=members, system=PysyncobjMembers(place.kube)
        )

    def unsuited(self, run: ChaosRun) -> Iterator[str]:
        yield from unsuited_to_one_group(run)
        if not run.spec.zones[0].fsync:
            yield "zone.fsync is false, and the library never syncs its journal: leave it out"
        if find_spec(LIBRARY) is None:
            yield NO_LIBRARY
        else:
            yield from unsuited_settings(run.spec.target.args)


TARGET = PysyncobjPackage()

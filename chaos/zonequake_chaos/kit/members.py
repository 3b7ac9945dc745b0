"""The values that a target's members report, and the interface by which they are asked.

A target that is one group of equal members implements `MemberSystem`; `MemberSetDeployment` does
the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from zonequake_chaos.kit.member_set import MemberSet
from zonequake_kube.objects import Json, PodView
from zonequake_protocol.admin import (
    ConfigurationReport,
    NodeIdentity,
    PeerName,
    ReplicaRole,
    ReplicasReport,
    ReplicaStatus,
)
from zonequake_protocol.client import Value

PARTITION = 0
"""The number of the only partition of a target that is one group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberStatus:
    """The status of one member. `storage` names its data: it changes if the member loses it.

    `term` grows with each leader, `applied` with each write that the member has; members with equal
    `applied` hold the same. `commit`: the newest place that the member knows to be decided.
    """

    role: ReplicaRole
    term: int
    applied: int
    commit: int
    storage: str
    knows_leader: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpedKey:
    """A key of a dump; `index` is the place of its last write."""

    key: str
    value: Value
    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberDump:
    """All keys of the run that one member holds at the place `applied`, sorted, and a digest of its
    whole state there.

    `log_index`: the last entry of its log that it had applied, where that is another number.
    """

    applied: int
    digest: str
    storage: str
    keys: Sequence[DumpedKey]
    log_index: int | None = None
    lineage: int = 0
    term: int = 1


class MemberSystem(Protocol):
    """The part of a target that only its author knows. Its calls raise ClusterError."""

    def container(self, members: MemberSet) -> Json:
        """Returns the member's container: command, args, env, probes and resources."""
        ...

    async def version(self, pod: str) -> str:
        """Returns the version that the member reports."""
        ...

    async def status(self, pod: str, *, timeout_s: float) -> MemberStatus:
        """Returns the member's status now."""
        ...

    async def differences(self, pods: Sequence[str], applied: int) -> str:
        """Returns in what the members differ at the place `applied`; empty if they are alike."""
        ...

    async def dump(self, pod: str) -> MemberDump:
        """Returns the member's keys and digest. May be called again if it raises."""
        ...


def group_of(zone: str, target: str) -> str:
    """Returns the name of the one group, in the form of a store's: zone, owner, partition."""
    return f"{zone}.{target}.{PARTITION}"


def report_of(pod: PodView, status: MemberStatus, *, group: str, pods: list[str]) -> ReplicasReport:
    """Returns a member's status in the form of a data node's report."""
    return ReplicasReport(
        node=NodeIdentity(
            name=pod.name,
            process_incarnation=pod.process,
            storage_incarnation=status.storage,
            pod_uid=pod.uid,
            attributes={},
            peer_address="",
            client_address="",
        ),
        replicas=[
            ReplicaStatus(
                group=group,
                zone=group.partition(".")[0],
                partition=PARTITION,
                incarnation=status.storage,
                role=status.role,
                term=status.term,
                configuration=ConfigurationReport(
                    peers=[PeerName(node=name, incarnation="") for name in pods],
                    token=0,
                    index=0,
                ),
                had_leader=status.knows_leader,
                commit=status.commit,
                applied=status.applied,
            )
        ],
    )


class _Header(msgspec.Struct, frozen=True, kw_only=True):
    group: str
    node: str
    incarnation: str
    applied: int
    log_index: int | None
    term: int
    lineage: int
    digest: str
    keys: int


class _Entry(msgspec.Struct, frozen=True, kw_only=True):
    key: str
    value: Value
    index: int


def dump_file(dump: MemberDump, *, group: str, node: str) -> bytes:
    """Renders a replica dump (docs/interfaces.md, "Run folder") of one member: header, then its
    keys.
    """
    header = _Header(
        group=group,
        node=node,
        incarnation=dump.storage,
        applied=dump.applied,
        log_index=dump.log_index,
        term=dump.term,
        lineage=dump.lineage,
        digest=dump.digest,
        keys=len(dump.keys),
    )
    entries = [_Entry(key=each.key, value=each.value, index=each.index) for each in dump.keys]
    return b"".join(msgspec.json.encode(line) + b"\n" for line in (header, *entries))

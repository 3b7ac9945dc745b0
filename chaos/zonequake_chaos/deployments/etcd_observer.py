"""Observes an etcd: each member's status, in the form of our data nodes' reports.

The group is one partition. A member's process is named by its pod and the kubelet's count of
container restarts: etcd does not report when it started.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from zonequake_chaos.deployments.etcd_objects import CLIENT_PORT, PEER_PORT, EtcdObjects
from zonequake_chaos.observe.view import LinkPorts
from zonequake_kube.client import Kube
from zonequake_kube.connection import REQUEST_TIMEOUT_S
from zonequake_kube.errors import ClusterError
from zonequake_kube.objects import KeysView, PodView
from zonequake_load.errors import EtcdError
from zonequake_load.targets.etcd.api import EtcdApi, EtcdStatus
from zonequake_load.targets.etcd.records import PARTITION, group_of
from zonequake_protocol.admin import (
    ConfigurationReport,
    NodeIdentity,
    PeerName,
    ReplicaRole,
    ReplicasReport,
    ReplicaStatus,
)


def etcd_at(kube: Kube, pod: str, *, timeout_s: float = REQUEST_TIMEOUT_S) -> EtcdApi:
    """Returns one member's API, called through the API server. Its calls raise ClusterError,
    EtcdError.
    """

    async def post(path: str, body: Mapping[str, object]) -> Mapping[str, Any]:
        answer = await kube.pod_proxy(
            pod,
            CLIENT_PORT,
            path,
            method="POST",
            body=msgspec.json.encode(body),
            timeout_s=timeout_s,
        )
        found: Mapping[str, Any] = msgspec.json.decode(answer, type=dict[str, Any])
        return found

    return EtcdApi(post)


class EtcdMemberSource:
    """The members of one run's etcd."""

    journals = False
    ports = LinkPorts(peers=PEER_PORT, clients=CLIENT_PORT)

    def __init__(self, kube: Kube, members: EtcdObjects, zone: str) -> None:
        self._kube = kube
        self._zone = zone
        self._members = members
        self.pod_labels = members.labels
        self.fixed_keys = [KeysView(zone=zone, partition=PARTITION, stable=tuple(members.pods))]

    async def report(self, pod: PodView, *, timeout_s: float) -> ReplicasReport:
        try:
            status = await etcd_at(self._kube, pod.name, timeout_s=timeout_s).status()
        except EtcdError as error:
            raise ClusterError(f"{pod.name}: {error}") from error
        return report_of(pod, status, zone=self._zone, members=self._members)


def report_of(
    pod: PodView, status: EtcdStatus, *, zone: str, members: EtcdObjects
) -> ReplicasReport:
    """Returns a member's status as a report; `applied` is its revision."""
    storage = incarnation(status.header.member_id)
    return ReplicasReport(
        node=NodeIdentity(
            name=pod.name,
            process_incarnation=pod.process,
            storage_incarnation=storage,
            pod_uid=pod.uid,
            attributes={},
            peer_address="",
            client_address="",
        ),
        replicas=[
            ReplicaStatus(
                group=group_of(zone),
                zone=zone,
                partition=PARTITION,
                incarnation=storage,
                role=_role(status),
                term=status.raft_term,
                configuration=ConfigurationReport(
                    peers=[PeerName(node=name, incarnation="") for name in members.pods],
                    token=0,
                    index=0,
                ),
                had_leader=status.leader != 0,
                commit=status.raft_index,
                applied=status.header.revision,
            )
        ],
    )


def incarnation(member_id: int) -> str:
    """Returns a member's id as etcd writes it; it changes if the member loses its data."""
    return f"{member_id:016x}"


def _role(status: EtcdStatus) -> ReplicaRole:
    if status.leads:
        return ReplicaRole.LEADER
    return ReplicaRole.FOLLOWER if status.leader else ReplicaRole.CANDIDATE

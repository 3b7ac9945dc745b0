"""The members of an etcd: how they are started, and what they report through the API server.

Members that speak TLS to clients also listen without it on their pods' loopback, where the harness
asks them: the API server's proxy shows no certificate.

A member's process is named by its pod and the kubelet's count of container restarts: etcd does not
report when it started.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from zonequake_analysis.inputs.prometheus.server_metrics import declare
from zonequake_chaos.kit.member_set import DATA_FOLDER, MemberSet
from zonequake_chaos.kit.members import DumpedKey, MemberDump, MemberStatus
from zonequake_chaos.observe.view import LinkPorts
from zonequake_kube.client import Kube
from zonequake_kube.connection import REQUEST_TIMEOUT_S
from zonequake_kube.errors import ClusterError, NotFound
from zonequake_kube.loopback import PodLoopback
from zonequake_kube.objects import HANDS_CONTAINER, Json
from zonequake_protocol.admin import ReplicaRole
from zonequake_target_etcd.client.protocol.errors import EtcdError
from zonequake_target_etcd.client.protocol.records import LINEAGE, TERM, dump_prefix, read
from zonequake_target_etcd.interface.arguments import CLIENTS_TLS, PEERS_TLS, scheme
from zonequake_target_etcd.interface.gateway import (
    NOT_FOUND,
    PEER_HASH_PATH,
    EtcdApi,
    EtcdDump,
    EtcdStatus,
    digest_of,
    peer_hash_request,
)

PROGRAM = "etcd"
PORTS = LinkPorts(peers=7001, clients=2379)
METRICS_PORT, LOOPBACK_PORT = 2381, 2382
"""Ports without TLS in any case: the kubelet asks the first one for health, and it has no key or
value; the second one takes every request, and is on the pod's loopback."""


class EtcdMembers:
    """The members of one run (see `members.MemberSystem`)."""

    def __init__(self, kube: Kube, *, run_id: str, zone: str, args: Sequence[str] = ()) -> None:
        """`args`: the scenario's, which say whether the members speak TLS."""
        self._kube = kube
        self._run_id = run_id
        self._zone = zone
        self._peers = scheme(args, PEERS_TLS)
        self._loopback: PodLoopback | None = None
        if scheme(args, CLIENTS_TLS) == "https":
            self._loopback = PodLoopback(kube, HANDS_CONTAINER)

    def container(self, members: MemberSet) -> Json:
        return container(members, token=self._run_id)

    async def version(self, pod: str) -> str:
        raw = await self._as_client(pod, "GET", "/version", b"", REQUEST_TIMEOUT_S)
        return str(msgspec.json.decode(raw, type=dict[str, str])["etcdserver"])

    async def status(self, pod: str, *, timeout_s: float) -> MemberStatus:
        try:
            return status_of(await self._at(pod, timeout_s).status())
        except EtcdError as error:
            raise ClusterError(f"{pod}: {error}") from error

    async def differences(self, pods: Sequence[str], applied: int) -> str:
        """Compares the hashes of all keys, with their history, at that revision."""
        hashes = {}
        for pod in pods:
            try:
                hashes[pod] = (await self._at(pod).hash_kv(applied)).hash
            except EtcdError as error:
                raise ClusterError(f"{pod}: {error}") from error
        if len(set(hashes.values())) == 1:
            return ""
        return f"hashes of revision {applied} differ: {hashes}"

    async def dump(self, pod: str) -> MemberDump:
        try:
            return dumped(await self._at(pod).dump(dump_prefix(self._zone)), zone=self._zone)
        except EtcdError as error:
            raise ClusterError(f"{pod}: {error}") from error

    def _at(self, pod: str, timeout_s: float = REQUEST_TIMEOUT_S) -> EtcdApi:
        """Returns one member's API. Its calls raise ClusterError, EtcdError."""

        async def post(path: str, body: Mapping[str, object]) -> Mapping[str, Any]:
            asked = msgspec.json.encode(body)
            try:
                answer = await self._as_client(pod, "POST", path, asked, timeout_s)
            except NotFound as error:
                raise EtcdError(code=NOT_FOUND, message=str(error), certain=True) from error
            return msgspec.json.decode(answer, type=dict[str, Any])

        async def ask_peer(revision: int) -> Mapping[str, Any]:
            answer = await self._kube.pod_proxy(
                pod,
                PORTS.peers,
                PEER_HASH_PATH,
                body=msgspec.json.encode(peer_hash_request(revision)),
                scheme=self._peers,
                timeout_s=timeout_s,
            )
            return msgspec.json.decode(answer, type=dict[str, Any])

        return EtcdApi(post, ask_peer=ask_peer)

    async def _as_client(
        self, pod: str, method: str, path: str, body: bytes, timeout_s: float
    ) -> bytes:
        if self._loopback is not None:
            return await self._loopback.ask(
                pod, LOOPBACK_PORT, path, method=method, body=body, timeout_s=timeout_s
            )
        return await self._kube.pod_proxy(
            pod, PORTS.clients, path, method=method, body=body, timeout_s=timeout_s
        )


def container(members: MemberSet, *, token: str) -> Json:
    """Returns a member's container: names that outlive a pod, and TLS where an argument of the
    scenario's names a certificate for it.
    """
    args = members.settings.args
    clients, peers = scheme(args, CLIENTS_TLS), scheme(args, PEERS_TLS)
    listening = [f"{clients}://0.0.0.0:{PORTS.clients}"]
    listening += [f"http://127.0.0.1:{LOOPBACK_PORT}"] if clients == "https" else []
    words = {
        "name": "$(POD)",
        "data-dir": f"{DATA_FOLDER}/etcd",
        "listen-client-urls": ",".join(listening),
        "listen-metrics-urls": f"http://0.0.0.0:{METRICS_PORT}",
        "metrics": "extensive",  # with the latency of requests
        "advertise-client-urls": f"{clients}://{members.address('$(POD)', PORTS.clients)}",
        "listen-peer-urls": f"{peers}://0.0.0.0:{PORTS.peers}",
        "initial-advertise-peer-urls": f"{peers}://{members.address('$(POD)', PORTS.peers)}",
        "initial-cluster": ",".join(
            f"{pod}={peers}://{members.address(pod, PORTS.peers)}" for pod in members.pods
        ),
        "initial-cluster-state": "new",  # a member that has data ignores it
        "initial-cluster-token": token,
    }
    health = {"httpGet": {"path": "/health?serializable=true", "port": METRICS_PORT}}
    return {
        "command": [PROGRAM],
        "args": [
            *(f"--{name}={value}" for name, value in words.items()),
            *([] if members.fsync else ["--unsafe-no-fsync"]),
        ],
        "startupProbe": health | {"periodSeconds": 1, "failureThreshold": 120},
        "livenessProbe": health | {"periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 6},
        "readinessProbe": health | {"periodSeconds": 1, "timeoutSeconds": 2, "failureThreshold": 2},
        "resources": {
            "requests": {"cpu": "50m", "memory": "96Mi"},
            "limits": {"cpu": "1", "memory": "512Mi"},
        },
    }


OWN_OPTIONS = frozenset(
    {
        "name",
        "data-dir",
        "listen-client-urls",
        "listen-metrics-urls",
        "metrics",
        "advertise-client-urls",
        "listen-peer-urls",
        "initial-advertise-peer-urls",
        "initial-cluster",
        "initial-cluster-state",
        "initial-cluster-token",
        "config-file",
    }
)
"""The options that `container` gives, by which members find each other and tell metrics, and the
one with which etcd would read none of them."""


SERVER_METRICS = declare(
    ("grpc_server_handling_seconds", "p50", "p50 of requests in the member"),
    ("grpc_server_handling_seconds", "p99", "p99 of requests in the member"),
    ("etcd_server_range_duration_seconds", "p99", "p99 of reads in the member"),
    ("etcd_server_apply_duration_seconds", "p99", "p99 of applies"),
    ("etcd_server_proposals_pending", "level", "proposals waiting"),
    ("etcd_disk_wal_fsync_duration_seconds", "p99", "p99 of the log's fsync"),
    ("etcd_disk_backend_commit_duration_seconds", "p99", "p99 of the backend's commits"),
    ("etcd_server_slow_apply_total", "rate", "slow applies"),
    ("etcd_server_heartbeat_send_failures_total", "rate", "heartbeats sent late"),
    ("process_cpu_seconds_total", "rate", "CPU (limit: 1)"),
)


def status_of(status: EtcdStatus) -> MemberStatus:
    """Returns a member's status; `applied` is its revision."""
    if status.leads:
        role = ReplicaRole.LEADER
    else:
        role = ReplicaRole.FOLLOWER if status.leader else ReplicaRole.CANDIDATE
    return MemberStatus(
        role=role,
        term=status.raft_term,
        applied=status.header.revision,
        commit=status.raft_index,
        storage=_storage(status.header.member_id),
        knows_leader=status.leader != 0,
    )


def dumped(dump: EtcdDump, *, zone: str) -> MemberDump:
    """Returns the content of one member; `dump` is of `dump_prefix(zone)`."""
    prefix = dump_prefix(zone)
    return MemberDump(
        applied=dump.revision,
        log_index=dump.log_index,
        digest=digest_of(dump),
        storage=_storage(dump.member_id),
        keys=[
            DumpedKey(
                key=kv.key.removeprefix(prefix).decode(errors="replace"),
                value=read(kv.value),
                index=kv.mod_revision,
            )
            for kv in dump.kvs
        ],
        lineage=LINEAGE,
        term=TERM,
    )


def _storage(member_id: int) -> str:
    """Returns a member's id as etcd writes it; it changes if the member loses its data."""
    return f"{member_id:016x}"

"""The Kubernetes objects of an etcd under test: pure builders, one per kind.

They are as close to our data nodes as possible: the same user, limits and storage, a Parallel
StatefulSet with a headless service that names members before they are ready, and the same port for
peers, so that every cut applies. Each pod also has our container `shell`, in the same PID
namespace: it sends the signals, so that any build of etcd can be used as image.
"""

from __future__ import annotations

from dataclasses import dataclass

from zonequake_chaos.load.installation import Installation
from zonequake_chaos.load.objects import RUN_LABEL
from zonequake_chaos.scenario.run import RunEtcd
from zonequake_kube.objects import (
    HANDS_CONTAINER,
    POOL_LABEL,
    PROGRAM_LABEL,
    RESTRICTED_CONTAINER,
    RESTRICTED_POD,
    Json,
)

CLIENT_PORT = 2379
PEER_PORT = 7001
ETCD_LABEL = "zonequake.io/etcd"
KINDS = ("StatefulSet", "PodDisruptionBudget", "Service", "PersistentVolumeClaim")
_PROGRAM = "etcd"
_VOLUME_SIZE = "1Gi"


@dataclass(frozen=True, slots=True, kw_only=True)
class EtcdObjects:
    """The etcd of one run. `name` is the name of its StatefulSet and service, and ends with the
    pool's name, so that a scenario names a member like a data node: `default-0`.
    """

    name: str
    pool: str
    count: int
    namespace: str
    image: str
    fsync: bool
    settings: RunEtcd

    @property
    def labels(self) -> str:
        """The labels that select all its objects."""
        return f"{ETCD_LABEL}={self.name}"

    @property
    def pods(self) -> list[str]:
        return [f"{self.name}-{ordinal}" for ordinal in range(self.count)]

    def address(self, pod: str, port: int) -> str:
        return f"{pod}.{self.name}.{self.namespace}.svc:{port}"

    @property
    def endpoints(self) -> list[str]:
        """The address of each member for clients."""
        return [self.address(pod, CLIENT_PORT) for pod in self.pods]


def etcd_objects(members: EtcdObjects, *, run_id: str, installation: Installation) -> list[Json]:
    """Returns all objects, in the order in which to apply them."""
    labels = {
        "app.kubernetes.io/name": "zonequake",
        "app.kubernetes.io/component": "etcd",
        "app.kubernetes.io/instance": installation.release,
        RUN_LABEL: run_id,
        ETCD_LABEL: members.name,
        POOL_LABEL: members.pool,
        PROGRAM_LABEL: _PROGRAM,
    }
    selector = {ETCD_LABEL: members.name}
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": members.name, "labels": labels},
            "spec": {
                "clusterIP": "None",
                "publishNotReadyAddresses": True,
                "selector": selector,
                "ports": [
                    {"name": "clients", "port": CLIENT_PORT},
                    {"name": "peers", "port": PEER_PORT},
                ],
            },
        },
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": members.name, "labels": labels},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": selector}},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": members.name, "labels": labels},
            "spec": {
                "serviceName": members.name,
                "replicas": members.count,
                "podManagementPolicy": "Parallel",
                "selector": {"matchLabels": selector},
                "persistentVolumeClaimRetentionPolicy": {
                    "whenDeleted": "Delete",
                    "whenScaled": "Retain",
                },
                "template": {
                    "metadata": {"labels": labels},
                    "spec": _pod_spec(members, run_id, installation),
                },
                "volumeClaimTemplates": [
                    {
                        "metadata": {"name": "data", "labels": labels},
                        "spec": {
                            "accessModes": ["ReadWriteOnce"],
                            "resources": {"requests": {"storage": _VOLUME_SIZE}},
                        },
                    }
                ],
            },
        },
    ]


def _arguments(members: EtcdObjects, run_id: str) -> list[str]:
    """Returns etcd's options: names that outlive a pod; no TLS, as the etcd is the run's alone."""
    peers = [f"{pod}=http://{members.address(pod, PEER_PORT)}" for pod in members.pods]
    settings = members.settings
    words = {
        "name": "$(POD)",
        "data-dir": "/data/etcd",
        "listen-client-urls": f"http://0.0.0.0:{CLIENT_PORT}",
        "advertise-client-urls": f"http://{members.address('$(POD)', CLIENT_PORT)}",
        "listen-peer-urls": f"http://0.0.0.0:{PEER_PORT}",
        "initial-advertise-peer-urls": f"http://{members.address('$(POD)', PEER_PORT)}",
        "initial-cluster": ",".join(peers),
        "initial-cluster-state": "new",  # a member that has data ignores it
        "initial-cluster-token": run_id,
        "heartbeat-interval": str(settings.heartbeat_ms),
        "election-timeout": str(settings.election_timeout_ms),
    }
    flags = [f"--{name}={value}" for name, value in words.items()]
    return flags if members.fsync else [*flags, "--unsafe-no-fsync"]


def _pod_spec(members: EtcdObjects, run_id: str, installation: Installation) -> Json:
    health = {"httpGet": {"path": "/health?serializable=true", "port": "clients"}}
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "shareProcessNamespace": True,
        "terminationGracePeriodSeconds": 30,
        "securityContext": RESTRICTED_POD,
        "containers": [
            {
                "name": _PROGRAM,
                "image": members.image,
                "imagePullPolicy": "IfNotPresent",
                "command": [_PROGRAM],
                "args": _arguments(members, run_id),
                "env": [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                "ports": [
                    {"name": "clients", "containerPort": CLIENT_PORT},
                    {"name": "peers", "containerPort": PEER_PORT},
                ],
                "startupProbe": health | {"periodSeconds": 1, "failureThreshold": 120},
                "livenessProbe": health
                | {"periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 6},
                "readinessProbe": health
                | {"periodSeconds": 1, "timeoutSeconds": 2, "failureThreshold": 2},
                "resources": {
                    "requests": {"cpu": "50m", "memory": "96Mi"},
                    "limits": {"cpu": "1", "memory": "512Mi"},
                },
                "securityContext": RESTRICTED_CONTAINER,
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            },
            {
                "name": HANDS_CONTAINER,
                "image": installation.load_image,
                "imagePullPolicy": installation.load_pull_policy,
                "args": ["sleep", "infinity"],
                "resources": {
                    "requests": {"cpu": "10m", "memory": "16Mi"},
                    "limits": {"cpu": "200m", "memory": "64Mi"},
                },
                "securityContext": RESTRICTED_CONTAINER,
            },
        ],
    }

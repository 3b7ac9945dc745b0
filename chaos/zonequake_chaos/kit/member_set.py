"""The Kubernetes objects of a target that is a set of equal members: pure builders.

They are as close to our data nodes as possible: the same user, limits and storage, and a Parallel
StatefulSet with a headless service that names members before they are ready. Each pod also has our
container `hands`, in the same PID namespace: it sends the signals, so that any image can be used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from zonequake_chaos.kit.limits.member_limits import check_files, check_folders, check_names
from zonequake_chaos.kit.limits.one_group import POD_VARIABLE
from zonequake_chaos.kit.target import TargetPlace
from zonequake_chaos.load.installation import Installation
from zonequake_chaos.load.objects import RUN_LABEL
from zonequake_chaos.observe.view import LinkPorts
from zonequake_chaos.scenario.run import RunTarget
from zonequake_kube.objects import (
    HANDS_CONTAINER,
    POOL_LABEL,
    PROGRAM_LABEL,
    RESTRICTED_CONTAINER,
    RESTRICTED_POD,
    Json,
)

TARGET_LABEL = "zonequake.io/target"
KINDS = (
    "StatefulSet",
    "PodDisruptionBudget",
    "Service",
    "ConfigMap",
    "PersistentVolumeClaim",
)
DATA_FOLDER = "/data"
"""The folder of a member's volume."""

TMP_FOLDER = "/tmp"  # noqa: S108 - of the member's container
TOKEN_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a folder
"""The folder in which Kubernetes mounts the token of `MemberSet.account`."""

_FILES = "files"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSet:
    """The members of one run's target. `name` is the name of its StatefulSet and service, and ends
    with the pool's name, so that a scenario names a member like a data node: `default-0`.

    `target`: its name, which its container has. `program`: the last part of the first word of the
    process under test's command line, as `python` of `/usr/bin/python x.py`: signals find it by
    that. `service`: the headless service that names the members, one for all targets, so that the
    release's Prometheus knows where to ask. `metrics_port`: where a member answers GET /metrics
    without TLS; 0: nowhere. `files`: the target's own texts by their paths in the members'
    containers. `account`: a service account whose token the members get; empty: none.

    Raises UsageError for names and files that Kubernetes would refuse.
    """

    name: str
    target: str
    program: str
    pool: str
    count: int
    namespace: str
    image: str
    pull_policy: str
    fsync: bool
    ports: LinkPorts
    settings: RunTarget
    service: str
    metrics_port: int = 0
    volume_size: str = "1Gi"
    files: Mapping[str, str] = field(default_factory=dict)
    account: str = ""

    def __post_init__(self) -> None:
        check_names(members=self.name, target=self.target, program=self.program)
        volumes = (DATA_FOLDER, TMP_FOLDER)
        check_files(self.files, self.settings.files, folders=volumes)
        taken = {*volumes, *self.files, *self.settings.files}
        taken |= {TOKEN_FOLDER} if self.account else set()
        check_folders(self.settings.secrets, taken=taken)

    @classmethod
    def of(
        cls,
        place: TargetPlace,
        *,
        target: str,
        program: str,
        ports: LinkPorts,
        image: str | None = None,
        files: Mapping[str, str] | None = None,
        account: str = "",
        metrics_port: int = 0,
    ) -> MemberSet:
        """Returns the members of the run at `place`, whose scenario has one zone and one pool.

        `image`: the target's own, which the scenario's replaces. Default: that of the load, which
        has Python. Raises UsageError.
        """
        spec, installation = place.run.spec, place.installation
        (zone,), (pool,) = spec.zones, spec.pools
        return cls(
            name=f"{installation.release}-{target}-{pool.name}",
            target=target,
            program=program,
            pool=pool.name,
            count=pool.replicas,
            namespace=installation.namespace,
            image=spec.target.image or image or installation.load_image,
            pull_policy="IfNotPresent",
            fsync=zone.fsync,
            ports=ports,
            settings=spec.target,
            service=f"{installation.release}-target",
            metrics_port=metrics_port,
            files=files or {},
            account=account,
        )

    @property
    def labels(self) -> str:
        """The labels that select all its objects."""
        return f"{TARGET_LABEL}={self.name}"

    @property
    def pods(self) -> list[str]:
        return [f"{self.name}-{ordinal}" for ordinal in range(self.count)]

    @property
    def named_ports(self) -> list[tuple[str, int]]:
        """The ports of a member; that of metrics has the name by which all of a release are
        scraped.
        """
        ports = [("clients", self.ports.clients), ("peers", self.ports.peers)]
        return ports + ([("http", self.metrics_port)] if self.metrics_port else [])

    def address(self, pod: str, port: int) -> str:
        return f"{pod}.{self.service}.{self.namespace}.svc:{port}"

    @property
    def endpoints(self) -> list[str]:
        """The address of each member for clients."""
        return [self.address(pod, self.ports.clients) for pod in self.pods]


def member_objects(
    members: MemberSet, container: Json, *, run_id: str, installation: Installation
) -> list[Json]:
    """Returns all objects, in the order in which to apply them.

    `container`: the command, arguments, probes and resources of a member; image, environment,
    volumes and the scenario's own arguments and variables are added.
    """
    labels = {
        "app.kubernetes.io/name": "zonequake",
        "app.kubernetes.io/component": "target",
        "app.kubernetes.io/instance": installation.release,
        RUN_LABEL: run_id,
        TARGET_LABEL: members.name,
        POOL_LABEL: members.pool,
        PROGRAM_LABEL: members.program,
    }
    selector = {TARGET_LABEL: members.name}
    storage = members.settings.storage
    claim: Json = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": storage.size or members.volume_size}},
    }
    if storage.class_name is not None:
        claim["storageClassName"] = storage.class_name
    return [
        *_config_maps(members, labels),
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": members.service, "labels": labels},
            "spec": {
                "clusterIP": "None",
                "publishNotReadyAddresses": True,
                "selector": selector,
                "ports": [{"name": name, "port": port} for name, port in members.named_ports],
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
                "serviceName": members.service,
                "replicas": members.count,
                "podManagementPolicy": "Parallel",
                "selector": {"matchLabels": selector},
                "persistentVolumeClaimRetentionPolicy": {
                    "whenDeleted": "Delete",
                    "whenScaled": "Retain",
                },
                "template": {
                    "metadata": {"labels": labels},
                    "spec": _pod_spec(members, container, installation),
                },
                "volumeClaimTemplates": [
                    {"metadata": {"name": "data", "labels": labels}, "spec": claim}
                ],
            },
        },
    ]


def _all_files(members: MemberSet) -> dict[str, str]:
    return {**members.files, **members.settings.files}


def _config_maps(members: MemberSet, labels: Mapping[str, str]) -> list[Json]:
    texts = _all_files(members)
    if not texts:
        return []
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": members.name, "labels": dict(labels)},
            "data": {f"file-{number}": text for number, text in enumerate(texts.values())},
        }
    ]


def _pod_spec(members: MemberSet, container: Json, installation: Installation) -> Json:
    mounts = [
        {"name": _FILES, "mountPath": path, "subPath": f"file-{number}", "readOnly": True}
        for number, path in enumerate(_all_files(members))
    ]
    secrets = {
        f"secret-{number}": given for number, given in enumerate(members.settings.secrets.items())
    }
    return {
        **({"serviceAccountName": members.account} if members.account else {}),
        "automountServiceAccountToken": bool(members.account),
        "enableServiceLinks": False,
        "shareProcessNamespace": True,
        "terminationGracePeriodSeconds": 30,
        "securityContext": RESTRICTED_POD,
        "containers": [
            {
                **container,
                "name": members.target,
                "image": members.image,
                "imagePullPolicy": members.pull_policy,
                "args": [*container.get("args", []), *members.settings.args],
                "env": _environment(members, container),
                "ports": [
                    {"name": name, "containerPort": port} for name, port in members.named_ports
                ],
                "securityContext": RESTRICTED_CONTAINER,
                "volumeMounts": [
                    {"name": "data", "mountPath": DATA_FOLDER},
                    {"name": "tmp", "mountPath": TMP_FOLDER},
                    *mounts,
                    *(
                        {"name": name, "mountPath": folder, "readOnly": True}
                        for name, (folder, _) in secrets.items()
                    ),
                ],
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
        "volumes": [
            {"name": "tmp", "emptyDir": {}},
            *([{"name": _FILES, "configMap": {"name": members.name}}] if mounts else []),
            *(
                {"name": name, "secret": {"secretName": secret, "defaultMode": 0o440}}
                for name, (_, secret) in secrets.items()
            ),
        ],
    }


def _environment(members: MemberSet, container: Json) -> list[Json]:
    """Returns the variables: the member's name, the target's own, and the scenario's, which replace
    those.
    """
    given = members.settings.env
    return [
        {"name": POD_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        *(each for each in container.get("env", []) if each["name"] not in given),
        *({"name": name, "value": value} for name, value in given.items()),
    ]

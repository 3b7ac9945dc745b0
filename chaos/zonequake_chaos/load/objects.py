"""The Kubernetes objects of a run's load: pure builders, one per kind.

The load is a StatefulSet, so that a killed writer pod comes back with its name and volume, and
keeps its history.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import msgspec

from zonequake_chaos.kit.client_code import ClientCode
from zonequake_chaos.load.installation import Installation
from zonequake_chaos.scenario.run import RunSpec, RunZone
from zonequake_kube.objects import RESTRICTED_CONTAINER, RESTRICTED_POD, Json
from zonequake_load.pod.control import (
    CLIENT_FOLDER,
    AppendListWorkload,
    LoadPlan,
    Preload,
    Pressure,
    Probes,
    RegisterWorkload,
    TransactionWorkload,
)
from zonequake_tls.identity import TlsRole

CONTAINER = "load"
LOAD_PORT = 8081
RUN_LABEL = "zonequake.io/run"
_VOLUME_SIZE = "2Gi"
_PLAN_KEY = "plan.json"
_SOURCES_FOLDER = "/client"
_SOURCES_MOUNT = {"name": "client", "mountPath": _SOURCES_FOLDER, "readOnly": True}
_PYTHON_PATH = f"/app:{_SOURCES_FOLDER}"
"""The image's own path (Dockerfile), and the target's client after it."""

_TLS_FOLDER = "/tls"
_TLS_MOUNT = {"name": "tls", "mountPath": _TLS_FOLDER, "readOnly": True}
_SECRET_MOUNT = {"name": "secret", "mountPath": CLIENT_FOLDER, "readOnly": True}


def load_plan(
    *,
    client: str,
    seeds: list[str],
    zone: RunZone,
    spec: RunSpec,
    seed: int,
) -> LoadPlan:
    """Returns the plan of all load pods of one zone; `client` and `seeds` as in `LoadPlan`."""
    load = spec.load
    workloads: list[RegisterWorkload | AppendListWorkload | TransactionWorkload] = []
    if load.register_rate:
        workloads.append(
            RegisterWorkload(
                operations_per_second=load.register_rate,
                keys_per_partition=load.register_keys_per_partition,
                reads=load.register_reads,
                cas=load.register_cas,
                skew=load.key_skew,
                hot=load.hot_key_share,
                filler_bytes=load.register_value_bytes,
            )
        )
    if load.list_rate:
        workloads.append(
            AppendListWorkload(
                operations_per_second=load.list_rate,
                keys_per_partition=load.list_keys_per_partition,
                reads=load.list_reads,
                skew=load.key_skew,
                hot=load.hot_key_share,
            )
        )
    if load.transactions is not None:
        workloads.append(
            TransactionWorkload(
                operations_per_second=load.transactions.rate,
                keys_per_partition=load.transactions.keys_per_partition,
                steps=load.transactions.steps,
                reads=load.transactions.reads,
            )
        )
    return LoadPlan(
        client=client,
        zone=zone.name,
        seeds=seeds,
        pods=load.pods,
        workloads=workloads,
        probes=Probes(budget_per_second=load.probe_rate) if load.probe_rate else None,
        preload=Preload(
            bulk_keys_per_partition=load.bulk_keys_per_partition, filler_bytes=load.filler_bytes
        ),
        processes=load.processes,
        deadline_ms=load.operation_timeout_ms,
        attempt_ms=load.attempt_timeout_ms,
        final_timeout_s=spec.times.final_timeout_s,
        seed=seed,
        secret=spec.target.client_secret or "",
        reads_at=load.reads_at,
        loop=load.loop,
        pressure=None
        if load.pressure is None
        else Pressure(
            processes=load.pressure.processes,
            keys=load.pressure.keys,
            filler_bytes=load.pressure.value_bytes,
        ),
    )


def load_objects(
    *, name: str, run_id: str, plan: LoadPlan, code: ClientCode, installation: Installation
) -> list[Json]:
    """Returns all objects of one zone's load, in the order in which to apply them."""
    labels = {
        "app.kubernetes.io/name": "zonequake",
        "app.kubernetes.io/component": "load",
        "app.kubernetes.io/instance": installation.release,
        RUN_LABEL: run_id,
        "zonequake.io/load": name,
    }
    return [
        _config_map(name, labels, plan, code.files()),
        _service(name, labels),
        _stateful_set(name, labels, plan, code, installation),
    ]


def _config_map(
    name: str, labels: Mapping[str, str], plan: LoadPlan, sources: Mapping[str, str]
) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": labels},
        "data": {
            _PLAN_KEY: json.dumps(msgspec.to_builtins(plan), indent=1),
            **{_source_key(number): text for number, text in enumerate(sources.values())},
        },
    }


def _service(name: str, labels: Mapping[str, str]) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {"zonequake.io/load": name},
            "ports": [{"name": "http", "port": LOAD_PORT}],
        },
    }


def _source_key(number: int) -> str:
    """Returns the key of a source: a key can't be a path, which the volume gives it again."""
    return f"source-{number}"


def _stateful_set(
    name: str,
    labels: Mapping[str, str],
    plan: LoadPlan,
    code: ClientCode,
    installation: Installation,
) -> Json:
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "serviceName": name,
            "replicas": plan.pods,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"zonequake.io/load": name}},
            "persistentVolumeClaimRetentionPolicy": {
                "whenDeleted": "Delete",
                "whenScaled": "Retain",
            },
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    **_pod_spec(name, code, installation, secret=plan.secret),
                    "affinity": _on_one_node(labels[RUN_LABEL]),
                },
            },
            "volumeClaimTemplates": [
                {
                    "metadata": {"name": "history", "labels": labels},
                    "spec": {
                        "accessModes": ["ReadWriteOnce"],
                        "resources": {"requests": {"storage": _VOLUME_SIZE}},
                    },
                }
            ],
        },
    }


def _on_one_node(run_id: str) -> Json:
    """Returns the affinity that puts all load pods of a run on one node: times of several clocks
    can't be compared, and the judgement would be unknown."""
    return {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {
                    "labelSelector": {
                        "matchLabels": {"app.kubernetes.io/component": "load", RUN_LABEL: run_id}
                    },
                    "topologyKey": "kubernetes.io/hostname",
                }
            ]
        }
    }


def _pod_spec(name: str, code: ClientCode, installation: Installation, *, secret: str) -> Json:
    tls = installation.tls
    sources = [
        {"key": _source_key(number), "path": path} for number, path in enumerate(code.files())
    ]
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 5,
        "securityContext": RESTRICTED_POD,
        "containers": [
            {
                "name": CONTAINER,
                "image": code.image or installation.load_image,
                "imagePullPolicy": installation.load_pull_policy,
                "args": ["python", "-m", "zonequake_load"],
                "env": [
                    *([{"name": "PYTHONPATH", "value": _PYTHON_PATH}] if sources else []),
                    {"name": "ZQ_LOAD_PLAN", "value": f"/plan/{_PLAN_KEY}"},
                    {"name": "ZQ_LOAD_DIR", "value": "/history"},
                    {
                        "name": "ZQ_LOAD_POD",
                        "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}},
                    },
                    *([] if tls is None else tls.environment(_TLS_FOLDER)),
                ],
                "ports": [{"name": "http", "containerPort": LOAD_PORT}],
                "readinessProbe": {
                    "httpGet": {"path": "/healthz", "port": "http"},
                    "periodSeconds": 1,
                    "failureThreshold": 2,
                },
                "resources": {
                    "requests": {"cpu": "50m", "memory": "96Mi"},
                    "limits": {"cpu": "1", "memory": "512Mi"},
                },
                "securityContext": RESTRICTED_CONTAINER,
                "volumeMounts": [
                    {"name": "plan", "mountPath": "/plan", "readOnly": True},
                    {"name": "history", "mountPath": "/history"},
                    {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108
                    *([_SOURCES_MOUNT] if sources else []),
                    *([] if tls is None else [_TLS_MOUNT]),
                    *([_SECRET_MOUNT] if secret else []),
                ],
            }
        ],
        "volumes": [
            {
                "name": "plan",
                "configMap": {"name": name, "items": [{"key": _PLAN_KEY, "path": _PLAN_KEY}]},
            },
            *(
                [{"name": "client", "configMap": {"name": name, "items": sources}}]
                if sources
                else []
            ),
            {"name": "tmp", "emptyDir": {}},
            *([] if tls is None else [tls.volume(TlsRole.LOAD)]),
            *(
                [{"name": "secret", "secret": {"secretName": secret, "defaultMode": 0o440}}]
                if secret
                else []
            ),
        ],
    }

"""Executors as the API server has them, asked for by the client that Spark itself uses.

So the question works wherever the driver does: in a pod, and with a person's kubeconfig.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext

from zonequake_analysis.pods.waiting import (
    PodObject,
    has_started,
    why_barred,
    why_it_fails,
    why_it_waits,
)

_NAMESPACE, _CONTEXT = "spark.kubernetes.namespace", "spark.kubernetes.context"
_SAID = re.compile(r"Message: (.+?)\.? (?:Received status|$)", re.DOTALL)


def is_kubernetes(master: str) -> bool:
    """Returns whether executors of this master are pods."""
    return master.startswith("k8s://")


def why_none_will_come(context: SparkContext) -> str | None:
    """Returns the cause that keeps every executor from starting, or from the driver; None if one
    may still come.
    """
    pods = _pods(context) or []
    causes = [why_it_fails(pod) for pod in pods]
    return causes[0] if causes and None not in causes else None


def why_one_is_barred(context: SparkContext) -> str | None:
    """Returns why an executor that started can't reach the driver; None if none says so.

    Spark soon deletes its pod and makes another, so it is seen for a second or two.
    """
    causes = (why_barred(pod) for pod in _pods(context) or [])
    return next((cause for cause in causes if cause is not None), None)


def why_none_came(context: SparkContext) -> str | None:
    """Returns what executors wait for; None if one runs, or if that can't be found out."""
    pods = _pods(context)
    if pods is None or any(map(has_started, pods)):
        return None
    if not pods:
        return _refusal(context)
    return next((cause for pod in pods if (cause := why_it_waits(pod)) is not None), None)


def _pods(context: SparkContext) -> list[PodObject] | None:
    """Returns the application's executors; None if they can't be asked for."""
    try:
        with _client(context) as client:
            found = (
                client.pods()
                .inNamespace(_namespace(context))
                .withLabel("spark-app-selector", context.applicationId)
                .withLabel("spark-role", "executor")
                .list()
            )
            listed = json.loads(_serialization(context).asJson(found))
            return list(listed.get("items", []))  # left out if empty
    except Py4JError:
        return None


def _refusal(context: SparkContext) -> str | None:
    """Returns the server's words to an executor's pod that is only tried: rights, quota."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "zonequake-asks-"},
        "spec": {
            "containers": [
                {
                    "name": "executor",
                    "image": "none",
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                    },
                }
            ],
            "securityContext": {
                "runAsNonRoot": True,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
        },
    }
    try:
        with _client(context) as client:
            tried = _serialization(context).unmarshal(json.dumps(pod))
            client.pods().inNamespace(_namespace(context)).resource(tried).dryRun().create()
    except Py4JError as error:
        told = str(getattr(error, "java_exception", error)).strip()
        said = _SAID.search(told)
        words = " ".join((said[1] if said else told.partition("\n")[0]).split())
        return f"the API server refuses executors: {words}"
    return None


@contextmanager
def _client(context: SparkContext) -> Iterator[Any]:
    api = _jvm(context).io.fabric8.kubernetes.client
    config = api.Config.autoConfigure(context.getConf().get(_CONTEXT, None))
    config.setMasterUrl(str(context.master).removeprefix("k8s://").rstrip("/") + "/")
    client = api.KubernetesClientBuilder().withConfig(config).build()
    try:
        yield client
    finally:
        client.close()


def _serialization(context: SparkContext) -> Any:  # noqa: ANN401 - a class of the JVM
    return _jvm(context).io.fabric8.kubernetes.client.utils.Serialization


def _jvm(context: SparkContext) -> Any:  # noqa: ANN401 - the JVM's packages
    return context._jvm


def _namespace(context: SparkContext) -> str:
    return context.getConf().get(_NAMESPACE, None) or "default"

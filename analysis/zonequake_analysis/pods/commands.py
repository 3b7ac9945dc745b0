"""The commands of a pod by its first argument: Spark's own `driver` and `executor`, and `analyze`.

Spark's distribution has a script for the first two, which PySpark lacks. Spark describes an
executor by variables of its environment (`BasicExecutorFeatureStep`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from zonequake_analysis.errors import PodError

SETTINGS = Path("/etc/zonequake/analysis")
"""The folder of the release's ConfigMap in a driver's pod."""
SPARK_CONF, EXECUTOR_TEMPLATE = "spark.conf", "executor.yaml"
API_SERVER = "k8s://https://kubernetes.default.svc"
EXECUTOR, DRIVER_URL = "executor", "SPARK_DRIVER_URL"
SUBMIT = "/app/zonequake_analysis/submit.py"
_BACKEND = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
_JAVA_OPTION = re.compile(r"SPARK_JAVA_OPT_(\d+)$")
_OF_AN_EXECUTOR = {
    "--driver-url": DRIVER_URL,
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}
_SUBMIT = ("spark-submit", "--deploy-mode", "client")


def executor(environment: Mapping[str, str]) -> list[str]:
    """Returns the command of an executor. Raises PodError if Spark's variables are missing."""
    found = {name: _needed(environment, name) for name in _OF_AN_EXECUTOR.values()}
    options = sorted(
        (int(match[1]), value)
        for name, value in environment.items()
        if (match := _JAVA_OPTION.match(name))
    )
    return [
        "java",
        *(value for _, value in options),
        f"-Xmx{_needed(environment, 'SPARK_EXECUTOR_MEMORY')}",
        "-cp",
        f"{_needed(environment, 'SPARK_HOME')}/jars/*",
        _BACKEND,
        *(word for option, name in _OF_AN_EXECUTOR.items() for word in (option, found[name])),
    ]


def driver(arguments: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Returns the command of a driver that `spark-submit --deploy-mode cluster` made a pod of."""
    address = _needed(environment, "SPARK_DRIVER_BIND_ADDRESS")
    return [*_SUBMIT, "--conf", f"spark.driver.bindAddress={address}", *arguments]


def analyze(uri: str, environment: Mapping[str, str], *, template: Path) -> list[str]:
    """Returns the command of the driver of `zonequake analyze --in-cluster`.

    `template`: the executors' pod. Raises PodError if the pod's own variables are missing.
    """
    settings = {
        "spark.driver.host": _needed(environment, "POD_IP"),
        "spark.kubernetes.driver.pod.name": _needed(environment, "POD_NAME"),
        "spark.kubernetes.executor.podNamePrefix": _needed(environment, "POD_NAME"),
        "spark.kubernetes.executor.podTemplateFile": str(template),
    }
    return [
        *_SUBMIT,
        *("--master", API_SERVER, "--properties-file", str(SETTINGS / SPARK_CONF)),
        *(word for name, value in settings.items() for word in ("--conf", f"{name}={value}")),
        *(SUBMIT, uri),
    ]


def _needed(environment: Mapping[str, str], name: str) -> str:
    try:
        return environment[name]
    except KeyError:
        raise PodError(
            f"found no variable {name}, expected the environment of a pod that Spark or "
            "`zonequake analyze --in-cluster` made"
        ) from None

"""`kubectl zq report`: one zip file with all that a person needs who has no access to the cluster.

It holds no data of users: no key, no value, no secret, no environment variable's value.
`missing.txt` names what couldn't be read, with the reason; a report from a broken cluster is the
usual case.
"""

from __future__ import annotations

import asyncio
import json
import zipfile
from collections.abc import Awaitable, Iterable
from io import StringIO
from pathlib import Path

import yaml
from rich.console import Console

from zonequake_ctl.zq.look import look
from zonequake_ctl.zq.screens.screen import screen
from zonequake_kube.client import Kube
from zonequake_kube.errors import ChaosError, ClusterError, in_words
from zonequake_kube.objects import ADMIN_PORT, Json, main_container

OURS = "app.kubernetes.io/name=zonequake"
KINDS = {
    "DistributionZone": "",
    "Partition": "",
    "LogicalTopology": "",
    "Table": "",
    "Pod": OURS,
    "StatefulSet": OURS,
    "Deployment": OURS,
    "PodDisruptionBudget": OURS,
    "NetworkPolicy": OURS,
    "PersistentVolumeClaim": "",
    "Lease": "",
    "Event": "",
}
"""Kinds that are packed, with the labels of those that are ours."""

MAX_LOG_BYTES = 4 << 20
WIDTH = 160


async def write_report(kube: Kube, path: Path) -> list[str]:
    """Writes the zip file; returns what is missing in it. Raises OSError, and ClusterError if
    nothing could be read at all.
    """
    contents: dict[str, bytes] = {}
    missing: list[str] = []

    async def pack(name: str, content: Awaitable[bytes]) -> None:
        try:
            contents[name] = await content
        except (ChaosError, ValueError) as error:  # one answer that is no JSON spoils nothing else
            missing.append(f"{name}: {in_words(error)}")

    await pack("status.txt", _screen(kube))
    await pack("version.txt", _version(kube))
    await asyncio.gather(
        *(
            pack(f"resources/{plural(kube, kind)}.yaml", _resources(kube, kind, labels))
            for kind, labels in KINDS.items()
        )
    )
    try:
        pods = await kube.find("Pod", OURS)
    except ChaosError as error:
        pods, missing = [], [*missing, f"pods: {error}"]
    await asyncio.gather(*(pack(name, content) for name, content in _of_pods(kube, pods)))
    if not contents:
        raise ClusterError(f"nothing could be read, so no report is written: {missing[0]}")
    contents["missing.txt"] = "".join(f"{line}\n" for line in sorted(missing)).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in sorted(contents.items()):
            packed.writestr(f"{path.stem}/{name}", content)
    return sorted(missing)


def plural(kube: Kube, kind: str) -> str:
    """`networkpolicies`, as the API names a kind's collection."""
    return kube.path(kind).rpartition("/")[2]


async def _screen(kube: Kube) -> bytes:
    out = StringIO()
    Console(file=out, width=WIDTH, highlight=False).print(screen(await look(kube)))
    return out.getvalue().encode()


async def _version(kube: Kube) -> bytes:
    return f"Kubernetes {await kube.version()}\n".encode()


async def _resources(kube: Kube, kind: str, labels: str) -> bytes:
    found = [redacted(one) for one in await kube.find(kind, labels)]
    return yaml.safe_dump_all(found, sort_keys=False).encode()


def _of_pods(kube: Kube, pods: Iterable[Json]) -> Iterable[tuple[str, Awaitable[bytes]]]:
    for pod in pods:
        name, labels = pod["metadata"]["name"], pod["metadata"].get("labels") or {}
        component = labels.get("app.kubernetes.io/component")
        yield f"pods/{name}/log.txt", _log(kube, pod, previous=False)
        if _has_restarted(pod):
            yield f"pods/{name}/log-before-restart.txt", _log(kube, pod, previous=True)
        if component in ("store", "operator"):
            yield f"pods/{name}/metrics.txt", kube.pod_proxy(name, ADMIN_PORT, "/metrics")
        if component == "store":
            yield f"pods/{name}/replicas.json", _pretty(kube, name, "/admin/v1/replicas")
            yield f"pods/{name}/events.jsonl", kube.pod_proxy(name, ADMIN_PORT, "/admin/v1/events")


def _has_restarted(pod: Json) -> bool:
    states = (pod.get("status") or {}).get("containerStatuses") or []
    return any(int(state.get("restartCount", 0)) for state in states)


async def _log(kube: Kube, pod: Json, *, previous: bool) -> bytes:
    name, container = pod["metadata"]["name"], main_container(pod)
    return (await kube.logs(name, container, previous=previous))[-MAX_LOG_BYTES:]


async def _pretty(kube: Kube, pod: str, path: str) -> bytes:
    return json.dumps(json.loads(await kube.pod_proxy(pod, ADMIN_PORT, path)), indent=1).encode()


def redacted(obj: Json) -> Json:
    """Returns the object without annotations of other tools, managed fields, names of pull secrets,
    and values of environment variables that aren't ours: others may have put secrets there.
    """
    metadata = {k: v for k, v in obj["metadata"].items() if k != "managedFields"}
    kept = {
        key: value
        for key, value in (metadata.pop("annotations", None) or {}).items()
        if key.startswith("zonequake.io/")
    }
    if kept:
        metadata["annotations"] = kept
    copy: Json = {**obj, "metadata": metadata}
    hidden = _hidden(copy)
    assert isinstance(hidden, dict)
    return hidden


def _hidden(value: object) -> object:
    if isinstance(value, list):
        return [_hidden(each) for each in value]
    if not isinstance(value, dict):
        return value
    name = value.get("name")
    if isinstance(name, str) and "value" in value and not name.startswith("ZQ_"):
        return {**value, "value": "(hidden)"}
    return {
        key: "(hidden)" if key == "imagePullSecrets" else _hidden(each)
        for key, each in value.items()
    }

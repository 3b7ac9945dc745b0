"""The reason why a pod doesn't start, as the API server's object of it says."""

from __future__ import annotations

from typing import Any

PodObject = dict[str, Any]

_NO_IMAGE = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "ErrImageNeverPull",
        "InvalidImageName",
        "ImageInspectError",
        "RegistryUnavailable",
    }
)
_NO_CONTAINER = frozenset(
    {"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}
)
"""The kubelet's reasons for a container that it can't create: no such Secret, no such program."""
UNREACHED = "can't reach the driver"
"""The first words of the termination message of an executor that ended for that reason."""
_STARTING = frozenset({"ContainerCreating", "PodInitializing"})


def why_it_fails(pod: PodObject) -> str | None:
    """Returns the cause that keeps a pod from starting, or from its driver, for good, as a rule;
    None if none does.
    """
    if (barred := why_barred(pod)) is not None:
        return barred
    name = pod["metadata"]["name"]
    for container in _statuses(pod):
        waiting = (container.get("state") or {}).get("waiting") or {}
        reason, said = str(waiting.get("reason", "")), _words(waiting.get("message"))
        if reason in _NO_IMAGE:
            return f"image {container['image']} of pod {name} can't be pulled: {reason}{said}"
        if reason in _NO_CONTAINER:
            return f"pod {name} can't start: {reason}{said}"
    return None


def why_barred(pod: PodObject) -> str | None:
    """Returns that an executor ended as it could not reach its driver; None if it didn't."""
    for container in _statuses(pod):
        ended = (container.get("state") or {}).get("terminated") or {}
        said = " ".join(str(ended.get("message") or "").split())
        if said.startswith(UNREACHED):
            return (
                f"pod {pod['metadata']['name']} {said}: a network policy or a firewall bars the "
                "way, as a rule, or the driver has another address (spark.driver.host)"
            )
    return None


def why_it_waits(pod: PodObject) -> str | None:
    """Returns what a pod that isn't running waits for; None if it has started."""
    if (failed := why_it_fails(pod)) is not None:
        return failed
    name, status = pod["metadata"]["name"], pod.get("status") or {}
    for condition in status.get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            said = _words(condition.get("message"))
            return f"pod {name} finds no node: {condition.get('reason', 'Unschedulable')}{said}"
    if has_started(pod):
        return None
    for container in _statuses(pod):
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason", "") not in _STARTING:
            return f"pod {name} waits: {waiting.get('reason')}{_words(waiting.get('message'))}"
    return f"the kubelet has not started pod {name} yet (see `kubectl describe pod {name}`)"


def has_started(pod: PodObject) -> bool:
    """Returns whether the pod's first container runs, or ran."""
    states = [container.get("state") or {} for container in _statuses(pod)]
    return any("running" in state or "terminated" in state for state in states)


def _statuses(pod: PodObject) -> list[dict[str, Any]]:
    return list((pod.get("status") or {}).get("containerStatuses") or [])


def _words(message: object) -> str:
    words = " ".join(str(message or "").split())
    return f" ({words})" if words else ""

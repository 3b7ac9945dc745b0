"""A pod with the store's credentials: a Secret, named and never read here.

Each key of the Secret becomes a variable, and a file in FOLDER for those that are files.
"""

from __future__ import annotations

from typing import Any

FOLDER = "/etc/zonequake/store"
SECRET_VARIABLE = "ZQ_STORE_SECRET"  # noqa: S105 - the name of a Secret
"""The variable by which a driver learns of the Secret for its executors."""
_VOLUME = "store-credentials"

PodObject = dict[str, Any]


def with_secret(pod: PodObject, secret: str) -> PodObject:
    """Returns the pod with this Secret for its first container; unchanged for an empty name.

    It replaces the Secret that the release names, if it does.
    """
    if not secret:
        return pod
    spec = pod["spec"]
    first, *others = spec["containers"]
    mounts = [each for each in first.get("volumeMounts") or [] if each["name"] != _VOLUME]
    volumes = [each for each in spec.get("volumes") or [] if each["name"] != _VOLUME]
    container = {
        **first,
        "envFrom": [{"secretRef": {"name": secret}}],
        "volumeMounts": [*mounts, {"name": _VOLUME, "mountPath": FOLDER, "readOnly": True}],
    }
    # Optional, so that a Secret that isn't there is reported by its variables, with its name.
    files = {"secretName": secret, "defaultMode": 0o440, "optional": True}
    volumes.append({"name": _VOLUME, "secret": files})
    return {**pod, "spec": {**spec, "containers": [container, *others], "volumes": volumes}}

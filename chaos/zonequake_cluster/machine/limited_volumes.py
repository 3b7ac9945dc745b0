"""Volumes of the embedded cluster whose size the kernel enforces, for faults that fill them.

The ordinary volumes are folders on the machine's own disk, which must not be filled. Each of these
has its own ext4 in a sparse file below the instance's folder, mounted by a loop device inside the
node's mount namespace: both end with the node.
"""

from __future__ import annotations

import json
import subprocess

from zonequake_cluster.errors import ProviderError
from zonequake_cluster.instance import INSIDE, InstanceSpec

STORAGE_CLASS = "limited"
SMALLEST_MEBIBYTES = 64
"""The smallest allowed size: a data node keeps 16 MiB free, and ext4 needs some for itself."""

_FOLDER = INSIDE / "limited"
_PREFIX = "limited-"
"""Start of the volumes' names, before their number."""
_MAKE = """
set -eu
folder=$1 count=$2 mebibytes=$3 number=0
mkdir -p "$folder"
while [ "$number" -lt "$count" ]; do
    mounted="$folder/$number"
    if ! mountpoint -q "$mounted"; then
        mkdir -p "$mounted"
        truncate -s "${mebibytes}M" "$mounted.img"
        mkfs.ext4 -q -F -m 0 "$mounted.img"
        mount -o loop "$mounted.img" "$mounted"
        rmdir "$mounted/lost+found"
        chmod 0777 "$mounted"
    fi
    number=$((number + 1))
done
"""


def make(init_pid: int, *, count: int, mebibytes: int) -> None:
    """Creates missing volumes up to this number. Raises ProviderError."""
    done = _on_the_node(init_pid, "sh", "-c", _MAKE, "make", _FOLDER, count, mebibytes)
    if done.returncode != 0:
        raise ProviderError(
            f"no volumes of limited size could be made: {done.stderr.strip()[-300:]}; they need "
            "mkfs.ext4 (the Debian package e2fsprogs) and a free loop device"
        )


def empty(init_pid: int, volume: str) -> None:
    """Removes all files of the volume with this name. Raises ProviderError."""
    folder = _FOLDER / volume.removeprefix(_PREFIX)
    done = _on_the_node(init_pid, "find", folder, "-mindepth", 1, "-delete")
    if done.returncode != 0:
        raise ProviderError(f"{volume} could not be emptied: {done.stderr.strip()[-300:]}")


def _on_the_node(init_pid: int, *words: object) -> subprocess.CompletedProcess[str]:
    enter = ["nsenter", "--target", str(init_pid), "--mount", "--"]
    return subprocess.run([*enter, *map(str, words)], check=False, capture_output=True, text=True)


def manifests(spec: InstanceSpec, *, count: int, mebibytes: int) -> str:
    """Returns the storage class of these volumes and one volume each, as a JSON list for
    kubectl.
    """
    storage_class = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": STORAGE_CLASS},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    volumes = [_volume(spec, number, mebibytes) for number in range(count)]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [storage_class, *volumes]})


def _volume(spec: InstanceSpec, number: int, mebibytes: int) -> dict[str, object]:
    on_this_node = {"key": "kubernetes.io/hostname", "operator": "In", "values": [spec.node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"{_PREFIX}{number}"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": f"{mebibytes}Mi"},
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": STORAGE_CLASS,
            "local": {"path": str(_FOLDER / str(number))},
            "nodeAffinity": {
                "required": {"nodeSelectorTerms": [{"matchExpressions": [on_this_node]}]}
            },
        },
    }

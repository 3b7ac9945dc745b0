"""Decides whether a kubeconfig leads to an embedded cluster of this machine, and to which.

Neither a missing option nor the file's place decides: a copy of the embedded cluster's file leads
to the cluster, and another file in its place does not. The proof is the certificate authority that
verifies the connection. Each `up` makes one, whose key never leaves that process (`supply.pki`), so
only the instance's own API server can show a certificate of it.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import yaml

from zonequake_cluster.instance import MARK, Instance
from zonequake_cluster.machine import processes
from zonequake_cluster.own_files import find_own_files
from zonequake_kube.yaml_text import read_yaml


def proven_instance(kubeconfig: Path | None, context: str | None) -> Instance | None:
    """Returns the running instance that the context is verified to lead to; None if there is none.

    Looks beside the kubeconfig, and among this installation's instances.
    """
    authority = _authority(kubeconfig, context) if kubeconfig is not None else None
    if kubeconfig is None or authority is None:
        return None
    for instance in _instances(kubeconfig):
        try:
            own = (instance.folder / "pki" / "ca.crt").read_bytes()
        except OSError:
            continue
        runs = processes.find_init(MARK, str(instance.folder)) is not None
        if runs and own.strip() == authority.strip():
            return instance
    return None


def _instances(kubeconfig: Path) -> list[Instance]:
    folder = kubeconfig.resolve().parent
    found = []
    if len(folder.parents) >= 3:
        beside = Instance(name=folder.name, root=folder.parents[2])
        found += [beside] if beside.folder == folder else []
    root = find_own_files().root
    clusters = Instance(name="x", root=root).folder.parent
    if clusters.is_dir():
        names = sorted(entry.name for entry in clusters.iterdir() if entry.is_dir())
        found += [Instance(name=name, root=root) for name in names]
    return found


def _authority(kubeconfig: Path, context: str | None) -> bytes | None:
    """Returns the certificate that verifies the context's connection; None without verification."""
    try:
        document: Any = read_yaml(kubeconfig.read_text())
        wanted = context or document["current-context"]
        named = {entry["name"]: entry["context"] for entry in document["contexts"]}
        clusters = {entry["name"]: entry["cluster"] for entry in document["clusters"]}
        cluster = clusters[named[wanted]["cluster"]]
        verified = not cluster.get("insecure-skip-tls-verify")
        if not verified or not str(cluster["server"]).startswith("https://"):
            return None
        if "certificate-authority-data" in cluster:
            return base64.b64decode(cluster["certificate-authority-data"], validate=True)
        beside = kubeconfig.parent / str(cluster["certificate-authority"])
        return beside.read_bytes()
    except (OSError, yaml.YAMLError, KeyError, TypeError, AttributeError, ValueError):
        return None

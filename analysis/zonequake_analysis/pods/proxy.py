"""Finds the proxy by which the client that Spark uses speaks to an API server."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.request import getproxies, proxy_bypass

import yaml


def proxy_for(scheme: str, host: str, context: str | None) -> str | None:
    """Returns where a proxy for this API server is set; None if none is.

    `context`: that of the kubeconfig, if it isn't the current one. A proxy's address is not told:
    it may have a password.
    """
    if proxy_bypass(host):
        return None
    proxies = getproxies()
    for kind in (scheme, "all"):
        if kind in proxies:
            return f"{kind}_proxy in the environment"
    return _of_kubeconfig(context)


def _of_kubeconfig(context: str | None) -> str | None:
    files = [one for path in _paths() if (one := _read(path))]
    wanted = context or next((name for one in files if (name := one.get("current-context"))), None)
    cluster = _named(files, "contexts", "context", wanted).get("cluster")
    if not _named(files, "clusters", "cluster", cluster).get("proxy-url"):
        return None
    return f"proxy-url of the cluster {cluster} in the kubeconfig"


def _paths() -> list[Path]:
    given = [Path(word) for word in os.environ.get("KUBECONFIG", "").split(os.pathsep) if word]
    return given or [Path.home() / ".kube" / "config"]


def _read(path: Path) -> Mapping[str, Any]:
    """Returns a file's content; nothing of one that can't be read, of which the client tells."""
    try:
        found = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    return found if isinstance(found, dict) else {}


def _named(
    files: list[Mapping[str, Any]], of_all: str, of_one: str, name: object
) -> Mapping[str, Any]:
    """Returns an entry of the first file that has its name; nothing if none has."""
    for file in files:
        for one in file.get(of_all) or ():
            if isinstance(one, dict) and one.get("name") == name:
                return dict(one.get(of_one) or {})
    return {}

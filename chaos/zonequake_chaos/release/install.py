"""Installs the chart with a real helm, and takes it away again."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence

from zonequake_chaos.release.consent import ALLOWED, LABEL
from zonequake_cluster.own_files import find_own_files
from zonequake_ctl.context import ReleasePlace
from zonequake_kube.errors import HarnessError, UsageError

TIMEOUT_S = 300
_NAMESPACE_LABELS = {"pod-security.kubernetes.io/enforce": "restricted", LABEL: ALLOWED}


async def install(
    place: ReleasePlace, *, images: Mapping[str, str], values: Sequence[str] = ()
) -> None:
    """helm upgrade --install, and waits until everything is ready.

    `images` are references by name (`store`, `operator`, `agent`, `prometheus`); `values` are
    further `--set` words. On our own cluster the namespace is made, with the label that allows
    chaos; on another one that label is its owner's word. Raises HarnessError with
    helm's last lines.
    """
    if place.embedded:
        async with await place.connect() as kube:
            await kube.ensure_namespace(_NAMESPACE_LABELS)
    chart = find_own_files().find("charts/zonequake")
    settings = [f"images.{name}={ref}" for name, ref in sorted(images.items())]
    settings.append("harness.dumps=true")  # a run compares replicas by them
    words = ["upgrade", "--install", place.release, str(chart)]
    words += [word for setting in (*settings, *values) for word in ("--set", setting)]
    if place.embedded:
        words += ["--set", "harness.account=true"]
    words += ["--create-namespace", "--wait", "--timeout", f"{TIMEOUT_S}s"]
    _helm(place, words)


def uninstall(place: ReleasePlace) -> None:
    """helm uninstall; resource definitions stay, as the chart says. Raises HarnessError."""
    _helm(place, ["uninstall", place.release, "--ignore-not-found", "--wait"])


def _helm(place: ReleasePlace, words: list[str]) -> None:
    from zonequake_cluster.supply.tools import helm_path

    where = ["--namespace", place.namespace]
    if place.kubeconfig is not None:
        where += ["--kubeconfig", str(place.kubeconfig)]
    if place.context is not None:
        where += ["--kube-context", place.context]
    done = subprocess.run(
        [str(helm_path()), *words, *where], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        tail = "\n".join((done.stderr or done.stdout).strip().splitlines()[-8:])
        raise HarnessError(f"helm {words[0]} ended with {done.returncode}: {tail}")


def parse_images(words: Sequence[str]) -> dict[str, str]:
    """`--image store=registry/name:tag` words. Raises UsageError."""
    images = {}
    for word in words:
        name, separator, ref = word.partition("=")
        if not separator or name not in ("store", "operator", "prometheus", "load", "agent"):
            raise UsageError(
                f"--image {word!r}: expected NAME=REFERENCE, and store, operator, agent, "
                "prometheus or load as the name"
            )
        images[name] = ref
    return images

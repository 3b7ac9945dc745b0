"""Installs the chart with a real helm, and takes it away again."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from zonequake_cluster.machine.disk_room import disk_room
from zonequake_cluster.own_files import find_own_files
from zonequake_ctl.context import DEFAULT_NAMESPACE, DEFAULT_RELEASE, ReleasePlace
from zonequake_ctl.release.installed import InstalledRelease, look_at_release
from zonequake_kube.diagnosis import look_at_pods
from zonequake_kube.errors import HarnessError, UsageError
from zonequake_kube.pulls import unless_not_pulled

LABEL, ALLOWED = "zonequake.io/chaos", "allowed"
CAP_LABEL = "zonequake.io/chaos-max-seconds"
"""Labels by which the owner of a namespace allows chaos in it, and for how long."""

TIMEOUT_S = 300
_IMAGES = ("store", "operator", "agent", "analysis", "prometheus", "load")
_NAMESPACE_LABELS = {"pod-security.kubernetes.io/enforce": "restricted", LABEL: ALLOWED}


class HelmFailed(HarnessError):
    """helm did not end well; the text holds its last lines."""


async def install_release(
    place: ReleasePlace,
    *,
    images: Mapping[str, str],
    values: Sequence[str] = (),
    chart: Path | None = None,
) -> InstalledRelease:
    """helm upgrade --install, and waits until everything is ready; returns what runs then.

    `images` are references by name (`store`, `operator`, `agent`, `prometheus`); `values` are
    further `--set` words; `chart` is a chart's folder in place of our own. On our own cluster the
    namespace is made, with the label that allows chaos; on another one that label is its owner's
    word. Raises TooLittleDisk, before anything is done, if our own cluster would evict the pods for
    want of disk; ImageNotPulled as soon as a pod can't get its image; else HelmFailed with helm's
    last lines, and with a line for each pod that isn't ready and each node in trouble.
    """
    if place.embedded:
        disk_room(find_own_files().state).check()
        async with await place.connect() as kube:
            await kube.ensure_namespace(_NAMESPACE_LABELS)
    chart = chart or find_own_files().find("charts/zonequake")
    settings = [f"images.{name}={ref}" for name, ref in sorted(images.items())]
    settings.append("harness.dumps=true")  # a run compares replicas by them
    words = ["upgrade", "--install", place.release, str(chart)]
    words += [word for setting in (*settings, *values) for word in ("--set", setting)]
    if place.embedded:
        words += ["--set", "harness.account=true"]
    words += ["--create-namespace", "--wait", "--timeout", f"{TIMEOUT_S}s"]
    async with await place.connect() as kube:
        selector = f"app.kubernetes.io/name=zonequake,app.kubernetes.io/instance={place.release}"
        try:
            await unless_not_pulled(kube, (selector,), _helm_beside(place, words))
        except HelmFailed as error:
            # Its own words are "context deadline exceeded", whatever it waited for.
            unready = await look_at_pods(kube, (selector,))
            raise HelmFailed("\n".join([f"{error}", *unready])) from error
        return await look_at_release(kube, place.release)


def uninstall_release(place: ReleasePlace) -> None:
    """helm uninstall; resource definitions stay, as the chart says. Raises HelmFailed."""
    _helm(place, ["uninstall", place.release, "--ignore-not-found", "--wait"])


def _helm(place: ReleasePlace, words: list[str]) -> None:
    done = subprocess.run(_command(place, words), capture_output=True, text=True, check=False)
    _check(words, done.returncode, done.stderr or done.stdout)


async def _helm_beside(place: ReleasePlace, words: list[str]) -> None:
    """Runs helm beside other work; if cancelled, interrupts it: helm marks the release failed."""
    helm = await asyncio.create_subprocess_exec(
        *_command(place, words), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        out, error = await helm.communicate()
    except asyncio.CancelledError:
        with contextlib.suppress(ProcessLookupError):
            helm.send_signal(signal.SIGINT)
        await helm.communicate()
        raise
    _check(words, helm.returncode or 0, (error or out).decode())


def _command(place: ReleasePlace, words: list[str]) -> list[str]:
    from zonequake_cluster.supply.tools import helm_path

    where = ["--namespace", place.namespace]
    if place.kubeconfig is not None:
        where += ["--kubeconfig", str(place.kubeconfig)]
    if place.context is not None:
        where += ["--kube-context", place.context]
    return [str(helm_path()), *words, *where]


def _check(words: list[str], code: int, said: str) -> None:
    if code != 0:
        tail = "\n".join(said.strip().splitlines()[-8:])
        raise HelmFailed(f"helm {words[0]} ended with {code}: {tail}")


def next_steps(place: ReleasePlace, found: InstalledRelease) -> list[str]:
    """Returns what runs now, and what to do next, a line each."""
    lines = [
        f"{each.name}: {each.ready} of {each.wanted} ready, {each.image}"
        for each in found.workloads
    ]
    lines.append(
        f"{place.release} {', '.join(found.versions)} runs in namespace {place.namespace}. Next:"
    )
    options = _options(place)
    if not place.embedded:
        lines.append(
            f"  kubectl label namespace {place.namespace} {LABEL}={ALLOWED} {CAP_LABEL}=3600"
            "   # agree to chaos, for at most an hour a run"
        )
    lines.append(f"  zonequake run leader-kill{options}")
    lines.append(f"  zonequake status{options}")
    return lines


def _options(place: ReleasePlace) -> str:
    if place.embedded:
        return ""
    named = {
        "--kubeconfig": place.kubeconfig,
        "--context": place.context,
        "--namespace": place.namespace if place.namespace != DEFAULT_NAMESPACE else None,
        "--release": place.release if place.release != DEFAULT_RELEASE else None,
    }
    return "".join(f" {option} {value}" for option, value in named.items() if value is not None)


def parse_images(words: Sequence[str]) -> dict[str, str]:
    """`--image store=registry/name:tag` words. Raises UsageError."""
    images = {}
    for word in words:
        name, separator, ref = word.partition("=")
        if not separator or name not in _IMAGES:
            raise UsageError(
                f"--image {word!r}: expected NAME=REFERENCE, and one of {', '.join(_IMAGES)} as "
                "the name"
            )
        images[name] = ref
    return images

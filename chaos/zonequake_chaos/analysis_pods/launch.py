"""Runs an analysis in the cluster: makes the driver's pod, shows its log, returns its exit code.

The pod owns its executors, so that they end with it, however this process ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import secrets
import time
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import yaml

from zonequake_analysis.ended_early import calling_at_sigterm
from zonequake_analysis.errors import LocationError
from zonequake_analysis.pods.last_line import told_verdict
from zonequake_analysis.pods.waiting import has_started, why_it_fails, why_it_waits
from zonequake_analysis.storage.location import Location
from zonequake_analysis.text.untrusted_text import one_line
from zonequake_analysis.verdict import EXIT_CODES, Verdict
from zonequake_chaos.analysis_pods.driver_pod import driver_pod
from zonequake_ctl.context import ReleasePlace
from zonequake_kube.client import Kube
from zonequake_kube.errors import (
    USAGE_EXIT_CODE,
    ClusterError,
    HarnessError,
    NotFound,
    UsageError,
    WaitExpired,
)
from zonequake_kube.objects import Json, container_end

START_S = 60.0
"""Longest time that the driver's pod may take to start."""
_POLL_S = 0.5
_PAUSE_S = 1.0
_LAST_WORDS_S = 10.0
_LAST_LINES = 200
"""Lines of the log's end in which the verdict is looked for: a JVM may say more after it."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class InCluster:
    """A release with `analysis.enabled`, and the Secret of the store of runs.

    `secret`: its name in the analysis's namespace; empty for the one that the release names.
    """

    release: ReleasePlace
    secret: str = ""


def check_uri(run: str) -> str:
    """Returns the run's URI. Raises UsageError for a run that pods can't reach."""
    try:
        location = Location.of(run)
    except LocationError as error:
        raise UsageError(str(error)) from error
    if location.local is not None:
        raise UsageError(
            f"found {run}, a location of this machine, which pods can't reach; expected the URI of "
            "a run in a store, such as s3://bucket/runs/x"
        )
    return location.path


def analyze_in_cluster(run: str, where: InCluster, say: Say) -> int:
    """Judges the run at the URI `run` by pods of the cluster, and returns the exit code.

    `say` gets each line of the analysis. Raises UsageError for a run or release that can't be
    meant, HarnessError if a pod can't start, or ends otherwise than an analysis does, or SIGTERM
    ended this process's part: then the pod has been deleted.
    """
    return asyncio.run(_until_sigterm(_analyze(check_uri(run), where, say)))


def judge_in_cluster(run: Location, where: InCluster, say: Say) -> Verdict:
    """Judges the run as `analyze_in_cluster` does, and returns its verdict.

    Raises HarnessError if the analysis left no verdict in the store, UsageError.
    """
    code = analyze_in_cluster(str(run), where, say)
    verdict = {code: verdict for verdict, code in EXIT_CODES.items()}.get(code)
    if verdict is None or not (run / "verdict.json").exists():
        raise HarnessError(f"the analysis in the cluster ended with {code} and left no verdict")
    return verdict


async def _until_sigterm(analysis: Coroutine[Any, Any, int]) -> int:
    """Returns the exit code of an analysis. Raises HarnessError if SIGTERM ended it."""
    loop, task, ended = asyncio.get_running_loop(), asyncio.ensure_future(analysis), False

    def end() -> None:
        nonlocal ended
        ended = True
        loop.call_soon_threadsafe(task.cancel)

    with calling_at_sigterm(end):
        try:
            return await task
        except asyncio.CancelledError:
            if not ended:
                raise
            raise HarnessError("SIGTERM ended the analysis; its pods are deleted") from None


async def _analyze(uri: str, where: InCluster, say: Say) -> int:
    async with await where.release.connect() as kube:
        there, template = await _analysis_of(kube, where.release)
        name = f"analysis-{secrets.token_hex(4)}"
        pod = driver_pod(template, name=name, uri=uri, secret=where.secret)
        container = pod["spec"]["containers"][0]["name"]
        await there.create(pod)
        say(f"analysis of {uri} in pod {name}, namespace {there.namespace}")
        try:
            await _until_started(there, name)
            log = await _told_log(there, name, container, say)
            ended = await _ended(there, name, container)
            return _exit_code(ended, told_verdict(Location.of(uri), log))
        finally:
            with contextlib.suppress(NotFound):
                await asyncio.shield(there.delete("Pod", name))


async def _analysis_of(kube: Kube, release: ReleasePlace) -> tuple[Kube, Json]:
    """Returns the analysis's namespace and the driver's template. Raises UsageError."""
    advice = "install it with `zonequake install --analysis`, or --set analysis.enabled=true"
    try:
        harness = await kube.get("ConfigMap", f"{release.release}-harness")
    except NotFound as error:
        raise UsageError(
            f"found no release {release.release} in namespace {release.namespace}; {advice}"
        ) from error
    namespace = harness["data"].get("analysisNamespace", "")
    if not namespace:
        raise UsageError(f"the release {release.release} has no analysis in the cluster; {advice}")
    there = kube.in_namespace(namespace)
    settings = await there.get("ConfigMap", f"{release.release}-analysis")
    return there, yaml.safe_load(settings["data"]["driver.yaml"])


async def _until_started(kube: Kube, name: str) -> None:
    """Waits until the pod's process runs. Raises HarnessError with the cause if it can't."""
    ends_s = time.monotonic() + START_S
    while True:
        pod = await _pod(kube, name)
        if (why := why_it_fails(pod)) is not None:
            raise HarnessError(f"the analysis didn't start: {why}")
        if has_started(pod):
            return
        if time.monotonic() >= ends_s:
            raise WaitExpired(
                f"the analysis didn't start within {START_S:.0f} s: {why_it_waits(pod)}"
            )
        await asyncio.sleep(_POLL_S)


async def _told_log(kube: Kube, name: str, container: str, say: Say) -> list[str]:
    """Says each line of the pod's log until it ends, and returns its last lines.

    A log that breaks is asked for again: also when the pod has ended, as its last line tells the
    verdict, but then not forever.
    """
    last: deque[str] = deque(maxlen=_LAST_LINES)
    told, ends_s = 0, math.inf
    while True:
        ended = (await _pod(kube, name))["status"]["phase"] in ("Succeeded", "Failed")
        if ended:
            ends_s = min(ends_s, time.monotonic() + _LAST_WORDS_S)
        number, whole = 0, False
        with contextlib.suppress(ClusterError):
            async for line in kube.follow_logs(name, container):
                number += 1
                if number > told:
                    told = number
                    last.append(one_line(line.decode(errors="replace")))
                    say(last[-1])
            whole = True
        if (ended and whole) or time.monotonic() >= ends_s:
            return list(last)
        await asyncio.sleep(_PAUSE_S)


async def _ended(kube: Kube, name: str, container: str) -> Json:
    """Returns the end of the pod's container. Raises WaitExpired."""
    ends_s = time.monotonic() + _LAST_WORDS_S
    while True:
        pod = await _pod(kube, name)
        if (ended := container_end(pod, container)) is not None:
            return ended
        if time.monotonic() >= ends_s:
            why = pod["status"].get("message") or pod["status"].get("reason") or "no reason given"
            raise WaitExpired(f"pod {name} ended without an exit code: {why}")
        await asyncio.sleep(_POLL_S)


async def _pod(kube: Kube, name: str) -> Json:
    try:
        return await kube.get("Pod", name)
    except NotFound as error:
        raise HarnessError(f"pod {name} was deleted before its analysis had ended") from error


def _exit_code(ended: Json, told: Verdict | None) -> int:
    """Returns the analysis's exit code. Raises HarnessError for one that no analysis has, or that
    would be a verdict which its log doesn't tell.
    """
    code, reason = int(ended["exitCode"]), ended.get("reason", "no reason")
    if code in (EXIT_CODES[Verdict.HARNESS_FAILED], USAGE_EXIT_CODE):
        return code
    meant = {code: verdict for verdict, code in EXIT_CODES.items()}.get(code)
    if meant is None:
        hint = "; raise analysis.driver.memoryMebibytes" if reason == "OOMKilled" else ""
        raise HarnessError(f"the analysis's driver ended with {code} ({reason}){hint}")
    if meant is not told:
        found = "no verdict" if told is None else f"the verdict {told}"
        raise HarnessError(
            f"the analysis's driver ended with {code} ({reason}), and its log tells {found}; "
            f"expected {meant}: nothing is known of the run, and the last lines above say why"
        )
    return code

"""Starts and controls the load pods, and downloads their histories (docs/interfaces.md, "Load
control")."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from zonequake_chaos.kit.client_code import ClientCode
from zonequake_chaos.load.histories import PIECE_BYTES, HistoryCopy, PieceEnded
from zonequake_chaos.load.installation import Installation
from zonequake_chaos.load.objects import CONTAINER, LOAD_PORT, load_objects
from zonequake_chaos.record.clock import RunClock
from zonequake_kube.client import Kube
from zonequake_kube.deletion import erase
from zonequake_kube.errors import ClusterError, HarnessError, NotFound, WaitExpired, in_words
from zonequake_kube.objects import Json, container_end, is_ready
from zonequake_kube.retries import retried
from zonequake_load.operation import Outcome
from zonequake_load.pod.control import (
    HistoryFiles,
    LoadPlan,
    LoadStatus,
    OperationRequest,
    Phase,
    PhaseRequest,
)
from zonequake_protocol.exit_codes import USAGE_EXIT_CODE

_POLL_S = 0.3
_RETRIES = 20
_DOWNLOAD_S = 600.0
"""Longest time that a history file may take."""

_FOLLOW_S = 10.0
"""Longest time that a piece of one may take while the run goes on."""

_OPERATION_S = 10.0
"""Longest time that an answer may take beyond the operation's deadline."""

_T = TypeVar("_T")
Problem = Callable[[], Awaitable[str | None]]
"""Returns what is still missing, as text; None or empty when nothing is."""

_KINDS = ("StatefulSet", "Service", "ConfigMap", "PersistentVolumeClaim")


class LoadPods:
    """The load pods of one zone."""

    def __init__(
        self,
        *,
        kube: Kube,
        clock: RunClock,
        name: str,
        plan: LoadPlan,
        code: ClientCode,
        piece_bytes: int = PIECE_BYTES,
        piece_ended: PieceEnded = lambda _: None,
    ) -> None:
        """`piece_bytes`: the size at which the copy of a history file goes on in a next one;
        `piece_ended` takes the name of the one before.
        """
        self._copies: dict[str, HistoryCopy] = {}
        self._piece_bytes = piece_bytes
        self._piece_ended = piece_ended
        self._kube = kube
        self._clock = clock
        self._name = name
        self._plan = plan
        self._code = code

    @property
    def names(self) -> list[str]:
        return [f"{self._name}-{ordinal}" for ordinal in range(self._plan.pods)]

    async def start(self, *, run_id: str, installation: Installation, timeout_s: float) -> None:
        """Applies the objects and waits until every pod is Ready.

        Raises WaitExpired, and HarnessError as soon as a load says that it can't read its plan.
        """
        for manifest in load_objects(
            name=self._name,
            run_id=run_id,
            plan=self._plan,
            code=self._code,
            installation=installation,
        ):
            await self._kube.apply(manifest)

        async def all_ready() -> str | None:
            waiting = []
            for pod in self.names:
                try:
                    found = await self._kube.get("Pod", pod)
                    ended = container_end(found, CONTAINER, in_last_life=True)
                    if ended is not None and ended["exitCode"] == USAGE_EXIT_CODE:
                        raise HarnessError(await self._refusal(pod, found))
                    if not is_ready(found):
                        waiting.append(pod)
                except NotFound:
                    waiting.append(pod)
            return f"not Ready: {', '.join(waiting)}" if waiting else None

        await self._until(all_ready, timeout_s)

    async def _refusal(self, pod: str, found: Json) -> str:
        """Returns why a load doesn't take its plan, in its own last words."""
        lines: list[bytes] = []
        for previous in (False, True):
            with suppress(ClusterError):
                lines += (await self._kube.logs(pod, CONTAINER, previous=previous)).splitlines()
        _, _, words = (lines[-1] if lines else b"").decode(errors="replace").partition(" ")
        image = found["spec"]["containers"][0]["image"]
        return (
            f"{pod} ended with exit code {USAGE_EXIT_CODE}: {words or 'its log is empty'}; "
            f"expected an image of this harness's version, found {image}: upgrade the release by "
            "`zonequake install`, or name the load's image by its value images.load"
        )

    async def enter(self, phase: Phase) -> None:
        """Sends every pod into `phase`, also if another one refuses. Raises ClusterError."""
        body = msgspec.json.encode(PhaseRequest(phase=phase))
        await self._of_each(
            lambda pod: self._call(pod, "/phase", method="POST", body=body), at_once=self._plan.pods
        )

    async def status(self) -> list[LoadStatus]:
        """Returns the status of each pod. Raises ClusterError."""
        answers = [await self._call(pod, "/status") for pod in self.names]
        return [msgspec.json.decode(answer, type=LoadStatus) for answer in answers]

    async def execute(self, asked: OperationRequest) -> Outcome:
        """Has the first pod carry one operation out, in phase `quiet`. Asks once.

        Raises ClusterError without an answer.
        """
        answer = await self._kube.pod_proxy(
            self.names[0],
            LOAD_PORT,
            "/operation",
            method="POST",
            body=msgspec.json.encode(asked),
            timeout_s=asked.deadline_ms / 1e3 + _OPERATION_S,
        )
        return msgspec.json.decode(answer, type=Outcome)

    async def complete(self, phase: Phase, *, timeout_s: float) -> list[LoadStatus]:
        """Starts a phase that ends by itself, and waits for its end in every pod.

        Raises WaitExpired.
        """
        await self.enter(phase)
        statuses: list[LoadStatus] = []

        async def all_complete() -> str | None:
            nonlocal statuses
            statuses = await self.status()
            unfinished = [s for s in statuses if s.phase is not phase or not s.complete]
            return ", ".join(
                f"{s.pod} in {s.phase.value}: {s.done_keys} of {s.planned_keys} keys"
                + (f", {s.problem}" if s.problem else "")
                for s in unfinished
            )

        await self._until(all_complete, timeout_s)
        return statuses

    async def collect(self, folder: Path) -> int:
        """Downloads what `folder` lacks of every history file, in parts; returns the bytes of all.

        Raises HarnessError, also if a file is shorter than its pod says; the files of the other
        pods are there by then.
        """
        return sum(await self._of_each(partial(self._collect_from, folder=folder), at_once=1))

    async def _collect_from(self, pod: str, *, folder: Path) -> int:
        total = 0
        listed = msgspec.json.decode(await self._call(pod, "/files"), type=HistoryFiles)
        for file in listed.files:
            copy = self._copy(folder, file.name)
            if copy.size_bytes < file.size_bytes:
                await _patiently(partial(self._download, pod, file.name, copy, _DOWNLOAD_S))
            if copy.size_bytes < file.size_bytes:
                raise HarnessError(
                    f"history {file.name} of {pod}: got {copy.size_bytes} bytes, "
                    f"expected {file.size_bytes}"
                )
            total += copy.size_bytes
        return total

    async def follow(self, folder: Path) -> None:
        """Downloads what each history file has grown by, of pods that answer. Raises OSError."""
        for pod in self.names:
            with suppress(ClusterError, msgspec.MsgspecError):
                answer = await self._kube.pod_proxy(pod, LOAD_PORT, "/files", timeout_s=_FOLLOW_S)
                for file in msgspec.json.decode(answer, type=HistoryFiles).files:
                    copy = self._copy(folder, file.name)
                    if copy.size_bytes < file.size_bytes:
                        await self._download(pod, file.name, copy, _FOLLOW_S)

    def _copy(self, folder: Path, name: str) -> HistoryCopy:
        return self._copies.setdefault(
            name,
            HistoryCopy(folder, name, piece_bytes=self._piece_bytes, piece_ended=self._piece_ended),
        )

    async def _download(self, pod: str, name: str, copy: HistoryCopy, timeout_s: float) -> None:
        await self._kube.pod_download(
            pod,
            LOAD_PORT,
            f"/files/{name}",
            copy.write,
            start=copy.size_bytes,
            timeout_s=timeout_s,
        )

    async def _of_each(self, ask: Callable[[str], Awaitable[_T]], *, at_once: int) -> list[_T]:
        """Returns what `ask` returns for each pod; asks every pod, also if another one fails.

        Raises ClusterError with the words of every pod that failed, HarnessError if one failed
        otherwise than in its answer. Raises an error that isn't the harness's own as it is.
        """
        turns = asyncio.Semaphore(at_once)

        async def answer_of(pod: str) -> _T:
            async with turns:
                return await ask(pod)

        answers = await asyncio.gather(*map(answer_of, self.names), return_exceptions=True)
        failed: list[HarnessError] = []
        for answer in answers:
            if isinstance(answer, HarnessError):
                failed.append(answer)
            elif isinstance(answer, BaseException):
                raise answer
        if failed:
            of_answers = all(isinstance(error, ClusterError) for error in failed)
            kind = ClusterError if of_answers else HarnessError
            raise kind(in_words(ExceptionGroup("pods", failed)))
        return [answer for answer in answers if not isinstance(answer, BaseException)]

    async def _call(
        self,
        pod: str,
        path: str,
        *,
        method: str = "GET",
        body: bytes | None = None,
        timeout_s: float = 10.0,
    ) -> bytes:
        return await _patiently(
            lambda: self._kube.pod_proxy(
                pod, LOAD_PORT, path, method=method, body=body, timeout_s=timeout_s
            )
        )

    async def _until(self, problem: Problem, timeout_s: float) -> None:
        deadline_ns = self._clock.now().time_ns + int(timeout_s * 1e9)
        while found := await problem():
            if self._clock.now().time_ns > deadline_ns:
                raise WaitExpired(f"load {self._name}: not within {timeout_s:g} s: {found}")
            await asyncio.sleep(_POLL_S)


async def _patiently(call: Callable[[], Awaitable[_T]]) -> _T:
    """Calls a load pod; retries for a while, since it may be restarting."""
    return await retried(
        call,
        attempts=_RETRIES,
        pause_s=_POLL_S,
        is_final=lambda error: error.status in (400, 409),
    )


async def delete_load(kube: Kube, name: str) -> None:
    """Deletes all objects of the load `name` and waits until they are gone."""
    await erase(kube, f"zonequake.io/load={name}", _KINDS)

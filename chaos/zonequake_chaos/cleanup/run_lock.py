"""The run lock: in the cluster, a ConfigMap `<release>-run`, from its first write to its last.

There is one per release, so that two runs never share it. It holds the run's name and host and the
state before: any process that reaches the cluster can find, end and undo the run, even if its
folder is lost. Only a proven cleanup removes the lock.

    a command ─ asks: "abort …", "alive …" ──► annotation ◄── answers, within seconds ── the run

A run that doesn't answer counts as dead: nothing else in the cluster shows it.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from zonequake_chaos.load.objects import RUN_LABEL
from zonequake_kube.client import Kube
from zonequake_kube.errors import Conflict, HarnessError, NotFound, UsageError, in_words
from zonequake_kube.objects import STORE_LABELS, Json

ASKED = "zonequake.io/run-asked"
ANSWERED = "zonequake.io/run-answered"
ABORT, ALIVE = "abort", "alive"
ANSWER_S = 10.0
"""Time for a run's answer: it looks every second, and the API server may be slow."""

_COMPONENT = "app.kubernetes.io/component=run"
_SCALE = "scale."
_POLL_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLock:
    """The content of a run lock. `scales`: the replicas of the release's pools before the run."""

    name: str
    release: str
    run: str
    host: str
    folder: str
    zones: tuple[str, ...]
    scales: Mapping[str, int]
    volumes: frozenset[str]
    """The claims that existed before the run."""
    asked: str
    answered: str

    @classmethod
    def of(cls, found: Json) -> RunLock:
        """Reads the ConfigMap. Raises HarnessError if no run can have written it."""
        try:
            return cls._of(found)
        except (KeyError, ValueError) as error:
            raise HarnessError(
                f"ConfigMap {found['metadata']['name']} is not a run lock that this version can "
                f"read ({in_words(error)}): delete it once you know that no run is under way"
            ) from error

    @classmethod
    def _of(cls, found: Json) -> RunLock:
        metadata, data = found["metadata"], found.get("data") or {}
        notes = metadata.get("annotations") or {}
        return cls(
            name=metadata["name"],
            release=metadata["labels"]["app.kubernetes.io/instance"],
            run=data["run"],
            host=data["host"],
            folder=data["folder"],
            zones=tuple(data["zones"].split()),
            scales={
                key.removeprefix(_SCALE): int(value)
                for key, value in data.items()
                if key.startswith(_SCALE)
            },
            volumes=frozenset(data["volumes"].split()),
            asked=notes.get(ASKED, ""),
            answered=notes.get(ANSWERED, ""),
        )


def run_lock_name(release: str) -> str:
    return f"{release}-run"


async def take_run_lock(
    kube: Kube, *, release: str, run: str, folder: str, zones: list[str]
) -> RunLock:
    """Locks the release for this run. Raises UsageError if another run has it."""
    pools = await kube.find("StatefulSet", f"{STORE_LABELS},app.kubernetes.io/instance={release}")
    claims = await kube.find("PersistentVolumeClaim")
    data = {
        "run": run,
        "host": socket.gethostname(),
        "folder": folder,
        "zones": " ".join(zones),
        "volumes": " ".join(sorted(claim["metadata"]["name"] for claim in claims)),
    }
    data |= {_SCALE + p["metadata"]["name"]: str(p["spec"]["replicas"]) for p in pools}
    try:
        made = await kube.create(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {
                    "name": run_lock_name(release),
                    "labels": {
                        "app.kubernetes.io/name": "zonequake",
                        "app.kubernetes.io/component": "run",
                        "app.kubernetes.io/instance": release,
                        RUN_LABEL: run,
                    },
                },
                "data": data,
            }
        )
    except Conflict:
        await check_unlocked(kube, release)
        raise
    return RunLock.of(made)


async def check_unlocked(kube: Kube, release: str) -> None:
    """Raises UsageError if a run has locked the release."""
    other = await read_run_lock(kube, release)
    if other is not None:
        raise UsageError(
            f"release {release} in {kube.namespace} is in use by run {other.run}, started on "
            f"{other.host}: it is under way, or was never cleaned. To end it and undo what it "
            f"did: zonequake abort {other.folder}, or, where there is no such folder, zonequake "
            f"abort {other.run}"
        )


async def read_run_lock(kube: Kube, release: str) -> RunLock | None:
    """Returns the run lock of the release; None if there is none."""
    try:
        return RunLock.of(await kube.get("ConfigMap", run_lock_name(release)))
    except NotFound:
        return None


async def run_locks(kube: Kube) -> list[RunLock]:
    """Returns all run locks of the namespace."""
    return [RunLock.of(found) for found in await kube.find("ConfigMap", _COMPONENT)]


async def remove_run_lock(kube: Kube, lock: RunLock) -> None:
    """Removes this run's lock; does nothing if it is gone or another run's by now."""
    await kube.delete_all("ConfigMap", f"{_COMPONENT},{RUN_LABEL}={lock.run}", name=lock.name)


class LockAnswer(StrEnum):
    """The answer to a question: the run answered, its lock was removed meanwhile, or none came."""

    ANSWER = "answer"
    GONE = "gone"
    NOTHING = "nothing"


async def ask(kube: Kube, lock: RunLock, what: str) -> LockAnswer:
    """Asks the run and waits for its answer. Raises ClusterError."""
    question = f"{what} {secrets.token_hex(4)}"
    try:
        await _note(kube, lock.name, ASKED, question)
        for _ in range(int(ANSWER_S / _POLL_S)):
            found = RunLock.of(await kube.get("ConfigMap", lock.name))
            if found.run != lock.run:
                return LockAnswer.GONE
            if found.answered == question:
                return LockAnswer.ANSWER
            await asyncio.sleep(_POLL_S)
    except NotFound:
        return LockAnswer.GONE
    return LockAnswer.NOTHING


async def answer(kube: Kube, lock: RunLock) -> None:
    """Answers that the run has seen the question. Raises ClusterError."""
    await _note(kube, lock.name, ANSWERED, lock.asked)


async def _note(kube: Kube, name: str, key: str, text: str) -> None:
    await kube.patch("ConfigMap", name, {"metadata": {"annotations": {key: text}}})

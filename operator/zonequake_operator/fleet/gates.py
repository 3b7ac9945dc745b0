"""The readiness gate `zonequake.io/caught-up`, which holds a rolling update until the replicas of
the pod follow their leaders again (design §3, Membership).

    closed ─ every zone has judged a view that this process is in, none finds it behind ─▶ open
    open   ─ silent, or behind, for GATE_GRACE_S ─▶ closed
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import inf

from zonequake_operator.api_server.kube import NamespaceApi
from zonequake_operator.errors import KubeError
from zonequake_operator.nodes.topology import Pod
from zonequake_operator.resources.stored_shapes import to_rfc3339

logger = logging.getLogger(__name__)

GATE = "zonequake.io/caught-up"
GATE_GRACE_S = 1.0
"""A node must be behind for so long before its gate closes: an election is no reason."""
PATIENCE_S = 10.0
"""How long a closed gate waits for every zone's word on its node's process: a zone that can't be
planned must not keep a node from its clients forever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """A node's process, and the first view that it was in."""

    process: str
    view: int
    since_s: float


class Gates:
    """The gates of all data nodes. `set` is called after each round, `judged` after each plan."""

    def __init__(
        self, kube: NamespaceApi, *, monotonic_s: Callable[[], float], wall_ms: Callable[[], int]
    ) -> None:
        self._kube = kube
        self._monotonic_s = monotonic_s
        self._wall_ms = wall_ms
        self._behind: dict[str, frozenset[str]] = {}
        self._behind_since_s: dict[str, float] = {}
        self._judged: dict[str, int] = {}
        self._known: dict[str, _Known] = {}

    def judged(self, zone: str, view: int, behind: frozenset[str]) -> None:
        """Records the nodes whose stable replicas do not follow yet, by a zone's plan of this
        view.
        """
        self._behind[zone] = behind
        self._judged[zone] = view

    def forget(self, zone: str) -> None:
        """Forgets a zone that is gone."""
        self._behind.pop(zone, None)
        self._judged.pop(zone, None)

    async def set(
        self,
        pods: dict[str, Pod],
        processes: Mapping[str, str],
        view: int,
        *,
        gives_way: Callable[[], bool] = bool,
    ) -> None:
        """Opens and closes gates by this view.

        Args:
            pods: as they were listed; one whose gate is written is replaced.
            processes: incarnations of the nodes that answered, by name.
            view: the number of this round's.
            gives_way: leaves the rest to the next round as soon as this says so.
        """
        behind = frozenset[str]().union(*self._behind.values())
        now_s = self._monotonic_s()
        self._known = {
            name: known
            if (known := self._known.get(name)) and known.process == process
            else _Known(process=process, view=view, since_s=now_s)
            for name, process in processes.items()
        }
        judged: float | None = None
        for pod in list(pods.values()):
            if gives_way():
                return
            good = pod.name in processes and pod.name not in behind
            if good and not pod.caught_up:
                known = self._known[pod.name]
                judged = await self._judged_up_to() if judged is None else judged
                if judged < known.view and now_s - known.since_s < PATIENCE_S:
                    continue  # an older verdict is on its predecessor, or there is none yet
            if good:
                self._behind_since_s.pop(pod.name, None)
            since_s = now_s if good else self._behind_since_s.setdefault(pod.name, now_s)
            if good == bool(pod.caught_up) and pod.caught_up is not None:
                continue
            if not good and pod.caught_up and now_s - since_s < GATE_GRACE_S:
                continue
            if pod.terminated and pod.caught_up is None:
                continue
            if await self._write(pod, good):
                # Until the pods are listed again; otherwise every round would write it once more.
                pods[pod.name] = replace(pod, caught_up=good)

    async def _judged_up_to(self) -> float:
        """Returns the newest view on which, or on a later one, every zone's verdict rests.

        A restarted operator knows of no zone at first, so the API server is asked which there are.
        """
        try:
            zones = [zone["metadata"] for zone in await self._kube.list_zones()]
        except KubeError as error:
            logger.info("no gate is opened for now: %s", error)
            return 0
        there = [meta["name"] for meta in zones if "deletionTimestamp" not in meta]
        return min((self._judged.get(name, 0) for name in there), default=inf)

    async def _write(self, pod: Pod, good: bool) -> bool:
        condition = {
            "type": GATE,
            "status": "True" if good else "False",
            "reason": "CaughtUp" if good else "Behind",
            "message": "Every replica here follows its leader."
            if good
            else "A replica here has no leader or is behind it.",
            "lastTransitionTime": to_rfc3339(self._wall_ms()),
        }
        try:
            await self._kube.set_pod_condition(pod.name, pod.uid, condition)
        except KubeError as error:
            logger.info("the gate of %s stays as it is for now: %s", pod.name, error)
            return False
        return True

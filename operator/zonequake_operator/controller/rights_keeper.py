"""Asks the API server which rights are missing, and says so: once in the log, and to the zones.

Rarely while all is there, often while something is missing, and soon when a call was refused. It
asks (SelfSubjectAccessReview), because a refusal shows one right only, and of watches nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from zonequake_operator.api_server.kube import NamespaceApi
from zonequake_operator.controller import metrics
from zonequake_operator.errors import KubeError
from zonequake_operator.resources.rights import NEEDED, Right, advice, sentence

logger = logging.getLogger(__name__)

ALL_THERE_S = 60.0
"""Between two looks while nothing is missing."""
MISSING_S = 3.0
"""The least pause between two looks, and the pause while a right is missing: a person who restores
a right wants to see the effect.
"""


class RightsKeeper:
    """`tell` gets the rights that are missing, whenever these are others than before."""

    def __init__(self, kube: NamespaceApi, *, tell: Callable[[frozenset[Right]], None]) -> None:
        self._kube = kube
        self._tell = tell
        self._missing: frozenset[Right] | None = None
        """None before the first look."""
        self._refused = asyncio.Event()
        kube.on_refusal = self._refused.set

    async def run(self) -> None:
        """Looks for missing rights until cancelled; retries when the API server can't be asked."""
        while True:
            self._refused.clear()
            try:
                self._found(await self.missing())
            except KubeError as error:
                logger.info(
                    "the rights of this account could not be read, and are asked for again: %s",
                    error,
                )
            # Also where a call was refused meanwhile: a server that refuses everything, as one
            # does that has not read its rules yet, refuses this question too.
            await asyncio.sleep(MISSING_S)
            if self._missing:
                continue
            try:
                async with asyncio.timeout(ALL_THERE_S):
                    await self._refused.wait()
            except TimeoutError:
                continue

    async def missing(self) -> frozenset[Right]:
        """Returns the rights that this account lacks now. Raises KubeError."""
        answers = await asyncio.gather(*(self._kube.may(right) for right in NEEDED))
        return frozenset(right for right, yes in zip(NEEDED, answers, strict=True) if not yes)

    def _found(self, missing: frozenset[Right]) -> None:
        if missing == self._missing:
            return
        before = self._missing or frozenset()
        for right in sorted(missing - before):
            logger.error("the operator's account %s", sentence(right))
        for right in sorted(before - missing):
            logger.info("the operator's account may %s again", right)
        if missing:
            logger.error("%s", advice(missing))
        for right in NEEDED:
            metrics.show_right(f"{right}", missing=right in missing)
        self._missing = missing
        self._tell(missing)

"""Collects the pieces of a run's data, each by itself: one that fails takes no other with it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from zonequake_analysis.verdict import Verdict
from zonequake_chaos.runner.problems import Problems
from zonequake_kube.errors import in_words

CollectedPiece = Callable[[], Awaitable[list[str]]]
"""Collects something; returns what of it is missing, in words."""


async def each_piece(pieces: Mapping[str, CollectedPiece], problems: Problems) -> None:
    """Collects all pieces, in their order. What is missing makes the run unknown; a piece that
    raises fails the harness, once the others are there.
    """
    for name, piece in pieces.items():
        try:
            missing = await piece()
        except Exception as error:  # noqa: BLE001 - the other pieces must be collected in any case
            problems.add(Verdict.HARNESS_FAILED, f"collect: {name}: {in_words(error)}")
        else:
            for problem in missing:
                problems.add(Verdict.UNKNOWN, problem)

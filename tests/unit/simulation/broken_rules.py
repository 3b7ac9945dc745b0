"""Rules of the simulation, each with facts that break it, and the same facts without the error.

A rule that random schedules and planted faults seldom or never break is shown here to bite: made-up
facts, no nodes.
"""

from __future__ import annotations

from collections.abc import Callable

Facts = Callable[[bool], None]
"""Puts facts before a rule; with True those that break it."""

BROKEN: dict[str, list[Facts]] = {}
"""By the rule's text."""


def breaks(rule: str) -> Callable[[Facts], Facts]:
    """Adds facts that break this rule."""

    def added(facts: Facts) -> Facts:
        BROKEN.setdefault(rule, []).append(facts)
        return facts

    return added

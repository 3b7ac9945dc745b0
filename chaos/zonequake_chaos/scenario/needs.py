"""The needs of a scenario: which part of the release or the machine its faults use. Pure.

The runner refuses a run for the same types of faults: `check_node`, `check_shell`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from zonequake_chaos.scenario.faults import AnyFault, ByAgent, OnTheNode


class Need(Enum):
    """The need of a scenario; the value is a sentence for people."""

    API = "Needs nothing but the cluster's API."
    AGENT = "Needs the fault agent or the embedded cluster."
    EMBEDDED = "Needs the embedded cluster."


def need_of(faults: Sequence[AnyFault]) -> Need:
    """Returns what the faults together need; an embedded cluster has what the agent has."""
    if any(isinstance(fault, OnTheNode) for fault in faults):
        return Need.EMBEDDED
    if any(isinstance(fault, ByAgent) for fault in faults):
        return Need.AGENT
    return Need.API

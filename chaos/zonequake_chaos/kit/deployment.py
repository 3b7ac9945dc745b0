"""The system under test, as the runner needs it: one protocol for our store and for others.

The phases of a run, its faults, load and checks are the same for every deployment. The protocol has
the parts that differ: set-up, observation, when members count as alike, dumps, and recorded events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from zonequake_chaos.kit.client_code import ClientCode
from zonequake_chaos.observe.observer import MemberSource, Observer
from zonequake_chaos.observe.view import ClusterView
from zonequake_chaos.record.cleanup_journal import CleanupJournal
from zonequake_chaos.record.event_log import EventLog
from zonequake_chaos.record.system_description import SystemDescription
from zonequake_chaos.scenario.run import RunZone
from zonequake_load.pod.control import LoadPlan
from zonequake_protocol.admin import StoreEvent


class Deployment(Protocol):
    """One kind of system under test, for one run. Raises HarnessError if it fails.

    It records in the journal what it will create, or change for the length of the run, before it
    does so.
    """

    @property
    def client(self) -> ClientCode:
        """The code that the load pods reach the system with."""
        ...

    @property
    def member_source(self) -> MemberSource:
        """The source from which the observer reads the members."""
        ...

    @property
    def described(self) -> SystemDescription:
        """The description of the system."""
        ...

    def load_plan(self, zone: RunZone, *, seed: int) -> LoadPlan:
        """Returns the plan of all load pods of a zone."""
        ...

    async def set_up(self, observer: Observer, journal: CleanupJournal) -> None:
        """Brings the system to the scenario's size, and creates what the load writes to.

        Raises UsageError before anything is changed, WaitExpired.
        """
        ...

    async def wait_available(self, observer: Observer) -> None:
        """Waits until everything that the load writes to is served in full. Raises WaitExpired."""
        ...

    async def wait_alike(self, observer: Observer, *, timeout_s: float) -> None:
        """Waits, after the last write, until all members hold the same data. Raises WaitExpired."""
        ...

    async def dump(self, view: ClusterView, folder: Path, events: EventLog) -> list[str]:
        """Dumps every member's state and emits `replica.audit`; returns problems."""
        ...

    async def recorded(
        self, nodes: Sequence[str], *, since_wall_ns: int
    ) -> tuple[Mapping[str, list[StoreEvent]], list[str]]:
        """Returns the events that the members recorded since `since_wall_ns`, by node, and
        problems.
        """
        ...

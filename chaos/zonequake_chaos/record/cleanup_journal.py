"""The cleanup journal: records what must be undone, on disk before it is done.

A line of `cleanup.jsonl` is either a debt (written and fsynced before the fault is injected) or the
number of a debt that was paid. The harness may die at any instant: `zonequake clean RUN` reads the
file and pays the rest. Paying twice does no harm, since each debt names a state to reach and not a
change to make.

A line that is no JSON was cut short when its writer died, before anything was done. A JSON line
with an unknown debt was written by another version: it can't be paid, and stays an open problem.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from zonequake_agent.disk.power_plan import Volume
from zonequake_chaos.errors import JournalFailed
from zonequake_chaos.node_access.shell import PodOnNode

FILE_NAME = "cleanup.jsonl"


class RemoveFinalizer(msgspec.Struct, frozen=True, kw_only=True, tag="remove_finalizer"):
    """The pod doesn't carry the finalizer."""

    pod: str
    finalizer: str


class RestoreScale(msgspec.Struct, frozen=True, kw_only=True, tag="restore_scale"):
    """The StatefulSet has this many replicas."""

    stateful_set: str
    replicas: int


class ContinueProcess(msgspec.Struct, frozen=True, kw_only=True, tag="continue_process"):
    """The store's process in this pod isn't stopped."""

    pod: str
    uid: str


class JoinNetwork(msgspec.Struct, frozen=True, kw_only=True, tag="join_network"):
    """The links of this pod are free of the fault `fault`; if that is empty, of every fault.

    `host` is the node on which the pod ran.
    """

    pod: str
    uid: str
    host: str = ""
    fault: str = ""


class ResumeComponent(msgspec.Struct, frozen=True, kw_only=True, tag="resume_component"):
    """This component of the node isn't stopped."""

    component: str


class LetSyncsPass(msgspec.Struct, frozen=True, kw_only=True, tag="let_syncs_pass"):
    """No sync of this pod is made to fail."""

    pod: str
    uid: str
    host: str


class QuickenDisk(msgspec.Struct, frozen=True, kw_only=True, tag="quicken_disk"):
    """No call of this pod is delayed."""

    pod: str
    uid: str
    host: str


class RestorePower(msgspec.Struct, frozen=True, kw_only=True, tag="restore_power"):
    """The volume of this pod is mounted, alive, and without a marker of a power loss."""

    pod: PodOnNode
    volume: Volume


class EmptyVolume(msgspec.Struct, frozen=True, kw_only=True, tag="empty_volume"):
    """The volume that pods of this name have at `path` holds no fill file."""

    pod: str
    path: str


class RestoreClock(msgspec.Struct, frozen=True, kw_only=True, tag="restore_clock"):
    """The wall clock of this pod's processes is the machine's."""

    pod: str
    uid: str
    host: str


class DeleteLoad(msgspec.Struct, frozen=True, kw_only=True, tag="delete_load"):
    """Nothing of the run's load is left."""

    name: str


class DeleteZone(msgspec.Struct, frozen=True, kw_only=True, tag="delete_zone"):
    """The run's zone is gone."""

    zone: str


class DeleteObjects(msgspec.Struct, frozen=True, kw_only=True, tag="delete_objects"):
    """No object of these kinds with these labels is left, and no pod with them.

    `labels` is a selector; kinds whose objects would recreate others come first.
    """

    labels: str
    kinds: list[str]


Debt = (
    RemoveFinalizer
    | RestoreScale
    | ContinueProcess
    | JoinNetwork
    | ResumeComponent
    | LetSyncsPass
    | QuickenDisk
    | RestorePower
    | EmptyVolume
    | RestoreClock
    | DeleteLoad
    | DeleteZone
    | DeleteObjects
)

HEALING = (
    ResumeComponent,
    JoinNetwork,
    LetSyncsPass,
    QuickenDisk,
    RestorePower,
    RestoreClock,
    RemoveFinalizer,
    ContinueProcess,
    EmptyVolume,
)
"""Debts that harm the system under test as long as they are open; the others can wait for the
collection.

The node's components come first: without an API server nothing else can be paid. A volume is
emptied once its pod may be there again.
"""

_ORDER = (*HEALING, DeleteLoad, DeleteZone, DeleteObjects, RestoreScale)
"""The number of nodes comes last: a zone is erased from its nodes as long as they are there."""


class _Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    number: int
    debt: Debt | None = None


class CleanupJournal:
    """The debts of one run folder."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME
        self._open: dict[int, Debt] = {}
        self._last = 0
        self.unknown: list[str] = []
        """Open debts of another version, as the lines of the file."""
        if self._path.exists():
            for raw in self._path.read_bytes().splitlines():
                self._read(raw)

    def _read(self, raw: bytes) -> None:
        try:
            line = msgspec.json.decode(raw, type=_Line)
        except msgspec.ValidationError:
            self.unknown.append(raw.decode(errors="replace"))
            return
        except msgspec.DecodeError:
            return  # torn: the harness died while writing it, before it injected anything
        self._last = max(self._last, line.number)
        if line.debt is not None:
            self._open[line.number] = line.debt
        else:
            self._open.pop(line.number, None)

    @property
    def debts(self) -> list[tuple[int, Debt]]:
        """Returns the open debts, in the order in which to pay them.

        Within a kind the newest comes first: they are undone in reverse order.
        """
        return sorted(self._open.items(), key=lambda owed: (_ORDER.index(type(owed[1])), -owed[0]))

    def owes(self, kind: type[Debt]) -> bool:
        """Returns whether a debt of this kind is open."""
        return any(isinstance(debt, kind) for debt in self._open.values())

    def owe(self, debt: Debt) -> int:
        """Records `debt` durably; only then may the fault be injected. Raises JournalFailed."""
        self._last += 1
        self._append(_Line(number=self._last, debt=debt))
        self._open[self._last] = debt
        return self._last

    def paid(self, number: int) -> None:
        """Records that a debt was paid; an unknown number changes nothing.

        Omits the record if the disk takes no write: paying again does no harm.
        """
        if self._open.pop(number, None) is not None:
            with contextlib.suppress(JournalFailed):
                self._append(_Line(number=number))

    async def pay_all(
        self, pay: Callable[[Debt], Awaitable[None]], kinds: tuple[type[Debt], ...] = _ORDER
    ) -> list[str]:
        """Pays every debt of these kinds; returns why some could not be paid (empty: all were)."""
        problems = []
        for number, debt in self.debts:
            if not isinstance(debt, kinds):
                continue
            try:
                await pay(debt)
            except Exception as error:  # noqa: BLE001 - the others must be paid in any case
                problems.append(f"{debt}: {str(error) or type(error).__name__}")
            else:
                self.paid(number)
        return problems

    def _append(self, line: _Line) -> None:
        """Writes the whole line and syncs it to disk, or raises JournalFailed.

        A full disk may take a part of a line without an error: a short write leaves a torn line,
        after which the next one begins on a new line.
        """
        try:
            before = self._path.read_bytes() if self._path.exists() else b""
            torn = before and not before.endswith(b"\n")
            data = (b"\n" if torn else b"") + msgspec.json.encode(line) + b"\n"
            handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                written = os.write(handle, data)
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            raise JournalFailed(
                f"the cleanup journal {self._path} can't be written ({error}): free the disk; "
                "what was to be recorded was not done"
            ) from error
        if written < len(data):
            raise JournalFailed(
                f"the cleanup journal {self._path} took {written} of {len(data)} bytes: free the "
                "disk; what was to be recorded was not done"
            )

"""Undoes a run and proves it: settles its journal's entries, then checks that nothing is left.

    pay what the journal says ─► look everywhere ─┬─ nothing left: proven, the run lock goes
            ▲                                     │
            └──── mend what was found ◄───────────┘  until the time is over: not proven

Both are needed. Without the journal the victims on an absent node would be unknown; without the
look an unrecorded fault, or one whose undoing had no effect, would stay.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import get_args

from zonequake_chaos.cleanup.leftovers import (
    Leftover,
    LeftoverSearch,
    SearchPlaces,
    at_pods,
    look,
    stopped_components,
)
from zonequake_chaos.cleanup.run_lock import RunLock, read_run_lock, remove_run_lock
from zonequake_chaos.cleanup.undo import ZONE_GONE_AGAIN_S, pay
from zonequake_chaos.node_access.own_machine import OwnMachine
from zonequake_chaos.node_access.shell import NodeShell
from zonequake_chaos.record.cleanup_journal import HEALING, CleanupJournal, Debt, RestoreScale
from zonequake_kube.client import Kube
from zonequake_kube.errors import ClusterError, HarnessError, in_words

CLEAN_S = 60.0
"""Time for undone objects to be gone, from the first time on that all were undone: pods end,
volumes wait for them.
"""

_POLL_S = 0.5


@dataclass(slots=True, kw_only=True)
class CleanupProof:
    """The result of a cleanup's proof: empty `problems` means that every place was checked, and
    that nothing is left.
    """

    checked: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def proven(self) -> bool:
        return not self.problems


async def clean_up(
    kube: Kube,
    *,
    node: OwnMachine | None,
    shell: NodeShell | None,
    release: str,
    run: str | None,
    journal: CleanupJournal | None,
    within_s: float = CLEAN_S,
) -> CleanupProof:
    """Undoes the run `run` (None: the leftovers of any run) and returns the proof.

    Never raises a HarnessError: a step or check that fails is a problem of the proof.
    """
    payer = partial(pay, kube, node=node, shell=shell, run=run)
    deadline_s = math.inf
    unmended: dict[str, str] = {}
    while True:
        unpaid = [*(await _mend(stopped_components(node))).values()] if node is not None else []
        if journal is not None:
            payable = await _payable(kube, release, run)
            if RestoreScale in payable and journal.owes(RestoreScale):
                # Once nodes are removed, faults at their volumes can't be seen.
                unpaid += (await _mend(await at_pods(kube, node, shell))).values()
            unpaid += await journal.pay_all(payer, payable)
        lock, search = await _look(kube, node, shell, release, run)
        if search.proven and not unpaid:
            break
        if time.monotonic() >= deadline_s:
            break
        if deadline_s == math.inf:
            # From here on: a zone that stays took all of the time, and what is left beside it was
            # undone, and not looked at again.
            deadline_s = time.monotonic() + within_s
            payer = partial(payer, zone_gone_s=ZONE_GONE_AGAIN_S)
        unmended = await _mend(search.left)
        await asyncio.sleep(_POLL_S)
    unpaid += [unmended[each.what] for each in search.left if each.what in unmended]
    proof = CleanupProof(checked=search.checked, problems=_problems(search, unpaid, journal))
    if journal is not None:
        proof.checked.insert(0, "debts of the cleanup journal")
    if proof.proven and lock is not None:
        try:
            await remove_run_lock(kube, lock)
        except HarnessError as error:
            proof.problems.append(f"the run lock {lock.name} could not be removed: {error}")
    return proof


async def _payable(kube: Kube, release: str, run: str | None) -> tuple[type[Debt], ...]:
    """Returns the kinds of debts to pay now: none under another run's lock. That run began when
    nothing of this one was left, and what this one's debts name, such as a zone, is its own now.
    """
    try:
        lock = await read_run_lock(kube, release)
    except ClusterError:
        return HEALING  # the lock's run is not known yet
    except HarnessError:
        lock = None
    return () if lock is not None and run not in (None, lock.run) else get_args(Debt)


async def _look(
    kube: Kube, node: OwnMachine | None, shell: NodeShell | None, release: str, run: str | None
) -> tuple[RunLock | None, LeftoverSearch]:
    """Looks, by the state before that the lock holds. With another run's lock it looks only for
    objects with the label: a run begins only when the one before left nothing."""
    try:
        lock = await read_run_lock(kube, release)
    except HarnessError as error:
        return None, LeftoverSearch(
            unseen=[f"the run lock of release {release} could not be read: {error}"]
        )
    if lock is not None and run not in (None, lock.run):
        places = SearchPlaces(kube=kube, node=node, shell=shell, run=run, lock=None)
        return None, await look(places, labelled=True)
    return lock, await look(SearchPlaces(kube=kube, node=node, shell=shell, run=run, lock=lock))


async def _mend(leftovers: Sequence[Leftover]) -> dict[str, str]:
    """Undoes them all, also if one fails; returns the problems by what is left."""
    problems = {}
    for leftover in leftovers:
        try:
            await leftover.mend()
        except Exception as error:  # noqa: BLE001 - the others must be undone in any case
            problems[leftover.what] = (
                f"{leftover.what}, which could not be undone: {in_words(error)}"
            )
    return problems


def _problems(
    search: LeftoverSearch, unpaid: list[str], journal: CleanupJournal | None
) -> list[str]:
    problems = [*unpaid, *(f"left: {leftover.what}" for leftover in search.left)]
    problems += [f"could not be checked: {unseen}" for unseen in search.unseen]
    for line in journal.unknown if journal is not None else []:
        problems.append(
            "the journal holds an entry that this version doesn't know; clean with the version "
            f"that made the run: {line}"
        )
    return problems

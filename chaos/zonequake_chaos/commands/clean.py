"""`zonequake clean` and `zonequake abort` end a run, undo it, and report the proof.

A run is named by its folder or by its name; given a name, its run lock in the cluster stands for
the folder. Both commands are repeatable, also by several processes at once, and work from any
machine that reaches the cluster; faults on an embedded cluster's node need the machine that it runs
on.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path

from zonequake_chaos.cleanup.leftovers import stopped_components
from zonequake_chaos.cleanup.prove import CleanupProof, clean_up
from zonequake_chaos.cleanup.run_lock import (
    ABORT,
    ALIVE,
    LockAnswer,
    RunLock,
    ask,
    read_run_lock,
    run_locks,
)
from zonequake_chaos.node_access.agent_pods import remaining_shell
from zonequake_chaos.node_access.own_machine import OwnMachine
from zonequake_chaos.node_access.shell import NodeShell
from zonequake_chaos.record.cleanup_journal import CleanupJournal
from zonequake_chaos.record.run_folder import RunFolder, RunFolderInUse
from zonequake_chaos.runner.run_limits import ABORT_FILE
from zonequake_ctl.context import ReleasePlace
from zonequake_kube.client import Kube
from zonequake_kube.errors import ClusterError, HarnessError, UsageError

RUNS = Path("runs")
OTHER_CLEANER_S = 20.0
"""How long to wait for another process that cleans the same folder, in seconds."""

END_S = 300.0
"""How long an aborted run may take to end, in seconds: it collects its files first."""

_POLL_S = 0.2
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedRun:
    """A run to end or to undo: its name (None: all runs of the place), its folder if it is here."""

    name: str | None
    folder: RunFolder | None
    place: ReleasePlace


def find_run(word: str | None, place: Callable[[], ReleasePlace]) -> CleanedRun:
    """Returns the run that `word` names, a folder or a name; without a word all runs of the place.

    A folder holds the place of its run. Raises UsageError.
    """
    if word is None:
        return CleanedRun(name=None, folder=None, place=place())
    for path in (Path(word), RUNS / word):
        if (path / "run.yaml").is_file():
            folder = RunFolder.open(path)
            return CleanedRun(name=folder.run_id(), folder=folder, place=_place_of(folder))
    if "/" in word or Path(word).exists():
        raise UsageError(f"{word} is no run folder: it has no run.yaml; name the run, or use --all")
    return CleanedRun(name=word, folder=None, place=place())


def _place_of(folder: RunFolder) -> ReleasePlace:
    where = folder.cluster()
    return ReleasePlace(
        kubeconfig=Path(where.kubeconfig) if where.kubeconfig else None,
        context=where.context,
        namespace=where.namespace,
        release=where.release,
        embedded=False,
    )


async def clean_run(run: CleanedRun) -> CleanupProof:
    """Undoes the run. Raises UsageError if it is under way, or if another process cleans it."""
    if run.folder is None:
        return await _clean_by_name(run)
    with run.folder.held(wait_s=OTHER_CLEANER_S):
        return await _connected(run, lambda kube, node: _clean_folder(run, kube, node))


async def abort_run(run: CleanedRun, say: Say) -> CleanupProof:
    """Ends the run if it is under way, waits until it has ended, and undoes what is left. Raises
    UsageError if another process cleans it."""
    if run.folder is not None:
        try:
            return await _clean_if_free(run)
        except RunFolderInUse:
            (run.folder.path / ABORT_FILE).touch()
            say(f"{run.name}: asked to end; it heals, collects and cleans")
        if await _until(lambda: _is_free(run)):
            return await clean_run(run)
        return CleanupProof(
            problems=[f"{run.folder.path} is still held after {END_S:g} s: see its log"]
        )
    return await _connected(run, lambda kube, node: _abort_by_name(run, kube, node, say))


async def _clean_if_free(run: CleanedRun) -> CleanupProof:
    assert run.folder is not None
    with run.folder.held(wait_s=0):
        return await _connected(run, lambda kube, node: _clean_folder(run, kube, node))


async def _is_free(run: CleanedRun) -> bool:
    assert run.folder is not None
    with contextlib.suppress(RunFolderInUse), run.folder.held(wait_s=0):
        return True
    return False


async def _connected(
    run: CleanedRun,
    work: Callable[[Kube, OwnMachine | None], Coroutine[object, object, CleanupProof]],
) -> CleanupProof:
    """Does `work` over a connection; without one the result is a problem: nothing is proven."""
    try:
        connection = await run.place.connect()
    except UsageError as error:
        return CleanupProof(
            problems=[f"the cluster can't be reached, so nothing is proven: {error}"]
        )
    async with connection as kube:
        return await work(kube, OwnMachine.of(run.place.kubeconfig, run.place.context))


async def _clean_folder(run: CleanedRun, kube: Kube, node: OwnMachine | None) -> CleanupProof:
    assert run.folder is not None
    return await clean_up(
        kube,
        node=node,
        shell=await _shell(kube, run.place.release, node),
        release=run.place.release,
        run=run.name,
        journal=CleanupJournal(run.folder.path),
    )


async def _shell(kube: Kube, release: str, node: OwnMachine | None) -> NodeShell | None:
    """Returns the fault agent's shell; the machine's own if the agents can't be listed."""
    try:
        return await remaining_shell(kube, release, node)
    except ClusterError:
        return node


async def _clean_by_name(run: CleanedRun) -> CleanupProof:
    async def work(kube: Kube, node: OwnMachine | None) -> CleanupProof:
        try:
            found = await _run_locks(run, kube, node)
            for lock in found:
                if await ask(kube, lock, ALIVE) is LockAnswer.ANSWER:
                    raise UsageError(
                        f"{lock.run} is under way, started on {lock.host}: zonequake abort "
                        f"{lock.run}"
                    )
        except HarnessError as error:
            return CleanupProof(problems=[f"the run locks can't be seen: {error}"])
        return await _clean_marked(run, found, kube, node)

    return await _connected(run, work)


async def _clean_marked(
    run: CleanedRun, found: list[RunLock], kube: Kube, node: OwnMachine | None
) -> CleanupProof:
    """Undoes the runs of these run locks; without one, looks for leftovers of any run."""
    releases = {lock.release for lock in found} or {run.place.release}
    together = CleanupProof()
    if run.name is not None and not found:  # cleaned before, or misspelled: say so
        together.checked.append(f"run locks (none names {run.name})")
    for release in sorted(releases):
        shell = await _shell(kube, release, node)
        one = await clean_up(
            kube, node=node, shell=shell, release=release, run=run.name, journal=None
        )
        together.checked += [words for words in one.checked if words not in together.checked]
        together.problems += one.problems
    return together


async def _abort_by_name(
    run: CleanedRun, kube: Kube, node: OwnMachine | None, say: Say
) -> CleanupProof:
    try:
        found = await _run_locks(run, kube, node)
        for lock in found:
            if await ask(kube, lock, ABORT) is not LockAnswer.ANSWER:
                continue
            say(f"{lock.run}: asked to end; it heals, collects and cleans")

            async def gone(lock: RunLock = lock) -> bool:
                now = await read_run_lock(kube, lock.release)
                return now is None or now.run != lock.run

            if not await _until(gone):
                return CleanupProof(problems=[f"{lock.run} has not ended within {END_S:g} s"])
    except HarnessError as error:
        return CleanupProof(problems=[f"the run locks can't be seen: {error}"])
    return await _clean_marked(run, found, kube, node)


async def _run_locks(run: CleanedRun, kube: Kube, node: OwnMachine | None) -> list[RunLock]:
    """Returns the locks of the run, or of all runs. Raises HarnessError.

    An API server that a dead run left stopped is resumed first.
    """
    for leftover in stopped_components(node) if node is not None else []:
        await leftover.mend()
    return [lock for lock in await run_locks(kube) if run.name in (None, lock.run)]


async def _until(condition: Callable[[], Awaitable[bool]]) -> bool:
    deadline_s = time.monotonic() + END_S
    while not await condition():
        if time.monotonic() >= deadline_s:
            return False
        await asyncio.sleep(_POLL_S)
    return True

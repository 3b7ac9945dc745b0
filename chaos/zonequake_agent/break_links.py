"""Applies link faults in a pod's network namespace, reports on them, and undoes them.

All functions here are repeatable, also by another process: the rules in the kernel are the only
record of a fault.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from zonequake_agent import delayer, ending, pods, rules
from zonequake_agent.link_fault import LinkFault

_READY_S = 10.0
"""Time for Python to start; on a machine whose processors are all busy that takes seconds."""
_WAIT = ("-w", "5")
DELAY_WORDS = ("-m", "zonequake_agent", "delay")


class LinkTrouble(Exception):
    """Raised when a program on the node failed; the text is the program's own."""


def apply(uid: str, order: LinkFault, text: str) -> None:
    """Applies this fault at the pod, from now for its `seconds`.

    `text` is the order as received. Raises LinkTrouble, PodAbsent.
    """
    undo(uid, order.name)
    try:
        if order.delays:
            _start_delayer(uid, order, text)
        _restore(uid, rules.insertion(order, until=int(time.time() + order.seconds) + 1))
    except LinkTrouble:
        undo(uid, order.name)
        raise


def undo(uid: str, name: str | None = None) -> None:
    """Removes the fault from the pod; without a name all faults. Raises LinkTrouble.

    The rules of a pod that is gone are gone with it. Rules are removed first: the delayer gets no
    further packets, and releases those that it holds as it ends.
    """
    with contextlib.suppress(pods.PodAbsent):
        _remove(uid, name)
    left = ending.end(delayers(uid, name))
    if left:
        raise LinkTrouble(f"delayers are still running after SIGKILL, as {sorted(left)}")
    for file in delayer.STATE.glob(f"{name or 'ZQ-*'}-{uid}.json"):
        file.unlink(missing_ok=True)


def _remove(uid: str, name: str | None) -> None:
    """Removes the rules of the fault; another process, as a sweep, may do the same meanwhile.

    Raises LinkTrouble if the rules can't be removed, and no other process removes them either.
    """
    text = rules.removal(_saved(uid), name)
    while text:
        try:
            _restore(uid, text)
        except LinkTrouble:
            before, text = text, rules.removal(_saved(uid), name)
            if text == before:
                raise
        else:
            return


def counted(uid: str, name: str) -> dict[str, object]:
    """Returns the counts of the fault's rules, and those of its delayer, if it has one.

    Raises LinkTrouble, PodAbsent.
    """
    found: dict[str, object] = dict(asdict(rules.counts(_saved(uid), name)))
    with contextlib.suppress(FileNotFoundError):
        found["delayed"] = delayer.state_file(name, uid).read_text()
    return found


def holds(uid: str, name: str, now_s: float) -> bool:
    """Returns whether the fault is active: its rules exist, before their deadline, and so does
    their delayer, if they need one. Raises LinkTrouble.
    """
    try:
        saved = _saved(uid)
    except pods.PodAbsent:
        return False
    return any(
        fault.name == name and fault.until >= now_s and (not fault.delays or delayers(uid, name))
        for fault in rules.standing(saved)
    )


def left(uid: str) -> list[str]:
    """Returns the remains of faults as sentences; empty if there are none, or if the pod is
    gone.
    """
    found = []
    with contextlib.suppress(pods.PodAbsent):
        found = [f"rules of {fault.name}" for fault in rules.standing(_saved(uid))]
    return found + [f"delayer process {pid}" for pid in delayers(uid)]


def sweep(now_s: float) -> list[str]:
    """Undoes every expired fault on this node; returns the results as sentences."""
    said = []
    for uid in pods.all_uids():
        try:
            expired = [f.name for f in rules.standing(_saved(uid)) if f.until < now_s]
        except (pods.PodAbsent, LinkTrouble):
            continue  # it ended meanwhile
        for name in expired:
            where = f"{name} at the pod with UID {uid}"
            try:
                undo(uid, name)
            except LinkTrouble as trouble:  # the next sweep looks again
                said.append(f"{where} could not be undone: {trouble}")
            else:
                said.append(f"{where} was undone")
    return said


def delayers(uid: str, name: str | None = None) -> list[int]:
    """Returns the delayer processes of this pod."""
    return [pid for pid, of, pod in _delayers() if pod == uid and name in (None, of)]


def _delayers() -> Iterator[tuple[int, str, str]]:
    """Returns PID, fault and pod of every delayer on this node: `… delay NAME UID ORDER …`."""
    for folder in pods.PROC.iterdir():
        if not folder.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
            if tuple(words[1:4]) == DELAY_WORDS and len(words) > 5:
                yield int(folder.name), words[4], words[5]


def _start_delayer(uid: str, order: LinkFault, text: str) -> None:
    """Starts the delayer in its own session, and waits until it listens."""
    read, write = os.pipe()
    command = [sys.executable, *DELAY_WORDS, order.name, uid, text, str(write)]
    errors_read, errors_write = os.pipe()
    try:
        started = subprocess.Popen(
            pods.in_network(uid, command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors_write,
            pass_fds=(write,),
            start_new_session=True,
        )
        os.close(write)
        os.close(errors_write)
        if not select.select([read], [], [], _READY_S)[0]:
            started.kill()
            started.wait()
            raise LinkTrouble(f"the delayer did not listen within {_READY_S:g} s")
        if os.read(read, 1) != b".":
            said = os.read(errors_read, 4000).decode(errors="replace").strip()
            raise LinkTrouble(f"the delayer did not start: {said[-300:]}")
    finally:
        os.close(read)
        os.close(errors_read)


def _saved(uid: str) -> str:
    return _run(pods.in_network(uid, ["iptables-save", "--counters"]))


def _restore(uid: str, text: str) -> None:
    _run(pods.in_network(uid, ["iptables-restore", "--noflush", *_WAIT]), given=text)


def _run(command: Sequence[str], *, given: str | None = None) -> str:
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LinkTrouble(f"{' '.join(command[-3:])}: {done.stderr.strip()[-300:]}")
    return done.stdout

"""Puts link faults into a pod's network namespace, looks at them, and takes them out again.

Everything here says what shall hold and may be repeated, also by another process: the rules in the
kernel are all that is remembered of a fault.
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
"""Python has to start; on a machine whose processors are all busy that takes seconds."""
_WAIT = ("-w", "5")
DELAY_WORDS = ("-m", "zonequake_agent", "delay")


class LinkTrouble(Exception):
    """The node could not do it; the text is the program's own."""


def apply(uid: str, order: LinkFault, text: str) -> None:
    """Sees to it that this fault holds at the pod, from now for its seconds.

    `text` is the order as it came. Raises LinkTrouble, PodAbsent.
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
    """Sees to it that nothing of the fault is at the pod, of any fault without a name.

    A pod that is gone has taken its rules along. Rules go first: what a delayer holds then is the
    last that it gets, and it lets go of that as it ends. Raises LinkTrouble.
    """
    with contextlib.suppress(pods.PodAbsent):
        _remove(uid, name)
    left = ending.end(delayers(uid, name))
    if left:
        raise LinkTrouble(f"delayers go on after SIGKILL, as {sorted(left)}")
    for file in delayer.STATE.glob(f"{name or 'ZQ-*'}-{uid}.json"):
        file.unlink(missing_ok=True)


def _remove(uid: str, name: str | None) -> None:
    """Takes out the rules of the fault; another process may be at it too, as a sweep is.

    Raises LinkTrouble if they can't be removed, and nobody else removes them either.
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
    """Returns whether the fault is there and not over: its rules, before their deadline, and its
    delayer if they lead to one. Raises LinkTrouble.
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
    """Undoes every fault on this node whose deadline has passed; what came of it, in words."""
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
    """Delayer processes of this pod."""
    return [pid for pid, of, pod in _delayers() if pod == uid and name in (None, of)]


def _delayers() -> Iterator[tuple[int, str, str]]:
    """PID, fault and pod of every delayer on this node: `… delay NAME UID ORDER …`."""
    for folder in pods.PROC.iterdir():
        if not folder.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
            if tuple(words[1:4]) == DELAY_WORDS and len(words) > 5:
                yield int(folder.name), words[4], words[5]


def _start_delayer(uid: str, order: LinkFault, text: str) -> None:
    """Starts the delayer as nobody's child, and waits until it listens."""
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

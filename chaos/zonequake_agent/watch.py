"""The agent pod's first process: undoes expired faults, and does nothing else.

The kernel ends a fault at its deadline by itself (`rules`); this process removes the rules that are
left, which match nothing. When the agent ends, it undoes its faults.
"""

from __future__ import annotations

import signal
import sys
import threading
import time

from zonequake_agent import break_links, leftovers, pods
from zonequake_agent.disk.power import NotMounted
from zonequake_agent.disk.tampering import NotTraced

SWEEP_S = 5.0


def watch() -> None:
    """Runs until SIGTERM, then undoes every fault on this node."""
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    while not ended.wait(SWEEP_S):
        for words in break_links.sweep(time.time()):
            _say(f"past its deadline: {words}")
    for uid in pods.all_uids():
        try:
            leftovers.heal(uid)
        except (break_links.LinkTrouble, NotTraced, NotMounted, OSError) as trouble:
            _say(f"the pod with UID {uid}: {trouble}")


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()

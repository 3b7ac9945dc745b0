"""A real data node that sends itself SIGKILL at a chosen moment of a transaction.

    ZQ_DIE=/somewhere/die python dying_coordinator.py

While the file is there, the coordinator that reaches the moment named in it deletes it and dies:
`voted` (its own part is prepared), `deciding` (all parts are, nothing is proposed), `proposed` (the
decision is about to be written), `decided` (it is applied, and no client was told), `told` (some
group has applied its commit). Everything else is the node as it is shipped.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from zonequake_store.__main__ import main
from zonequake_store.transactions.coordinator import Coordinator

_PROPOSED_S = 0.001
"""About what it takes until a proposal is on its way to disk and peers."""

BEFORE = {
    "voted": "vote",
    "deciding": "_decide",
    "proposed": "_decide",
    "decided": "applied",
    "told": "done",
}


def _die_if(moment: str) -> None:
    file = Path(os.environ["ZQ_DIE"])
    with contextlib.suppress(FileNotFoundError):
        if file.read_text() != moment:
            return
        file.unlink()
        if moment == "proposed":
            threading.Thread(target=_die_soon, daemon=True).start()
        else:
            os.kill(os.getpid(), signal.SIGKILL)


def _die_soon() -> None:
    time.sleep(_PROPOSED_S)
    os.kill(os.getpid(), signal.SIGKILL)


def die_before(moment: str, method: str) -> None:
    """Let the process end when the coordinator is about to run `method`."""
    run: Callable[..., Any] = getattr(Coordinator, method)

    def dies(coordinator: Coordinator, *given: Any) -> Any:
        _die_if(moment)
        return run(coordinator, *given)

    setattr(Coordinator, method, dies)


if __name__ == "__main__":
    for moment, method in BEFORE.items():
        die_before(moment, method)
    sys.exit(main())

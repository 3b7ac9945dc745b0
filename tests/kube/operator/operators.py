"""Several operators at once, of which an election lets one act."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .machine import Machine

ELECTION_S = 6
"""So long a leader's Lease lasts without being renewed: longer than an operator ever stands still on
a busy machine of two cores."""


class Operators:
    """Operator processes beside a machine's nodes, numbered as they were started."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.running: list[subprocess.Popen[bytes]] = []

    def start(self, **environment: str) -> subprocess.Popen[bytes]:
        """One more, with the election switched on."""
        process = self.machine.run_operator(
            f"operator-{len(self.running)}.log", ZQ_ELECTION_S=str(ELECTION_S), **environment
        )
        self.running.append(process)
        return process

    def leads(self, number: int) -> bool:
        """Whether this one has led."""
        log = (self.machine.folder / f"operator-{number}.log").read_text()
        return " leads\n" in log

    def lease(self) -> dict[str, object]:
        found = self.machine.api.get("lease", "zq-operator") or {"spec": {}}
        return found["spec"]  # type: ignore[no-any-return]

    def close(self) -> None:
        """End them all, also those that stand still."""
        for process in self.running:
            process.kill()
            process.wait()

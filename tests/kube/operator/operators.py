"""Several operators at once, of which an election lets one act."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.warm_processes import WarmProcess

if TYPE_CHECKING:
    from tests.kube.operator.machine import Machine

ELECTION_S = 10
"""How long a leader's Lease lasts without being renewed: longer than an operator ever stands still
on a busy machine of two cores."""


class Operators:
    """Operator processes beside a machine's nodes, numbered as they were started."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.running: list[WarmProcess] = []

    def start(self, **environment: str) -> WarmProcess:
        """One more, with the election switched on."""
        process = self.machine.run_operator(
            f"operator-{len(self.running)}.log", ZQ_ELECTION_S=str(ELECTION_S), **environment
        )
        self.running.append(process)
        return process

    def leads(self, number: int) -> bool:
        """Whether this one has led."""
        return self.said(number, " leads") is not None

    def said(self, number: int, end: str) -> str | None:
        """When this one wrote the first line of its log that ends so, by its own clock; None if it
        hasn't. Moments sort as their texts do."""
        for line in (self.machine.folder / f"operator-{number}.log").read_text().splitlines():
            if line.endswith(end):
                return " ".join(line.split()[:2])
        return None

    def lease(self) -> dict[str, object]:
        found = self.machine.api.get("lease", "zq-operator") or {"spec": {}}
        return found["spec"]  # type: ignore[no-any-return]

    def close(self) -> None:
        """End them all, also those that stand still."""
        for process in self.running:
            process.kill()
            process.wait()

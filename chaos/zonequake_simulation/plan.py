"""The faults of one run, drawn from its seed before it begins, so that each can be left out alone.

A fault names its target by role ("the leader then") or by node, and carries all that is random
about it; its effect depends on the run alone.
"""

from __future__ import annotations

import enum
import random
from dataclasses import dataclass

from zonequake_simulation.scenario import FaultKind, Scenario


class FaultAim(enum.StrEnum):
    """The target of a fault when its time comes."""

    LEADER = "leader"  # the live leader of the highest term, else the first node that is found
    NODE = "node"  # the node that `choice` names


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault at `at_ms`; `choice` decides what `kind` leaves open, `amount` is 0..1."""

    at_ms: int
    kind: FaultKind
    target: FaultAim
    for_ms: int
    choice: int
    amount: float

    def __str__(self) -> str:
        whom = "leader" if self.target is FaultAim.LEADER else f"node {self.choice % 97}"
        return f"{self.at_ms} ms: {self.kind} ({whom}, {self.for_ms} ms, {self.amount:.2f})"


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """Faults in the order of their times; a shrinker drops some of them."""

    faults: tuple[Fault, ...] = ()

    @classmethod
    def random(cls, seed: int, scenario: Scenario) -> FaultPlan:
        """Returns the faults that `scenario` has for `seed`."""
        draw = random.Random(f"{seed}/faults")  # noqa: S311
        kinds = list(scenario.faults)
        weights = [scenario.faults[kind] for kind in kinds]
        found: list[Fault] = []
        at_ms = 0
        while kinds:
            at_ms += draw.randrange(scenario.least_gap_ms, scenario.most_gap_ms)
            if at_ms >= scenario.horizon_ms:
                break
            found.append(
                Fault(
                    at_ms=at_ms,
                    kind=draw.choices(kinds, weights)[0],
                    target=draw.choice([FaultAim.LEADER, FaultAim.LEADER, FaultAim.NODE]),
                    for_ms=int(draw.choice([100, 500, 1500, 4000]) * (0.2 + draw.random())),
                    choice=draw.getrandbits(32),
                    amount=draw.random(),
                )
            )
        return cls(tuple(found))

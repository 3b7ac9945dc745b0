"""The model of proven ends holds, and each of its rules is needed."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.model.page import row
from tests.model.tlc import Model, check

pytestmark = pytest.mark.timeout(900)

MODEL = Model("ProvenEnd")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How far the model goes: see its constants. There are three nodes."""

    term: int = 2
    kills: int = 1
    starts: int = 1
    cuts: int = 1

    @property
    def model(self) -> Model:
        return MODEL

    def settings(self) -> list[str]:
        return [
            "CONSTANTS",
            *(f"  {name} = {name}" for name in ("None", "a", "b", "c")),
            "  Nodes = {a, b, c}",
            f"  MaxTerm = {self.term}",
            f"  MaxKills = {self.kills}",
            f"  MaxStarts = {self.starts}",
            f"  MaxCuts = {self.cuts}",
        ]


PROOFS = Bounds()

AROUND = {"no-proxy", "in-time"}
"""Rules that bind what is around a process. Without them it can be taken for ended though it lives,
and all else must hold."""

WITHIN = {
    "proofs": PROOFS,
    "wrong-proofs": PROOFS,
    "proofs-of-two": Bounds(kills=2, starts=2),
    "proofs-twice": Bounds(term=3),
}

FOUND_BY = {
    "ended-first": "WhatIsProvenHasEnded",
    "by-the-peer": "WhatIsProvenHasEnded",
    "refused-then": "WhatIsProvenHasEnded",
    "refused-there": "WhatIsProvenHasEnded",
    "no-route": "WhatIsProvenHasEnded",
    "same-address": "WhatIsProvenHasEnded",
    "greets-again": "WhatIsProvenHasEnded",
    "no-proxy": "WhatIsProvenHasEnded",
    "in-time": "WhatIsProvenHasEnded",
    "silence": "WhoIsHeardStays",
    "hears": "WhoIsHeardStays",
    "newest-process": "WhoIsHeardStays",
    "votes-once": "OneLeader",
}
"""Rule → the invariant that breaks first without it."""


LARGE = ("proofs", "wrong-proofs", "proofs-of-two", "proofs-twice")
"""Too large for each change."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.long) if name in LARGE else name for name in WITHIN],
)
def test_all_that_must_hold_holds_in_every_state(name: str) -> None:
    off = AROUND if name == "wrong-proofs" else set()
    invariants = [each for each in MODEL.invariants() if not off or each != "WhatIsProvenHasEnded"]
    outcome = check(WITHIN[name], off=off, invariants=invariants, is_short=name != "proofs-of-two")
    print(f"{name}: {outcome.states:,} states, depth {outcome.depth}; {WITHIN[name]}")
    assert outcome.violated is None, outcome.text
    assert f"| {outcome.states:,} | {outcome.depth} |" in row(name)


@pytest.mark.parametrize("rule", FOUND_BY)
def test_a_rule_that_is_switched_off_is_missed(rule: str) -> None:
    outcome = check(PROOFS, off={rule}, is_short=True)
    print(f"without {rule}: {outcome.violated}, {outcome.states:,} states, depth {outcome.depth}")
    assert outcome.violated == FOUND_BY[rule], outcome.text
    assert f"| `{FOUND_BY[rule]}` | {outcome.depth} |" in row(rule)


def test_a_wrong_proof_can_cost_an_election() -> None:
    off = {"few-are-wrong", "no-proxy"}
    outcome = check(PROOFS, off=off, invariants=["WhoIsHeardStays"], is_short=True)
    assert outcome.violated == "WhoIsHeardStays", outcome.text
    assert f"| `WhoIsHeardStays` | {outcome.depth} |" in row("few-are-wrong")


def test_every_rule_and_every_invariant_is_looked_at() -> None:
    assert {*FOUND_BY, "few-are-wrong"} == MODEL.rules()
    assert set(FOUND_BY.values()) == set(MODEL.invariants())

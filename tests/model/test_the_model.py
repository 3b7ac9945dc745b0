"""The model of reconfiguration and reset holds, and each of its rules is needed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from tests.model.page import row
from tests.model.tlc import Model, check

pytestmark = pytest.mark.timeout(900)

MODEL = Model("ZonequakeRaft")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How far the model goes: see its constants. The first members are always a, b and c."""

    peers: str = "a, b, c, d"
    wish_sizes: str = "{3}"
    number: int
    changes: int = 0
    resets: int = 0
    writes: int = 0
    losses: int = 0
    depth: int = 0
    """Of states on a way from the first; 0: to the end of all ways."""

    @property
    def model(self) -> Model:
        return MODEL

    def settings(self) -> list[str]:
        names = [name.strip() for name in ("None", *self.peers.split(","))]
        return [
            "CONSTANTS",
            *(f"  {name} = {name}" for name in names),
            f"  Peers = {{{self.peers}}}",
            "  First = {a, b, c}",
            f"  WishSizes = {self.wish_sizes}",
            f"  MaxNumber = {self.number}",
            f"  MaxChanges = {self.changes}",
            f"  MaxResets = {self.resets}",
            f"  MaxWrites = {self.writes}",
            f"  MaxLosses = {self.losses}",
            f"  MaxDepth = {self.depth}",
            "CONSTRAINT NotTooDeep",
        ]


THREE = "a, b, c"

ELECTIONS = Bounds(peers=THREE, wish_sizes="{}", number=5, writes=1)
CHANGES = Bounds(wish_sizes="{1, 2, 3}", number=2, changes=2)
LATE_CHANGE = Bounds(number=3, changes=1)
RESET = Bounds(peers=THREE, wish_sizes="{}", number=2, resets=1, writes=1)
RESET_AND_BACK = Bounds(peers=THREE, number=2, changes=1, resets=1)
RESET_AND_CHANGE = Bounds(number=2, changes=1, resets=1)
LOSS = Bounds(number=3, changes=1, losses=1)
EVERYTHING = Bounds(number=2, changes=2, resets=1)
EVERYTHING_NEAR = replace(EVERYTHING, depth=16)

WITHIN = {
    "elections": ELECTIONS,
    "changes": CHANGES,
    "late-change": LATE_CHANGE,
    "reset": RESET,
    "reset-and-back": RESET_AND_BACK,
    "reset-and-change": RESET_AND_CHANGE,
    "loss": LOSS,
    "everything-near": EVERYTHING_NEAR,
    "everything": EVERYTHING,
}

LARGE = (
    *("elections", "changes", "late-change", "loss"),  # models seldom change
    *("reset-and-back", "reset-and-change", "everything-near", "everything"),
)
"""Too large for each change."""

FOUND_BY = {
    "both-halves": (LATE_CHANGE, "OneLeader"),
    "joint-committed": (LATE_CHANGE, "OneLeader"),
    "own-term": (ELECTIONS, "LeaderCompleteness"),
    "newest-log": (ELECTIONS, "LeaderCompleteness"),
    "one-vote": (ELECTIONS, "OneLeader"),
    "new-incarnation": (ELECTIONS, "OneLeader"),
    "abstain": (RESET, "ResetLeavesOne"),
    "lease": (RESET, "OneLineageAcknowledges"),
    "told-on-return": (RESET, "OneLineageAcknowledges"),
    "told-before-reset": (RESET, "OneLineageAcknowledges"),
    "one-survivor": (RESET, "OneLeader"),
    "token": (RESET_AND_BACK, "OneLeader"),
}
"""Rule → bounds within which its absence shows, and the invariant that breaks first."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.long, pytest.mark.timeout(7200)])
        if name in LARGE
        else name
        for name in WITHIN
    ],
)
def test_all_that_must_hold_holds_in_every_state(name: str) -> None:
    outcome = check(WITHIN[name])
    print(f"{name}: {outcome.states:,} states, depth {outcome.depth}; {WITHIN[name]}")
    assert outcome.violated is None, outcome.text
    assert outcome.states > 2_000, "the bounds leave nothing to look at"
    assert f"| {outcome.states:,} | {outcome.depth} |" in row(name)


@pytest.mark.parametrize("rule", FOUND_BY)
def test_a_rule_that_is_switched_off_is_missed(rule: str) -> None:
    bounds, invariant = FOUND_BY[rule]
    outcome = check(bounds, off={rule}, is_short=True)
    print(f"without {rule}: {outcome.violated}, {outcome.states:,} states, depth {outcome.depth}")
    assert outcome.violated == invariant, outcome.text
    assert f"| `{invariant}` | {outcome.depth} |" in row(rule)


def test_every_rule_and_every_bound_of_a_rule_is_looked_at() -> None:
    assert FOUND_BY.keys() == MODEL.rules()
    assert {bounds for bounds, _ in FOUND_BY.values()} <= set(WITHIN.values())
    assert {invariant for _, invariant in FOUND_BY.values()} <= set(MODEL.invariants())

"""A tiny, obviously right linearizability checker for one key, by search (Wing and Gong 1993).

It tries every order that respects real time, and remembers which sets of operations, with which
state, led nowhere. It is exponential, so only for a few operations: it judges the fast checkers in
tests, and witnesses, which must be violations by themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zonequake_analysis.inputs.shapes import NEVER_NS, Function

ReferenceState = int | tuple[int, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceStep:
    """One operation on one key. An unanswered write has `fin_ns` = NEVER_NS.

    `value`: what was written, or read (tuple for a list, None for absent). `found`: what a refused
    cas found.
    """

    f: Function
    inv_ns: int
    fin_ns: int
    value: ReferenceState = None
    expected: int | None = None
    found: int | None = None
    refused: bool = False


def is_linearizable(steps: Sequence[ReferenceStep]) -> bool:
    """Returns whether some order of `steps` respects real time and explains every answer."""
    dead: set[tuple[int, ReferenceState]] = set()
    must = sum(1 << i for i, step in enumerate(steps) if step.fin_ns != NEVER_NS)

    def search(done: int, state: ReferenceState) -> bool:
        if done & must == must:
            return True
        if (done, state) in dead:
            return False
        left = [i for i in range(len(steps)) if not done >> i & 1]
        horizon = min(steps[i].fin_ns for i in left)
        for i in left:
            if steps[i].inv_ns > horizon:
                continue
            legal, after = apply(steps[i], state)
            if legal and search(done | 1 << i, after):
                return True
        dead.add((done, state))
        return False

    return search(0, None)


def apply(step: ReferenceStep, state: ReferenceState) -> tuple[bool, ReferenceState]:
    """Returns whether `step` may happen in `state`, and the state after it."""
    if step.f is Function.READ:
        return step.value == state, state
    if step.f is Function.WRITE:
        return True, step.value
    if step.f is Function.CAS:
        if step.refused:
            return state == step.found, state
        return state == step.expected, step.value
    elements = state if isinstance(state, tuple) else ()
    assert isinstance(step.value, int)
    return True, (*elements, step.value)

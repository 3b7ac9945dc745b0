"""A search that decides whether a short history on one key follows the store's claimed order.

Like `reference` it is tiny and obviously right, but bound to the claimed places: answered
operations keep their order (reads of one place in any), and the search places only unanswered
writes.
"""

from __future__ import annotations

from collections.abc import Sequence

from zonequake_analysis.checks.search.reference import ReferenceState, ReferenceStep, apply
from zonequake_analysis.inputs.shapes import NEVER_NS, Function


def follows_claim(steps: Sequence[ReferenceStep], positions: Sequence[int | None]) -> bool:
    """Returns whether `steps` in the order of `positions` respect real time and explain every
    answer.

    An unanswered write has no position, and may take any place or none. A history with an answer
    without a position claims nothing, so it follows.
    """
    answered = [i for i, step in enumerate(steps) if step.fin_ns != NEVER_NS]
    ranks: dict[int, int] = {}
    for i in answered:
        position = positions[i]
        if position is None:
            return True
        ranks[i] = 2 * position + (steps[i].f is Function.READ or steps[i].refused)
    order = sorted(answered, key=lambda i: (ranks[i], steps[i].inv_ns))
    # Among answered operations real time must agree with the places.
    latest_start = -NEVER_NS
    for i in order:
        if steps[i].fin_ns < latest_start:
            return False
        latest_start = max(latest_start, steps[i].inv_ns)
    loose = [i for i, step in enumerate(steps) if step.fin_ns == NEVER_NS]
    dead: set[tuple[int, int, ReferenceState]] = set()

    def search(place: int, used: int, state: ReferenceState) -> bool:
        if place == len(order):
            return True
        if (place, used, state) in dead:
            return False
        step = steps[order[place]]
        legal, after = apply(step, state)
        if legal and search(place + 1, used, after):
            return True
        # A write may come here if it began before all operations after this place had finished.
        ends = min(steps[i].fin_ns for i in order[place:])
        for bit, i in enumerate(loose):
            if used >> bit & 1 or steps[i].inv_ns > ends:
                continue
            legal, after = apply(steps[i], state)
            if legal and search(place, used | 1 << bit, after):
                return True
        dead.add((place, used, state))
        return False

    return search(0, 0, None)

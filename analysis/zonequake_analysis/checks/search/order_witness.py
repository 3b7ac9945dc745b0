"""A few operations of a register that have no order, where values repeat.

With unique values a read names its write. Here an operation may be left out only if no answer that
stays can have observed it (`observed_writes`): else what is left might have no order of our own
making. Operations that began after the end that shows the fault are left out, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from zonequake_analysis.checks.repeated_values import step_of
from zonequake_analysis.checks.search.observed_writes import Writes, shown
from zonequake_analysis.checks.search.order_search import Answer, search
from zonequake_analysis.checks.search.register_step import Step
from zonequake_analysis.checks.search.witness import WitnessOperation, minimize
from zonequake_analysis.inputs.shapes import ABSENT, NEVER_NS, Function

MOST_SHOWN = 14
"""Most operations shown where no small set has no order: those open around the fault."""

_MOST_TRIED = 256
"""Operations before the fault among which a small set without an order is sought."""

_MOST_CONFIGURATIONS = 20_000
_MOST_SEARCHES = 500


def without_order(operations: Sequence[WitnessOperation]) -> list[WitnessOperation]:
    """Returns operations of one key that have no order, as few as it finds.

    Where it finds no small set: the operation at which no order is left, and those open around it.
    Empty if all have an order, or the search gives up.
    """
    judged = [o for o in operations if _is_judged(o)]
    steps = [_step(o) for o in judged]
    found = search(steps)
    if found.answer is not Answer.NO_ORDER or found.failed_at is None:
        return []
    end = steps[found.failed_at].fin_ns
    near = [i for i, s in enumerate(steps) if s.inv_ns <= end and not _reads_later(s, end)]
    near.sort(key=lambda i: (i == found.failed_at, min(steps[i].fin_ns, end), steps[i].inv_ns))
    few = Few(steps, near)
    size = 8
    while True:
        chosen = few.with_what_they_observe(near[-size:])
        if few.has_no_order(chosen):
            kept = minimize(chosen, few.has_no_order)
            return [few.as_write(judged[i], kept, i) for i in sorted(kept)]
        if size >= min(_MOST_TRIED, len(near)):
            break
        size *= 2
    begun = steps[found.failed_at].inv_ns
    around = [i for i in near if steps[i].fin_ns >= begun]
    return [judged[i] for i in sorted(around[-MOST_SHOWN:])]


def open_at(operations: Sequence[WitnessOperation], at_ns: int) -> list[WitnessOperation]:
    """Returns the operations of a key that begin at a time, and the nearest of those open then."""
    judged = [o for o in operations if _is_judged(o)]
    end = max((o.step.fin_ns for o in judged if o.step.inv_ns == at_ns), default=None)
    if end is None:
        return []
    near = [o for o in judged if o.step.inv_ns <= end and o.step.fin_ns >= at_ns]
    return sorted(near, key=lambda o: abs(o.step.inv_ns - at_ns))[:MOST_SHOWN]


class Few:
    """Tests whether some of the steps alone prove that all of them have no order."""

    def __init__(self, steps: Sequence[Step], near: Sequence[int]) -> None:
        self._steps = steps
        self._near = frozenset(near)
        self._writes = Writes(steps)
        self._searches = 0

    def with_what_they_observe(self, some: Sequence[int]) -> list[int]:
        """Returns these steps with every write that one of their answers may have observed."""
        chosen = set(some)
        for place in some:
            if self._answers(place):
                chosen.update(self._observable(place))
                chosen.update(self._newest(place))
        return sorted(chosen)

    def has_no_order(self, some: Sequence[int]) -> bool:
        """Returns whether these have no order, and that follows from no write that was left out."""
        chosen = set(some)
        kept = []
        for place in some:
            step = self._steps[place]
            if step.f is Function.READ and not self._is_explained(place, chosen):
                return False
            kept.append(self._relaxed(place, chosen))
        if self._searches >= _MOST_SEARCHES:
            return False
        self._searches += 1
        return search(kept, most=_MOST_CONFIGURATIONS).answer is Answer.NO_ORDER

    def as_write(self, o: WitnessOperation, some: Sequence[int], place: int) -> WitnessOperation:
        """Returns the operation, a cas whose expected value is not shown as a write."""
        if self._relaxed(place, set(some)).f is self._steps[place].f:
            return o
        return replace(o, step=replace(o.step, f=Function.WRITE, expected=None))

    def _relaxed(self, place: int, chosen: set[int]) -> Step:
        """Returns a cas as a write, which forbids less, if what it may have observed is missing."""
        step = self._steps[place]
        if step.f is Function.CAS and not self._is_explained(place, chosen):
            return step._replace(f=Function.WRITE, expected=ABSENT)
        return step

    def _is_explained(self, place: int, chosen: set[int]) -> bool:
        """Returns whether all that an answer may have observed is there, or what hid it."""
        observable = self._observable(place)
        return all(one in chosen for one in observable) and (
            bool(observable)
            or not self._newest(place)
            or any(one in chosen for one in self._writes.of(shown(self._steps[place])))
        )

    def _observable(self, place: int) -> list[int]:
        # A write that began after the fault's end can't be observed before it.
        return [i for i in self._writes.observable(self._steps[place]) if i in self._near]

    def _newest(self, place: int) -> list[int]:
        """Returns the write of the answer's value that ended last, at or before its time."""
        those = [i for i in self._writes.of(shown(self._steps[place])) if i in self._near]
        return [max(those, key=lambda i: self._steps[i].fin_ns)] if those else []

    def _answers(self, place: int) -> bool:
        return self._steps[place].f is not Function.WRITE


def _is_judged(o: WitnessOperation) -> bool:
    listed = o.step.f is Function.APPEND or isinstance(o.step.value, tuple)
    unanswered_read = o.step.f is Function.READ and o.outcome != "ok"
    return o.outcome != "fail" and not o.bounded and not listed and not unanswered_read


def _step(o: WitnessOperation) -> Step:
    value = o.step.value if isinstance(o.step.value, int) else None
    return step_of(
        o.step.f, o.outcome == "ok", o.step.inv_ns, o.step.fin_ns, value, o.step.expected,
        o.step.found, not o.step.refused,
    )  # fmt: skip


def _reads_later(step: Step, end_ns: int) -> bool:
    """Returns whether a step only reads, and ended after the fault: it need not have happened."""
    return step.f is Function.READ and (step.fin_ns > end_ns or step.fin_ns == NEVER_NS)

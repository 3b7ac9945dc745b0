"""A few operations that are a violation by themselves, for each finding.

From all operations of the key, delta debugging (Zeller 2002) drops whole values and then single
operations as long as the rest still has no order; `reference` then proves by search that the rest
has none. Dropping is sound: to forget an element everywhere, a read, or a write whose value no
operation read never makes a legal history illegal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from pyspark.sql import Row

from zonequake_analysis.checks.register_zones import Clusters, violations
from zonequake_analysis.checks.search.reference import (
    ReferenceState,
    ReferenceStep,
    is_linearizable,
)
from zonequake_analysis.inputs.shapes import ABSENT, NEVER_NS, Function, OutcomeCode, RoleCode

_T = TypeVar("_T")

_AS_RECORDED = ("phantom", "aborted", "no-order", "gave-up")
"""Kinds that no reduction by unique values explains."""

PROVABLE_OPERATIONS = 14
"""Number of operations that the search decides at once, whatever they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One violation, with its names."""

    check: str
    kind: str
    zone: str
    partition: int | None
    key: str
    value: int | None
    op: str
    at_ns: int
    position: tuple[int, int, int] | None  # lineage, term, index
    magnitude_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WitnessOperation:
    """An operation as the witness shows it."""

    op: str
    process: int
    node: str
    role: str
    outcome: str
    step: ReferenceStep
    term: int | None
    index: int | None
    bounded: bool = False
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """Operations that show a finding; `proven` if the search found no order for them."""

    operations: tuple[WitnessOperation, ...]
    proven: bool


def operation(row: Row) -> WitnessOperation:
    """Returns a row of `ops` as an operation."""
    f = Function(row["f"])
    outcome = OutcomeCode(row["outcome"])
    refused = f is Function.CAS and outcome is OutcomeCode.OK and not row["applied"]
    value: ReferenceState = row["value"]
    if row["list"] is not None:
        value = tuple(row["list"])
    return WitnessOperation(
        op=row["op"],
        process=row["process"],
        node=row["node"] or "",
        role=RoleCode(row["role"]).name.lower(),
        outcome=outcome.name.lower(),
        step=ReferenceStep(
            f=f,
            inv_ns=row["inv"],
            fin_ns=row["fin"],
            value=value,
            expected=row["expected"],
            found=row["found"],
            refused=refused,
        ),
        term=row["term"],
        index=row["index"],
        bounded=row["bounded"],
        key=row["key"],
    )


def find_witness(
    operations: Sequence[WitnessOperation], finding: Finding, *, whole: bool = True
) -> Witness:
    """Returns the smallest violation found among `operations` of the finding's key; `whole`: they
    are all of them.
    """
    judged = [
        o
        for o in operations
        if o.outcome != "fail"
        and not o.bounded
        and not (o.step.f is Function.READ and o.outcome != "ok")
    ]
    is_list = any(o.step.f is Function.APPEND or isinstance(o.step.value, tuple) for o in judged)
    if not whole:
        judged = _of_known_writes(judged, is_list=is_list)
    fails = lists_fail if is_list else registers_fail
    known: set[int] = set()  # values that the whole history explains
    if finding.kind in _AS_RECORDED or not fails([o.step for o in judged]):
        return Witness(operations=tuple(_around(operations, finding)), proven=False)
    if is_list:
        elements = sorted({o.step.value for o in judged if isinstance(o.step.value, int)})
        kept = minimize(elements, lambda some: fails(_steps(_project(judged, set(some)))))
        judged = _project(judged, set(kept))
    else:
        values = sorted({_element(o.step) for o in judged})
        known = {*values, ABSENT}
        kept = minimize(
            values,
            lambda some: fails(
                _relaxed([o.step for o in judged if _element(o.step) in some], known)
            ),
        )
        judged = [o for o in judged if _element(o.step) in set(kept)]
    small = minimize(
        judged,
        lambda some: fails(_relaxed(_steps(some), known)) and _explained(some, judged),
    )
    steps = _relaxed(_steps(small), known)
    proven = len(steps) <= PROVABLE_OPERATIONS and not is_linearizable(steps)
    return Witness(operations=tuple(sorted(small, key=lambda o: o.step.inv_ns)), proven=proven)


def _of_known_writes(
    operations: Sequence[WitnessOperation], *, is_list: bool
) -> list[WitnessOperation]:
    """Returns the operations without every value whose write is not among them.

    Else a read whose write was left out would show a value that no operation wrote.
    """
    written = {o.step.value for o in operations if _writes(o.step)}
    if is_list:
        return _project(operations, {value for value in written if isinstance(value, int)})
    known = written | {ABSENT, None}
    shown = [o for o in operations if _element(o.step) in known]
    return [
        replace(o, step=replace(o.step, f=Function.WRITE, expected=None))
        if _writes(o.step) and o.step.expected not in known
        else o
        for o in shown
    ]


def _steps(operations: Sequence[WitnessOperation]) -> list[ReferenceStep]:
    return [o.step for o in operations]


def minimize(items: Sequence[_T], fails: Callable[[Sequence[_T]], bool]) -> list[_T]:
    """Returns a subset that fails and of which no single item can be dropped (classic ddmin)."""
    left, pieces = list(items), 2
    while len(left) >= 2:
        size = -(-len(left) // pieces)
        for first in range(0, len(left), size):
            rest = left[:first] + left[first + size :]
            if rest and fails(rest):
                left, pieces = rest, max(2, pieces - 1)
                break
        else:
            if size == 1:
                break
            pieces = min(len(left), 2 * pieces)
    return left


def _explained(some: Sequence[WitnessOperation], whole: Sequence[WitnessOperation]) -> bool:
    """Returns whether no read lost its write: that would be a phantom of our own making."""
    written = {o.step.value for o in whole if _writes(o.step)}
    kept = {o.step.value for o in some if _writes(o.step)}
    for o in some:
        shown = o.step.value if isinstance(o.step.value, tuple) else (_element(o.step),)
        if any(element in written and element not in kept for element in shown):
            return False
    return True


def _writes(step: ReferenceStep) -> bool:
    return step.f is not Function.READ and not step.refused


def _element(step: ReferenceStep) -> int:
    shown = step.found if step.refused else step.value
    return shown if isinstance(shown, int) else ABSENT


def _relaxed(steps: Sequence[ReferenceStep], known: AbstractSet[int]) -> list[ReferenceStep]:
    """Turns a cas whose expected value was `known` and then dropped into a write, which forbids
    less.
    """
    dropped = known - {_element(step) for step in steps} - {ABSENT}
    return [
        replace(step, f=Function.WRITE, expected=None)
        if step.f is Function.CAS and not step.refused and step.expected in dropped
        else step
        for step in steps
    ]


def _project(operations: Sequence[WitnessOperation], elements: set[int]) -> list[WitnessOperation]:
    """Returns the history without every other element."""
    projected = []
    for o in operations:
        value = o.step.value
        if o.step.f is Function.APPEND and value not in elements:
            continue
        if isinstance(value, tuple):
            shown = tuple(element for element in value if element in elements)
            o = replace(o, step=replace(o.step, value=shown or None))
        projected.append(o)
    return projected


def registers_fail(steps: Sequence[ReferenceStep]) -> bool:
    """Runs the zone test over the operations of one register: True if no order exists."""
    clusters: dict[int, list[ReferenceStep]] = {}
    for step in steps:
        clusters.setdefault(_element(step), []).append(step)

    def column(
        of: Callable[[list[ReferenceStep]], int],
    ) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.array([of(group) for group in clusters.values()], dtype=np.int64)

    def writes(group: list[ReferenceStep]) -> list[ReferenceStep]:
        return [step for step in group if _writes(step)]

    codes = violations(
        Clusters(
            key=np.zeros(len(clusters), dtype=np.int64),
            value=np.array(list(clusters), dtype=np.int64),
            first_finish=column(lambda g: min(step.fin_ns for step in g)),
            last_start=column(lambda g: max(step.inv_ns for step in g)),
            write_start=column(lambda g: max((s.inv_ns for s in writes(g)), default=NEVER_NS)),
            first_read_end=column(
                lambda g: min((s.fin_ns for s in g if not _writes(s)), default=NEVER_NS)
            ),
            writes=column(lambda g: len(writes(g))),
            answered=column(lambda g: sum(s.fin_ns != NEVER_NS for s in writes(g))),
            by_cas=np.array(
                [any(s.f is Function.CAS for s in writes(group)) for group in clusters.values()]
            ),
            expected=column(
                lambda g: max(
                    (s.expected for s in writes(g) if s.expected is not None), default=ABSENT
                )
            ),
        )
    )
    return bool(codes.any())


def lists_fail(steps: Sequence[ReferenceStep]) -> bool:
    """Runs the prefix test over the operations of one list: True if no order exists."""
    reads = [(step, step.value or ()) for step in steps if step.f is Function.READ]
    shown = [elements for _, elements in reads if isinstance(elements, tuple)]
    longest = max(shown, key=len, default=())
    if any(elements != longest[: len(elements)] for elements in shown):
        return True
    appended = {step.value for step in steps if step.f is Function.APPEND}
    if len(set(longest)) < len(longest) or not set(longest) <= appended:
        return True
    place = {element: i + 1 for i, element in enumerate(longest)}
    beyond = 2 * len(longest) + 2
    events: list[tuple[int, bool, int]] = []
    for step in steps:
        if step.f is Function.READ:
            rank = 2 * len(step.value if isinstance(step.value, tuple) else ()) + 1
        else:
            rank = 2 * place[step.value] if step.value in place else beyond
        if rank < beyond:
            events.append((step.inv_ns, False, rank))
        if step.fin_ns != NEVER_NS:
            events.append((step.fin_ns, True, rank))
    highest = -1
    for _, finish, rank in sorted(events):
        if finish:
            highest = max(highest, rank)
        elif rank < highest:
            return True
    return False


def _around(operations: Sequence[WitnessOperation], finding: Finding) -> list[WitnessOperation]:
    """Returns the operations that start with the finding, or have its value or place.

    At most six, the nearest in time.
    """

    def named(o: WitnessOperation) -> bool:
        value = o.step.value
        mentions = finding.value is not None and (
            finding.value in (value, o.step.found)
            or (isinstance(value, tuple) and finding.value in value)
        )
        placed = finding.position is not None and (o.term, o.index) == finding.position[1:]
        return mentions or placed or o.step.inv_ns == finding.at_ns

    chosen = [o for o in operations if named(o)]
    chosen.sort(key=lambda o: (abs(o.step.inv_ns - finding.at_ns), o.step.inv_ns))
    return sorted(chosen[:6], key=lambda o: o.step.inv_ns)

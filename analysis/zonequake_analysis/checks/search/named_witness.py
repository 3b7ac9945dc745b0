"""The operations that a finding is about, so that a witness shows what its check says.

A key with one fault often has others, and the smallest set of operations without an order shows any
of them. So the operations that a finding's definition names come first. Delta debugging over the
whole key is left for findings that name none (an order fails, and no more is known).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from zonequake_analysis.checks.search.order_witness import open_at, without_order
from zonequake_analysis.checks.search.reference import is_linearizable
from zonequake_analysis.checks.search.witness import (
    PROVABLE_OPERATIONS,
    Finding,
    Witness,
    WitnessOperation,
    find_witness,
    lists_fail,
    registers_fail,
)
from zonequake_analysis.inputs.shapes import Function

Operations = Sequence[WitnessOperation]

_MOST_TRIED = 100
"""Answers that are tried together with a read, the likeliest first."""

_MOST_VALUES = 5

NO_ORDER = "no-order"
"""The kind of finding at a key whose values repeat."""


def witness_of(
    operations: Operations, finding: Finding, elsewhere: Operations = (), *, whole: bool = True
) -> Witness:
    """Returns the witness of a finding.

    `operations` are those of its key; `elsewhere` those of its partition at the finding's place,
    of any key. `whole`: the key has no others; else they have all that the finding names.
    """
    repeated = finding.kind == NO_ORDER and not whole
    shown = (
        open_at(operations, finding.at_ns) if repeated else named(operations, finding, elsewhere)
    )
    if not shown:
        return find_witness(operations, finding, whole=whole)
    ordered = sorted(shown, key=lambda o: (o.step.inv_ns, o.op))
    if repeated:  # an answer may show what an operation wrote that is left out
        return Witness(operations=tuple(ordered), proven=False)
    return Witness(operations=tuple(ordered), proven=_without_order(ordered))


def named(operations: Operations, finding: Finding, elsewhere: Operations) -> Operations:
    """Returns the operations that the finding's definition names.

    Empty if it names none, or they are not among these.
    """
    find = _BY_KIND.get(finding.kind)
    return [] if find is None else find(operations, finding, elsewhere)


def _session(operations: Operations, finding: Finding, elsewhere: Operations) -> Operations:
    """Returns the earlier answer of the process, and the later one from an earlier place."""
    for later in _at(operations, finding):
        earlier = [
            o
            for o in elsewhere
            if o.process == later.process
            and _stands_at(o, finding)
            and o.step.inv_ns < later.step.inv_ns
        ]
        if earlier:
            return [max(earlier, key=lambda o: o.step.inv_ns), later]
    return []


def _duplicate(operations: Operations, finding: Finding, _: Operations) -> Operations:
    """Returns the list that holds an element twice, and the request that appended it."""
    for read in _at(operations, finding):
        elements = _elements(read)
        twice = next((one for one in elements if elements.count(one) > 1), None)
        if twice is not None:
            return [*_writes_of(operations, twice), _narrowed(read, twice)]
    return []


def _two_places(operations: Operations, finding: Finding, _: Operations) -> Operations:
    """Returns the acknowledgement, and an answer that shows the value at an earlier place."""
    write = _acknowledged(operations, finding)
    if write is None:
        return []
    before = [
        o
        for o in operations
        if o.outcome == "ok"
        and _shows(o, finding.value)
        and _place(o) < _place(write)
        and o.step.inv_ns < write.step.fin_ns
    ]
    same = [o for o in before if o.node == write.node]
    read = min(same or before, key=_place, default=None)
    return [] if read is None else [_narrowed(write, finding.value), _narrowed(read, finding.value)]


def _diverged(operations: Operations, finding: Finding, _: Operations) -> Operations:
    """Returns the acknowledgement, the answer that lacks it, and another member's that shows it."""
    write = _acknowledged(operations, finding)
    if write is None:
        return []
    lacking = [o for o in _at(operations, finding) if _reads(o) and not _shows(o, finding.value)]
    for read in lacking:
        others = [
            o
            for o in operations
            if o.outcome == "ok"
            and o.node != read.node
            and _shows(o, finding.value)
            and (_place(o) >= _place(read) or o.step.inv_ns > read.step.fin_ns)
        ]
        if others:
            first = min(others, key=lambda o: (_place(o), o.step.inv_ns))
            return [_narrowed(o, finding.value) for o in (write, read, first)]
        if write.node != read.node and _place(write) == _place(read):
            return [_narrowed(o, finding.value) for o in (write, read)]
    return [] if lacking else _two_places(operations, finding, ())


def _one_entry(_: Operations, finding: Finding, elsewhere: Operations) -> Operations:
    """Returns the writes that claim one place, of any key."""
    found = {o.op: o for o in elsewhere if _stands_at(o, finding) and not _reads(o)}
    return list(found.values()) if len(found) > 1 else []


def _refusal(operations: Operations, finding: Finding, _: Operations) -> Operations:
    """Returns the cas that was refused, and the write of what it found and expected."""
    for cas in _at(operations, finding):
        if cas.step.refused:
            return [*_writes_of(operations, cas.step.found), cas]
    return []


def _missed(operations: Operations, finding: Finding, _: Operations) -> Operations:
    """Returns the read that misses something, with as few other operations as have no order with
    it.

    One operation that had finished before, and the writes of what both show, are enough if the
    finding can be shown without the store's places.
    """
    writes: dict[object, list[WitnessOperation]] = {}
    for o in operations:
        if o.outcome != "fail" and not _reads(o):
            writes.setdefault(o.step.value, []).append(o)
    for read in _at(operations, finding):
        if not _reads(read):
            continue
        for known in _known_before(operations, read, finding)[:_MOST_TRIED]:
            for value in [one for one in _values(known) if one not in _values(read)][:_MOST_VALUES]:
                group = _together(writes, value, known, read)
                if _without_order(group):
                    return group
    return []


def _known_before(
    operations: Operations, read: WitnessOperation, finding: Finding
) -> list[WitnessOperation]:
    """Returns answers before a read began: those that the finding names, then writes, the newest
    first.
    """

    def rank(o: WitnessOperation) -> tuple[bool, bool, int]:
        is_named = finding.value in _values(o) or _stands_at(o, finding)
        return not is_named, _reads(o), -o.step.fin_ns

    answered = (o for o in operations if o.outcome == "ok" and not o.bounded)
    return sorted((o for o in answered if o.step.fin_ns < read.step.inv_ns), key=rank)


def _together(
    writes: Mapping[object, Operations],
    value: int,
    known: WitnessOperation,
    read: WitnessOperation,
) -> Operations:
    """Returns the two answers with the writes of `value` and of what the read shows instead."""
    listed = isinstance(known.step.value, tuple) or known.step.f is Function.APPEND
    instead = () if listed else _values(read)
    wrote = [o for one in (value, *instead) for o in writes.get(one, ())]
    group = {o.op: o for o in (*wrote, known, read)}
    return [_narrowed(o, value) if listed else _alone(o) for o in group.values()]


def _alone(o: WitnessOperation) -> WitnessOperation:
    """Returns the operation, a cas as a write: what it expected is not shown, and a write forbids
    less.
    """
    if o.step.f is not Function.CAS or o.step.refused:
        return o
    return replace(o, step=replace(o.step, f=Function.WRITE, expected=None))


def _searched(operations: Operations, _: Finding, __: Operations) -> Operations:
    """Returns operations that have no order, of a key whose values repeat."""
    return without_order(operations)


_BY_KIND: dict[str, Callable[[Operations, Finding, Operations], Operations]] = {
    "session": _session,
    "duplicate": _duplicate,
    "applied-twice": _two_places,
    "two-places": _two_places,
    "diverged": _diverged,
    "entry-twice": _one_entry,
    "wrong-refusal": _refusal,
    "lost": _missed,
    "stale": _missed,
    "flicker": _missed,
    NO_ORDER: _searched,
}


def _at(operations: Operations, finding: Finding) -> list[WitnessOperation]:
    return [o for o in operations if o.step.inv_ns == finding.at_ns and o.outcome == "ok"]


def _place(o: WitnessOperation) -> tuple[int, int]:
    return (o.term or 0, o.index or 0)


def _stands_at(o: WitnessOperation, finding: Finding) -> bool:
    return finding.position is not None and (o.term, o.index) == finding.position[1:]


def _reads(o: WitnessOperation) -> bool:
    return o.step.f is Function.READ or o.step.refused


def _elements(o: WitnessOperation) -> tuple[int, ...]:
    return o.step.value if isinstance(o.step.value, tuple) else ()


def _values(o: WitnessOperation) -> tuple[int, ...]:
    """Returns what an operation wrote or shows."""
    shown = o.step.found if o.step.refused else o.step.value
    return shown if isinstance(shown, tuple) else () if shown is None else (shown,)


def _shows(o: WitnessOperation, value: int | None) -> bool:
    return value is not None and value in _values(o) and _reads(o)


def _writes_of(operations: Operations, value: int | None) -> list[WitnessOperation]:
    """Returns the attempts to write a value, without those that certainly took no effect."""
    return [
        o
        for o in operations
        if value is not None and o.outcome != "fail" and not _reads(o) and o.step.value == value
    ]


def _acknowledged(operations: Operations, finding: Finding) -> WitnessOperation | None:
    """Returns the answered write of the finding's value, at the finding's place."""
    answered = [o for o in _writes_of(operations, finding.value) if o.outcome == "ok"]
    return next((o for o in answered if _stands_at(o, finding)), None)


def _narrowed(o: WitnessOperation, value: int | None) -> WitnessOperation:
    """Returns an operation on a list without every other element; one on a register unchanged."""
    if not isinstance(o.step.value, tuple):
        return o
    kept = tuple(one for one in o.step.value if one == value)
    return replace(o, step=replace(o.step, value=kept or None))


def _without_order(operations: Operations) -> bool:
    """Returns whether these operations of one key alone have no order.

    Both the rules of the black box and the search must say so, and the write of each value shown
    must be among them.
    """
    steps = [o.step for o in operations]
    written = {o.step.value for o in operations if not _reads(o)}
    shown = {value for o in operations for value in _values(o)}
    shown |= {o.step.expected for o in operations if o.step.expected is not None}
    if (
        len({o.key for o in operations}) > 1
        or not shown <= written
        or any(o.bounded for o in operations)
    ):
        return False
    is_list = any(s.f is Function.APPEND or isinstance(s.value, tuple) for s in steps)
    fails = lists_fail if is_list else registers_fail
    return len(steps) <= PROVABLE_OPERATIONS and fails(steps) and not is_linearizable(steps)

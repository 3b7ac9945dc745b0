"""Judges a client by what its operations came to: outcomes beside what was found afterwards. Pure.

Each write and cas has a key of its own, and each value is unique, so that what is found says which
operations had an effect.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from zonequake_load.operation import Function, Operation, Outcome, Type
from zonequake_protocol.admin import DumpEntry
from zonequake_protocol.client import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedOperation:
    """An operation that was asked for, and its outcome; `transaction`: the number of the one that
    it is a step of.
    """

    operation: Operation
    outcome: Outcome
    transaction: int | None = None


@dataclass(slots=True, kw_only=True)
class StepResult:
    """`problems`: what the target does not keep; `unknown`: what could not be decided; `note`: what
    was seen.
    """

    problems: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    note: str = ""


def contradictions(asked: Iterable[AskedOperation], found: Mapping[str, Value]) -> list[str]:
    """Returns each outcome that what was `found` by key contradicts, as a sentence."""
    all_asked = list(asked)
    return [
        *(problem for one in all_asked for problem in _contradicted(one, _times(one, found))),
        *_done_in_part(all_asked, found),
    ]


def _done_in_part(asked: Iterable[AskedOperation], found: Mapping[str, Value]) -> Iterator[str]:
    """Yields the transactions of which some steps are there and others aren't, whatever their
    outcome.
    """
    steps = defaultdict[int, list[AskedOperation]](list)
    for one in asked:
        if one.transaction is not None and one.operation.f is not Function.READ:
            steps[one.transaction].append(one)
    for together in steps.values():
        there = [_named(one.operation) for one in together if _times(one, found)]
        missing = [_named(one.operation) for one in together if not _times(one, found)]
        if there and missing:
            yield (
                f"a transaction was done in part: {', '.join(there)} is there, and "
                f"{', '.join(missing)} isn't"
            )


def effects_of_lost(asked: Iterable[AskedOperation], found: Mapping[str, Value]) -> int:
    """Returns the number of operations without an answer that had an effect, whatever the client
    says of them.
    """
    return sum(one.outcome.type is not Type.OK and _times(one, found) > 0 for one in asked)


def without_place(asked: Iterable[AskedOperation]) -> list[str]:
    """Returns the answers that claim no place in the order, as sentences."""
    return [
        f"{_named(one.operation)} was answered without a place in the claimed order"
        for one in asked
        if one.outcome.type is Type.OK and one.outcome.index is None
    ]


def out_of_order(asked: Iterable[AskedOperation]) -> list[str]:
    """Returns the answers, each asked for after the one before had come, whose place is not behind
    it, as sentences. One that changed nothing may have the place of the last that did.
    """
    problems, last, before = [], None, ""
    for one in asked:
        outcome = one.outcome
        if outcome.type is not Type.OK or outcome.index is None:
            continue
        place = (outcome.lineage or 0, outcome.term or 0, outcome.index)
        changed = one.operation.f is not Function.READ and outcome.applied is not False
        if last is not None and (place < last or (changed and place == last)):
            problems.append(
                f"{_named(one.operation)} has the place {place} in the claimed order, and "
                f"{before}, answered before it was asked for, {last}"
            )
        last, before = place, _named(one.operation)
    return problems


def without_member(asked: Iterable[AskedOperation], members: Collection[str]) -> list[str]:
    """Returns the answers that name none of the `members`, as sentences: checks that compare what
    members showed would see one of that name, or none.
    """
    return [
        f"{_named(one.operation)} was answered by {one.outcome.node!r}, expected the name of a "
        f"member: {', '.join(sorted(members))}"
        for one in asked
        if one.outcome.type is Type.OK and one.outcome.node not in members
    ]


def counted(asked: Iterable[AskedOperation]) -> str:
    """Returns how many operations came to what, as text."""
    types = [one.outcome.type for one in asked]
    return ", ".join(
        f"{types.count(each)} {word}"
        for each, word in ((Type.OK, "done"), (Type.FAIL, "failed"), (Type.INFO, "unknown"))
        if each in types
    )


class DumpedState(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a dump's header that says which state it is, and where."""

    node: str
    applied: int
    digest: str


def unheld(operation: Operation, node: str, keys: Iterable[DumpEntry]) -> list[str]:
    """Returns that a member's dump lacks an acknowledged write, as a sentence."""
    held = {one.key: one.value for one in keys}
    if held.get(operation.key) == operation.value:
        return []
    return [f"the dump of {node} has {held.get(operation.key)!r} where {_named(operation)} is"]


def differing(dumped: Mapping[str, DumpedState]) -> list[str]:
    """Returns the members whose states differ at one place, as sentences."""
    problems = []
    for applied in sorted({one.applied for one in dumped.values()}):
        digests = {name: one.digest for name, one in dumped.items() if one.applied == applied}
        if len(set(digests.values())) > 1:
            problems.append(f"members that applied {applied} have digests {digests}")
    return problems


def unaltered(before: DumpedState, after: DumpedState | None) -> list[str]:
    """Returns that an altered member dumps as before it was altered, as a sentence."""
    same = after == before
    return [f"{before.node} was altered, and dumps as before: {before.digest}"] if same else []


def undecided(before: DumpedState, dumped: Mapping[str, DumpedState]) -> list[str]:
    """Returns, as a sentence, that it isn't known what an altered member would dump if it weren't
    altered. After the entry that an election adds, the other members' dumps show it.
    """
    after = dumped.get(before.node)
    if after is None or after.applied == before.applied:
        return []
    digests = {one.digest for one in dumped.values() if one.applied == after.applied}
    if len(digests) > 1:
        return []
    return [
        f"{before.node} was altered at {before.applied}, and dumps at {after.applied}, where no "
        "other member dumps another state"
    ]


def _times(one: AskedOperation, found: Mapping[str, Value]) -> int:
    """Returns how often the operation's value is there."""
    held, value = found.get(one.operation.key), one.operation.value
    if isinstance(held, list):
        return sum(each == value for each in held)
    return int(held == value is not None)


def _contradicted(one: AskedOperation, times: int) -> Iterator[str]:
    operation, outcome = one.operation, one.outcome
    if operation.f is Function.READ:
        return
    what = _named(operation)
    if times > 1:
        yield f"{what} was carried out {times} times"
    match outcome.type:
        case Type.OK if outcome.applied is not False and times == 0:
            yield f"{what} was acknowledged, and nothing of it is there"
        case Type.OK if outcome.applied is False and times:
            yield f"{what} was refused, and its value is there"
        case Type.FAIL if times:
            why = outcome.error or "no reason given"
            yield f"{what} certainly failed, as the client says ({why}), and its value is there"


def _named(operation: Operation) -> str:
    return f"{operation.f.value} of {operation.value} to {operation.key}"

"""Rows of `tables/ops` → transactions, and the findings of each partition and lineage. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from zonequake_analysis.checks.transactions.cycles import Cycle, CycleKind, cycles
from zonequake_analysis.checks.transactions.halves import HalfSeen, half_seen
from zonequake_analysis.checks.transactions.recorded import ListTransaction
from zonequake_analysis.inputs.ids import name_ids
from zonequake_analysis.inputs.shapes import Function, OutcomeCode

HALF = "half"
"""The kind of a transaction of which reads show a half."""

HALF_BY_TIMES = "half by times"
"""The same, where only times say which read came first: several clocks show none."""

ALLOWED = "G2 without places"
"""The kind of a G2 that contradicts no claim: an answer without a place may be of a snapshot."""

VIOLATIONS = (HALF, HALF_BY_TIMES, *(kind.value for kind in CycleKind))
"""The kinds that no target which claims transactions may show."""

NEEDED = (
    *("partition_id", "key_id", "zone", "partition", "key", "op", "f", "outcome", "value"),
    *("list", "inv", "fin", "position", "bounded", "step", "copy"),
)
"""The columns of operations that it needs."""

MOST_EXAMPLES = 20
"""Most findings of a kind that are told by themselves, in a partition and in a whole history."""

_SHOWN = 8
"""Most transactions of a cycle that a sentence has."""


class TransactionFinding(msgspec.Struct, frozen=True, kw_only=True):
    """A finding: `at_ns` is the invoke of its first transaction."""

    kind: str
    zone: str
    partition: int
    at_ns: int
    text: str


class TransactionFindings(msgspec.Struct, frozen=True, kw_only=True):
    """The findings among some transactions, all counted by kind, with the first of each kind.

    `judged`: recorded transactions, each once; `excluded`: those that lack a refused step.
    """

    judged: int = 0
    excluded: int = 0
    counts: dict[str, int] = {}
    examples: list[TransactionFinding] = []

    @property
    def violations(self) -> int:
        """The number of findings that no target may show."""
        return sum(self.counts.get(kind, 0) for kind in VIOLATIONS)


def all_findings(parts: Iterable[TransactionFindings]) -> TransactionFindings:
    """Merges the findings of several partitions."""
    judged = excluded = 0
    counts = Counter[str]()
    examples = defaultdict[str, list[TransactionFinding]](list)
    for part in parts:
        judged, excluded = judged + part.judged, excluded + part.excluded
        counts.update(part.counts)
        for one in part.examples:
            examples[one.kind].append(one)
    return TransactionFindings(
        judged=judged,
        excluded=excluded,
        counts=dict(counts),
        examples=[one for kind in examples.values() for one in kind[:MOST_EXAMPLES]],
    )


def keys_of_transactions(ops: pa.Table) -> pa.Array:
    """Returns the ids of all keys that a step of a transaction is on; needs `key_id`, `step`."""
    return ops.filter(ops.column("step").is_valid()).column("key_id").unique()


def findings_of(ops: pa.Table) -> TransactionFindings:
    """Judges operations (columns `NEEDED`): all of every key that a transaction is on."""
    by_partition = groupby(_views(ops), key=lambda one: one.column("partition_id")[0].as_py())
    return all_findings(_judged(list(views)) for _, views in by_partition)


def _views(ops: pa.Table) -> Iterator[pa.Table]:
    """Yields the operations of each partition, of one that was reset those of each lineage."""
    if not ops.num_rows:
        return
    plain = name_ids(ops.column("zone").combine_chunks(), ops.column("key").combine_chunks())
    # The ids of a lineage's keys differ from the plain ones in the same bits (`ids.siblings`).
    low = np.int64(0xFFFFFFFF)
    view = (ops.column("key_id").to_numpy() ^ plain) & low
    partition = ops.column("partition_id").to_numpy()
    order = np.lexsort((view, partition))
    new = np.ones(len(order), bool)
    new[1:] = (np.diff(partition[order]) != 0) | (np.diff(view[order]) != 0)
    ends = [*np.flatnonzero(new).tolist(), len(order)]
    for begin, end in pairwise(ends):
        yield ops.take(pa.array(order[begin:end]))


def _judged(views: Sequence[pa.Table]) -> TransactionFindings:
    """Judges a partition; what several of its lineages show is one finding."""
    recorded = [recorded_in(own) for own in views]
    at: dict[tuple[str, str], int] = {}
    for one in recorded:
        for half in half_seen(one.transactions):
            kind = HALF_BY_TIMES if half.by_times else HALF
            at.setdefault((kind, half_in_words(half)), half.transaction.inv_ns)
        for cycle in cycles(one.transactions):
            first = min(each.inv_ns for each in cycle.transactions)
            is_allowed = cycle.kind is CycleKind.G2 and not cycle.claims_an_order
            kind = ALLOWED if is_allowed else cycle.kind.value
            at.setdefault((kind, cycle_in_words(cycle)), first)
    zone = views[0].column("zone")[0].as_py() or ""
    partition = views[0].column("partition")[0].as_py()
    taken = Counter[str]()
    examples = []
    for (kind, text), at_ns in sorted(at.items(), key=lambda one: one[1]):
        taken[kind] += 1
        if taken[kind] <= MOST_EXAMPLES:
            examples.append(
                TransactionFinding(
                    kind=kind, zone=zone, partition=partition, at_ns=at_ns, text=text
                )
            )
    return TransactionFindings(
        judged=sum(one.judged for one in recorded),
        excluded=sum(one.excluded for one in recorded),
        counts=dict(taken),
        examples=examples,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The transactions of a view of a partition, single operations among them, by their invokes.

    `judged` and `excluded` count those with steps, in their own lineage.
    """

    transactions: list[ListTransaction]
    judged: int
    excluded: int


def recorded_in(ops: pa.Table) -> Recorded:
    """Returns the transactions of one view of one partition (columns `NEEDED`)."""
    columns = {name: ops.column(name).to_pylist() for name in NEEDED}
    named = defaultdict[tuple[str, int], list[int]](list)
    for row, (op, step) in enumerate(zip(columns["op"], columns["step"], strict=True)):
        named[(op, 0) if step is None else _name_and_size(op)].append(row)
    made = []
    judged = excluded = 0
    for (op, size), rows in named.items():
        copy = columns["copy"][rows[0]]
        # What a reset took back is open for the other lineages, and has no reads there (`views`).
        taken_back = copy and columns["outcome"][rows[0]] == OutcomeCode.INFO
        if size and len(rows) != size and not taken_back:
            excluded += not copy
            continue
        judged += bool(size) and not copy
        made.append(_transaction(op, rows, columns))
    made.sort(key=lambda one: (one.inv_ns, one.op))
    return Recorded(transactions=made, judged=judged, excluded=excluded)


def _name_and_size(op: str) -> tuple[str, int]:
    """Returns a transaction's name and how many steps it has, by the name of a step
    (`inputs.transactions.steps`).
    """
    name, _, step = op.rpartition("/")
    return name, int(step.rpartition("of")[2])


def _transaction(op: str, rows: Sequence[int], columns: dict[str, list[Any]]) -> ListTransaction:
    first = rows[0]
    outcome = OutcomeCode(columns["outcome"][first])
    appends: dict[str, int] = {}
    reads: dict[str, Sequence[int]] = {}
    for row in rows:
        key = columns["key"][row]
        if columns["f"][row] == Function.APPEND:
            appends[key] = columns["value"][row]
        elif _shows_a_list(row, columns):
            reads[key] = columns["list"][row] or ()
    return ListTransaction(
        op=op,
        inv_ns=columns["inv"][first],
        fin_ns=columns["fin"][first],
        outcome=outcome,
        position=columns["position"][first],
        appends=appends,
        reads=reads,
    )


def _shows_a_list(row: int, columns: dict[str, list[Any]]) -> bool:
    return (
        columns["f"][row] == Function.READ
        and columns["outcome"][row] == OutcomeCode.OK
        and not columns["bounded"][row]
        and columns["value"][row] is None
    )


def half_in_words(half: HalfSeen) -> str:
    """Returns the finding as a sentence."""
    one, shows, misses = half.transaction, half.shows, half.misses
    appended = f"{one.op} appended {one.appends[half.shown]} to {half.shown} and "
    appended += f"{one.appends[half.missed]} to {half.missed}"
    if shows is misses:
        return f"{appended}: {shows.op} read the first and not the second"
    return (
        f"{appended}: {shows.op} read the first, and {misses.op}, which came later, did not read "
        "the second"
    )


def cycle_in_words(cycle: Cycle) -> str:
    """Returns each transaction, and what leads to the next one."""
    told = [
        f"{one.op} –{kind.value} {key}→"
        for one, (kind, key) in zip(cycle.transactions, cycle.edges, strict=True)
    ]
    if len(told) > _SHOWN:
        told = [*told[:_SHOWN], f"{len(told) - _SHOWN} more →"]
    return " ".join([*told, cycle.transactions[0].op])

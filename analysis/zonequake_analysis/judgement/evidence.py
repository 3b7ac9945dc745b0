"""Everything that a verdict rests on, in one value, so that judging it is pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from zonequake_analysis.checks.repeated_values import BySearch
from zonequake_analysis.checks.transactions.of_operations import TransactionFindings
from zonequake_analysis.inputs.run_folder import RunDescription
from zonequake_analysis.judgement.latency import P99s
from zonequake_analysis.measures.answered_writes import HistoryWrites
from zonequake_analysis.measures.availability.windows import Availability
from zonequake_analysis.measures.load_rate import LoadRate
from zonequake_analysis.measures.lost_groups import LostGroup
from zonequake_analysis.measures.majorities import Unfounded
from zonequake_analysis.measures.rebalances import EarlyJoint, FaultLanding, Rebalance
from zonequake_analysis.measures.replica_audit import Audit
from zonequake_analysis.measures.resets import Reset
from zonequake_analysis.measures.sacrificed import Cut
from zonequake_analysis.measures.tally import TRANSACTION
from zonequake_analysis.measures.timeline import OperationCounts
from zonequake_analysis.metrics.metric_facts import MetricFacts
from zonequake_analysis.spark_pass.ingest import Quality

_METRICS = "metrics/"


@dataclass(frozen=True, slots=True, kw_only=True)
class WithoutOrder:
    """The number of keys that no order explains, by the check that found them, without keys whose
    assumptions failed.
    """

    by_both: int
    by_claim_only: int
    by_black_box_only: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationFindings:
    """The findings of the checks over operations: rows per (check, kind), and keys.

    `lost_on_replica`: the number of lost writes that a replica dump still holds. `by_search`: keys
    whose values repeat, which are in none of the other numbers of keys.
    """

    counts: Counter[tuple[str, str]]
    without_order: WithoutOrder
    lost_on_replica: int
    by_search: BySearch = field(default_factory=BySearch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything that a verdict rests on.

    `journalled`: the partitions that data nodes' own journals cover; they would record a reset.
    `known_groups`: those whose members the events name.
    `counts` has a transaction as one operation.
    `leaderless`: how many had no leader after the quiet time.
    `one_clock`: events and operations are of one. `compared_writes` and `compared_reads`: how many
    the checks of loss can judge; `placed`: how many answers have a place in the store's order.
    """

    description: RunDescription
    quality: Quality
    bad_events: Sequence[str]
    found: OperationFindings
    counts: OperationCounts
    acknowledged: int
    uncovered: int
    compared_writes: int
    compared_reads: int
    placed: int
    availability: Availability
    rebalances: Sequence[Rebalance]
    early_joints: Sequence[EarlyJoint]
    faults: Sequence[FaultLanding]
    audit: Audit
    journalled: int
    resets: Sequence[Reset]
    cuts: Sequence[Cut]
    unfounded: Sequence[Unfounded]
    one_clock: bool
    p99: P99s
    load: LoadRate | None = None
    writes: HistoryWrites | None = None
    metrics: MetricFacts | None = None
    lost_groups: Sequence[LostGroup] = ()
    leaderless: int = 0
    known_groups: int = 0
    incomplete: Sequence[str] = ()  # files that are missing or shorter than at the run's end
    unread_histories: Sequence[str] = ()  # files in `history` that aren't read
    transactions: TransactionFindings | None = None  # of a history that has any
    steps: OperationCounts = field(default_factory=dict)  # of transactions

    @property
    def on_keys(self) -> OperationCounts:
        """The operations on single keys: steps in place of their transactions."""
        single = {of: number for of, number in self.counts.items() if of[1] != TRANSACTION}
        return Counter(single) + Counter(self.steps)

    @property
    def answered_reads(self) -> int:
        """The number of reads of a key that were answered, also in transactions."""
        return sum(n for (_, f, o), n in self.on_keys.items() if f == "read" and o == "ok")

    @property
    def incomparable(self) -> bool:
        """Whether the history's times are of several clocks, without a bound between these."""
        return len(self.quality.clocks) > 1 and not self.description.clock_offset_ns

    @property
    def unread(self) -> str:
        """Returns what of the history wasn't read and may hold an operation of any key, in words;
        empty if there is nothing."""
        lines, files = self.quality.keyless_lines, len(missing_histories(self.incomplete))
        said = []
        if lines:
            said.append(
                f"{lines} lines of the history can't be read, or don't say of which key they are"
            )
        if files:
            said.append(f"{files} files of the history are missing or cut")
        if self.unread_histories:
            said.append(f"{len(self.unread_histories)} files in `history` are of other names")
        return ", and ".join(said)


def missing_histories(incomplete: Sequence[str]) -> list[str]:
    """Returns those of the incomplete files that hold operations."""
    return [name for name in incomplete if name.startswith("history/")]


def missing_records(incomplete: Sequence[str]) -> list[str]:
    """Returns those of the incomplete files that the check `history` names: all but metrics."""
    return [name for name in incomplete if not name.startswith(_METRICS)]


def missing_metrics(incomplete: Sequence[str]) -> list[str]:
    """Returns those of the incomplete files that hold metrics, which have a check of their own."""
    return [name for name in incomplete if name.startswith(_METRICS)]

"""The load's control interface: the plan a load pod is started with and what it says of itself.

Pure message types (docs/interfaces.md, "Load control"); this module imports none of the load's
machinery, so that the chaos runner can write plans without it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from zonequake_load.operation import OnceId, Operation, TransactionOperation

Positive = Annotated[float, Meta(gt=0)]
Fraction = Annotated[float, Meta(ge=0, le=1)]
Skew = Annotated[float, Meta(ge=0, le=5)]
Hot = Annotated[float, Meta(ge=0, lt=1)]
Count = Annotated[int, Meta(ge=0)]
Some = Annotated[int, Meta(ge=1)]
FUNCTION_NAME = r"^[\w.]+:\w+$"
"""Pattern of MODULE:FUNCTION."""

CLIENT_FOLDER = "/target-secret"
"""The folder of the load pods that has the files of `LoadPlan.secret`, for the client."""


class Phase(StrEnum):
    """The present phase of a load pod. It starts in `quiet`."""

    PRELOAD = "preload"
    LOAD = "load"
    QUIET = "quiet"
    FINAL = "final"
    DONE = "done"


class Arrivals(StrEnum):
    """The spacing of an open loop's operations: even, or memoryless with the same mean."""

    UNIFORM = "uniform"
    POISSON = "poisson"


class Loop(StrEnum):
    """The time at which operations begin.

    `open`: on schedule, whatever the store does; latency counts from the scheduled time, and what
    finds all processes busy for too long is dropped. `closed`: when a process is free, never faster
    than the schedule; what is late moves the rest of the schedule, and latency counts from the
    beginning.
    """

    OPEN = "open"
    CLOSED = "closed"


class ReadsAt(StrEnum):
    """The replica that linearizable reads are sent to first: the leader, or any replica in turn.

    A correct store's follower refuses and names the leader, so `any` costs one more trip; a store
    whose followers answer by themselves shows it. A target whose members all take linearizable
    reads asks each in turn always.

    `local` asks any replica for its own state, however old, and still claims in the history that
    the read was linearizable: what the checks must find stale on a sound store. Final reads are
    linearizable always.
    """

    LEADER = "leader"
    ANY = "any"
    LOCAL = "local"


class RegisterWorkload(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag="register",
    tag_field="kind",
    forbid_unknown_fields=True,
):
    """Reads, writes and compare-and-swaps of registers; what is neither read nor cas is a write.

    `operations_per_second` is that of all pods together, over all partitions.
    `hot` is the share of a partition's operations that its first key gets (0: none is favoured),
    `skew` the exponent of a Zipf distribution over the others, or over all (0: all alike).
    """

    operations_per_second: Positive = 50.0
    keys_per_partition: Some = 4
    reads: Fraction = 0.4
    cas: Fraction = 0.2
    skew: Skew = 0.0
    hot: Hot = 0.0
    filler_bytes: Annotated[int, Meta(ge=0, le=1024 * 1024)] = 0
    arrivals: Arrivals = Arrivals.POISSON


class AppendListWorkload(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag="append-list",
    tag_field="kind",
    forbid_unknown_fields=True,
):
    """Appends to lists and reads of whole lists.

    A reply carries the whole list, so a list is left for a new key before it holds `longest`
    elements.
    """

    operations_per_second: Positive = 25.0
    keys_per_partition: Some = 2
    reads: Fraction = 0.5
    skew: Skew = 0.0
    hot: Hot = 0.0
    longest: Annotated[int, Meta(ge=2, le=10_000)] = 200
    arrivals: Arrivals = Arrivals.POISSON


class TransactionWorkload(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag="transactions",
    tag_field="kind",
    forbid_unknown_fields=True,
):
    """Transactions over lists of one partition: each appends to some and reads others.

    `operations_per_second` counts transactions, `reads` is a share of their steps. Each of the
    `steps` is on a key of its own, so a partition needs as many keys.
    """

    operations_per_second: Positive = 10.0
    keys_per_partition: Some = 4
    steps: Annotated[int, Meta(ge=2, le=16)] = 3
    reads: Fraction = 0.5
    longest: Annotated[int, Meta(ge=2, le=10_000)] = 200
    arrivals: Arrivals = Arrivals.POISSON

    def __post_init__(self) -> None:
        if self.steps > self.keys_per_partition:
            raise ValueError(
                f"found {self.steps} steps and {self.keys_per_partition} keys_per_partition, "
                "expected a key for each step: raise keys_per_partition"
            )


class Probes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Availability probes: a read and a write for each partition and pod (design §5).

    The interval is `interval_ms`, or longer where all pods together would pass
    `budget_per_second`.
    """

    interval_ms: Some = 100
    budget_per_second: Some = 500
    deadline_ms: Some = 500


class Preload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys that `preload` writes beside each register key: keys with filler, to give partitions
    a size.

    `concurrency` is the number of operations outstanding at once in one pod.
    """

    bulk_keys_per_partition: Count = 0
    filler_bytes: Annotated[int, Meta(ge=0, le=1024 * 1024)] = 0
    concurrency: Annotated[int, Meta(ge=1, le=1024)] = 16


class Pressure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Writes beside the workloads that are in no history and are judged by no check.

    `processes` of each pod write one after another, each as soon as the last has ended, to `keys`
    keys that nothing else touches, with `filler_bytes` beside the value.
    """

    processes: Annotated[int, Meta(ge=1, le=4096)]
    keys: Annotated[int, Meta(ge=1, le=1_000_000)] = 1_000
    filler_bytes: Annotated[int, Meta(ge=0, le=1024 * 1024)] = 0


class LoadPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The plan of all load pods of a run; each takes its share by its ordinal.

    `seeds`: `host:port` of client ports; a host may have many addresses (a headless service).
    `partitions`: those that get load and probes, None for all of the zone.
    `processes`: operations of the workloads outstanding at once in one pod.
    `deadline_ms` bounds an operation with all its attempts, `attempt_ms` each attempt.
    `final_timeout_s` bounds the final reads, `operations_per_key` the history of one key.
    `client`: the function that builds the target's client, as MODULE:FUNCTION
    (`zonequake_load.targets.context`). `secret`: the Secret whose files it gets; empty: none.
    """

    client: Annotated[str, Meta(pattern=FUNCTION_NAME)]
    zone: str
    seeds: Annotated[list[str], Meta(min_length=1)]
    pods: Annotated[int, Meta(ge=1, le=64)] = 1
    partitions: list[Count] | None = None
    workloads: list[RegisterWorkload | AppendListWorkload | TransactionWorkload] = []
    probes: Probes | None = msgspec.field(default_factory=Probes)
    preload: Preload = msgspec.field(default_factory=Preload)
    processes: Annotated[int, Meta(ge=1, le=4096)] = 64
    deadline_ms: Some = 5_000
    attempt_ms: Some = 1_000
    final_timeout_s: Positive = 120.0
    operations_per_key: Annotated[int, Meta(ge=100)] = 100_000
    reads_at: ReadsAt = ReadsAt.LEADER
    loop: Loop = Loop.OPEN
    pressure: Pressure | None = None
    seed: int = 0
    secret: str = ""


class PhaseRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of POST /phase."""

    phase: Phase


class OperationRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of POST /operation: one operation, carried out beside the phases and in no history.

    Several `steps` are a transaction, which needs `once`. `deadline_ms` bounds it with all its
    attempts, `attempt_ms` each attempt. `planted_lie`: the client tells as certainly failed what it
    does not know (`zonequake_load.targets.planted_lie`).
    """

    steps: Annotated[tuple[Operation, ...], Meta(min_length=1, max_length=16)]
    once: OnceId | None = None
    deadline_ms: Some = 5_000
    attempt_ms: Some = 1_000
    retry: bool = True
    planted_lie: bool = False

    @property
    def operation(self) -> Operation | TransactionOperation:
        return self.steps[0] if len(self.steps) == 1 else TransactionOperation(steps=self.steps)


class OutcomeCounts(msgspec.Struct, kw_only=True):
    """Operations by outcome. `late`: begun more than 10 ms after their scheduled time.

    `dropped`: scheduled and never begun, because all processes were busy for too long.
    """

    ok: int = 0
    fail: int = 0
    info: int = 0
    late: int = 0
    dropped: int = 0


class PhaseCounts(msgspec.Struct, kw_only=True):
    """Operations of one phase: of workloads (and preload, final reads), of probes, and of the
    pressure, which no history has.
    """

    operations: OutcomeCounts = msgspec.field(default_factory=OutcomeCounts)
    probes: OutcomeCounts = msgspec.field(default_factory=OutcomeCounts)
    pressure: OutcomeCounts = msgspec.field(default_factory=OutcomeCounts)


class LoadStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to GET /status. Counts are those since this process started.

    `complete`: preload and final have done all of their work, quiet has nothing outstanding, done
    has closed its files; load is never complete. `problem` says what a phase could not do (for
    instance keys that could not be read by the end of the final reads).
    `rate`: completions per second over the last five seconds, with probes, without the pressure.
    `probe_interval_ms`: the interval in force, 0 without probes.
    """

    pod: str
    ordinal: int
    incarnation: int
    phase: Phase
    complete: bool
    problem: str | None
    counts: dict[Phase, PhaseCounts]
    rate: float
    outstanding: int
    done_keys: int
    planned_keys: int
    probe_interval_ms: float


class HistoryFile(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of GET /files. `open`: still written by this process."""

    name: str
    size_bytes: int
    open: bool


class HistoryFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to GET /files."""

    files: list[HistoryFile]

"""A scenario: the manifest `kind: ChaosRun`, as types.

Zones, node pools, load, faults with their triggers and targets, and expectations. Pure:
`zonequake_chaos.scenario.manifest` reads and checks a file, `zonequake_chaos.runner.runner` runs
it. One file serves the command and pytest (design §6, Scenario). The faults are in
`zonequake_chaos.scenario.faults`.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from zonequake_chaos.scenario.faults import AnyFault
from zonequake_chaos.scenario.fields import (
    FilePath,
    FolderPath,
    ManifestPart,
    Name,
    PositiveCount,
    Seconds,
    SecretName,
    VariableName,
    file_name,
)
from zonequake_load.pod.control import Fraction, Hot, Loop, ReadsAt, Skew

TimerSetting = Annotated[int, Meta(ge=0)] | Literal["Infinite"]


class Pool(ManifestPart, frozen=True, kw_only=True):
    """A node pool, and its number of data nodes when the run begins."""

    name: Name
    replicas: Annotated[int, Meta(ge=0, le=1000)]


class RunZone(ManifestPart, frozen=True, kw_only=True):
    """A DistributionZone that the run creates and deletes; the fields are the resource's own."""

    name: Name
    partitions: PositiveCount = 8
    replicas: PositiveCount = 3
    data_nodes_auto_adjust_scale_up: TimerSetting = 0
    data_nodes_auto_adjust_scale_down: TimerSetting = "Infinite"
    data_nodes_filter: str | None = None
    catch_up_bytes_per_second: Annotated[int, Meta(ge=0)] = 0
    fsync: bool = True
    change_peers: Literal["Queue", "Update", "Cancel"] | None = None
    consistency_mode: Literal["StrongConsistency", "HighAvailability"] | None = None
    partition_distribution_reset_timeout: Annotated[int, Meta(ge=0)] | None = None
    storage: Literal["Persistent", "Volatile"] | None = None


class RunPressure(ManifestPart, frozen=True, kw_only=True):
    """Writes beside the recorded load, in no history: `processes` of each pod write to `keys` keys
    of their own, each as soon as its last write has ended, with `value_bytes` beside the value.
    """

    processes: Annotated[int, Meta(ge=1, le=4096)]
    keys: Annotated[int, Meta(ge=1, le=1_000_000)] = 1_000
    value_bytes: Annotated[int, Meta(ge=0, le=1_048_576)] = 0


class RunTransactions(ManifestPart, frozen=True, kw_only=True):
    """Transactions over lists of one partition: `rate` transactions per second over all pods, each
    of `steps` on different keys out of `keys_per_partition`; `reads` is the share of the steps that
    read, the rest append.
    """

    rate: Annotated[float, Meta(gt=0)]
    steps: Annotated[int, Meta(ge=2, le=16)] = 3
    reads: Fraction = 0.5
    keys_per_partition: PositiveCount = 4


class RunLoad(ManifestPart, frozen=True, kw_only=True):
    """The work of all load pods together.

    Rates are operations per second over all pods; each pod probes each partition ten times a
    second, or as often as `probe_rate` allows (0: never). `bulk_keys_per_partition` keys are
    written once in the preload: a partition has about that number times `filler_bytes`.

    `register_reads` and `register_cas` are shares of the operations on registers, the rest are
    writes, with `register_value_bytes` beside the value; `list_reads` is that of the operations on
    lists, the rest are appends. `key_skew` is the exponent of a Zipf distribution over the keys of
    a partition (0: all alike); with `hot_key_share` the first one gets that share of the
    partition's operations, and the others the rest. `processes` clients of each pod have one
    operation outstanding each.
    """

    pods: Annotated[int, Meta(ge=1, le=20)] = 2
    register_rate: Annotated[float, Meta(ge=0)] = 100.0
    list_rate: Annotated[float, Meta(ge=0)] = 40.0
    register_keys_per_partition: PositiveCount = 4
    list_keys_per_partition: PositiveCount = 2
    processes: PositiveCount = 16
    bulk_keys_per_partition: Annotated[int, Meta(ge=0)] = 0
    filler_bytes: Annotated[int, Meta(ge=0, le=1_048_576)] = 0
    probe_rate: Annotated[int, Meta(ge=0)] = 500
    reads_at: ReadsAt = ReadsAt.LEADER
    register_reads: Fraction = 0.4
    register_cas: Fraction = 0.2
    register_value_bytes: Annotated[int, Meta(ge=0, le=1_048_576)] = 0
    list_reads: Fraction = 0.5
    key_skew: Skew = 0.0
    hot_key_share: Hot = 0.0
    loop: Loop = Loop.OPEN
    pressure: RunPressure | None = None
    transactions: RunTransactions | None = None
    attempt_timeout_ms: Annotated[int, Meta(ge=10)] = 500
    operation_timeout_ms: Annotated[int, Meta(ge=10)] = 5_000


class TargetStorage(ManifestPart, frozen=True, kw_only=True):
    """The members' volumes: their storage class (default: the cluster's) and their size."""

    class_name: Annotated[str, Meta(min_length=1)] | None = None
    size: Annotated[str, Meta(pattern=r"^[1-9][0-9]*(Mi|Gi|Ti)$")] | None = None


class RunTarget(ManifestPart, frozen=True, kw_only=True):
    """The system under test: an installed target, and how its members are started.

    `name` is empty for the system that the release itself is. `image` replaces the target's own,
    `version` names one whose image the target builds.
    `args` and `env` are added to the members' own; `files` are texts by their paths in the members'
    containers; `storage` replaces the class and the size of their volumes. `secrets` are Secrets of
    the namespace by the folders in the members' containers that have their files; the load pods'
    client gets the one that `client_secret` names.
    """

    name: Annotated[str, Meta(pattern=r"^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?$")] = ""
    image: Annotated[str, Meta(min_length=1)] | None = None
    version: Annotated[str, Meta(min_length=1, description="a version")] | None = None
    args: list[str] = msgspec.field(default_factory=list)
    env: dict[VariableName, str] = msgspec.field(default_factory=dict)
    files: dict[FilePath, str] = msgspec.field(default_factory=dict)
    storage: TargetStorage = TargetStorage()
    secrets: dict[FolderPath, SecretName] = msgspec.field(default_factory=dict)
    client_secret: SecretName | None = None

    @property
    def changed(self) -> list[str]:
        """The names in the file of the fields that change how members are started, or reached."""
        unchanged = RunTarget(name=self.name)
        names = [name for name in self.__struct_fields__ if name != "name"]
        return [
            file_name(name) for name in names if getattr(self, name) != getattr(unchanged, name)
        ]


class RunTimes(ManifestPart, frozen=True, kw_only=True):
    """The durations of the phases, and the limits of the run's waits."""

    before_s: Seconds = 20.0
    after_s: Seconds = 15.0
    quiet_s: Seconds = 2.0
    setup_timeout_s: Seconds = 180.0
    preload_timeout_s: Seconds = 180.0
    recovery_timeout_s: Seconds = 180.0
    final_timeout_s: Seconds = 90.0


class Expectations(ManifestPart, frozen=True, kw_only=True):
    """The limits that the analysis judges the run by; an absent limit is not judged.

    `resets`: the exact number of forced resets in all partitions together. `sacrificed_at_most`,
    `sacrificed_at_least`, `restored_at_least`: acknowledged writes that resets took, and that an
    unwind brought back. If a reset ended the window, `max_reset_window_ms` and
    `max_reset_after_proof_ms` replace `max_window_ms`: they limit the whole window, and its part
    after the API server reported the last loss, before which no reset is allowed.

    `max_p99_ms`: p99 of the load during the faults. `p99_ratio`: that p99 over the larger one of
    the quiet time before and of the control, judged where it is above `p99_ratio_above_ms`.
    """

    lost: Annotated[int, Meta(ge=0)] = 0
    stale: Annotated[int, Meta(ge=0)] = 0
    resets: Annotated[int, Meta(ge=0)] | None = 0
    sacrificed_at_most: Annotated[int, Meta(ge=0)] | None = 0
    sacrificed_at_least: Annotated[int, Meta(ge=0)] = 0
    restored_at_least: Annotated[int, Meta(ge=0)] = 0
    max_window_ms: Annotated[int, Meta(ge=0)] | None = None
    max_reset_window_ms: Annotated[int, Meta(ge=0)] | None = None
    max_reset_after_proof_ms: Annotated[int, Meta(ge=0)] | None = None
    max_p99_ms: Annotated[float, Meta(gt=0)] | None = None
    p99_ratio: Annotated[float, Meta(gt=0)] | None = None
    p99_ratio_above_ms: Annotated[float, Meta(ge=0)] = 0.0
    all_rebalances_end: bool = True


class Control(ManifestPart, frozen=True, kw_only=True):
    """A control group that shows what the same faults cost on this machine if they hit no replica:
    `nodes` more data nodes in `pool`, without replicas, restarted one after another before the
    faults.
    """

    pool: Name
    nodes: Annotated[int, Meta(ge=1, le=100)]


class Floor(ManifestPart, frozen=True, kw_only=True):
    """The least number of replicas of every partition that must be alive at any time of the run.

    Default: a majority. A run that breaks majorities on purpose must declare a floor.
    """

    alive_replicas: Annotated[int, Meta(ge=0)]


class Metadata(ManifestPart, frozen=True, kw_only=True):
    """The scenario's name, and what it shows in a sentence or two."""

    name: Name
    description: str = ""


class RunSpec(ManifestPart, frozen=True, kw_only=True):
    """Everything that a run does.

    `max_duration_s`: a run that has not reached its last phases by then is aborted, healed and
    cleaned. The namespace of a foreign cluster caps it (`zonequake_chaos.runner.consent`).
    `control`: see `zonequake_chaos.scenario.control`.
    """

    pools: Annotated[list[Pool], Meta(min_length=1)]
    zones: Annotated[list[RunZone], Meta(min_length=1, max_length=10)]
    control: Control | None = None
    load: RunLoad = msgspec.field(default_factory=RunLoad)
    target: RunTarget = msgspec.field(default_factory=RunTarget)
    times: RunTimes = msgspec.field(default_factory=RunTimes)
    faults: list[AnyFault] = msgspec.field(default_factory=list)
    floor: Floor | None = None
    max_duration_s: Annotated[float, Meta(gt=0, le=86_400)] | None = None
    expectations: Expectations = msgspec.field(default_factory=Expectations)


class ChaosRun(ManifestPart, frozen=True, kw_only=True):
    """The whole file."""

    api_version: Literal["zonequake.io/v1alpha1"]
    kind: Literal["ChaosRun"]
    metadata: Metadata
    spec: RunSpec


def with_target(run: ChaosRun, *, name: str | None, image: str | None = None) -> ChaosRun:
    """Returns the same run against another target, or another image of it; None keeps either."""
    given = {"name": name, "image": image}
    target = msgspec.structs.replace(
        run.spec.target, **{field: value for field, value in given.items() if value is not None}
    )
    return msgspec.structs.replace(run, spec=msgspec.structs.replace(run.spec, target=target))

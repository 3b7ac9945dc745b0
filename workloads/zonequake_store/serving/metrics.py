"""Prometheus metrics of a data node (`zonequake_store_*`).

Labels are bounded: `zone` and `partition` of the replicas that are here, never a key, a client or a
peer beyond the members. Values are read when Prometheus asks; only the durations of commits
and requests are kept as they happen.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from zonequake_protocol.admin import ReplicaRole, ReplicaStatus, Stage
from zonequake_store.lease.clock import boottime_s
from zonequake_store.lease.rules.node_lease import NodeLease
from zonequake_store.replica.replica import Replica
from zonequake_store.serving.counters import Counters
from zonequake_store.serving.storage_health import StorageHealth
from zonequake_store.storage.directory import Storage

_STAGES = {Stage.NONE: 0, Stage.CATCHING_UP: 1, Stage.JOINT: 2, Stage.STABLE: 3}
_ROLES = {role: value for value, role in enumerate(ReplicaRole)}
_COMMIT_BUCKETS_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.0)
_REPLICA_LABELS = ("zone", "partition")


class CommitTimes:
    """Durations of the synced commits, by environment (`log`, `data`)."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._histogram = Histogram(
            "zonequake_store_commit_seconds",
            "Duration of synced commits by environment.",
            ("environment",),
            buckets=_COMMIT_BUCKETS_S,
            registry=registry,
        )
        self.observe_log_s: Callable[[float], None] = self._histogram.labels("log").observe
        self.observe_data_s: Callable[[float], None] = self._histogram.labels("data").observe


class MeteredHost(Protocol):
    """The host whose metrics are read."""

    @property
    def replicas(self) -> Mapping[str, Replica]:
        """The replicas that run, by group."""

    @property
    def counters(self) -> Counters:
        """The node's counters since its start."""

    @property
    def catch_up_sent_bytes(self) -> int:
        """All that this node sent to catching-up peers since its start."""

    @property
    def storage(self) -> Storage:
        """The store of the replicas' state."""

    @property
    def watch(self) -> StorageHealth:
        """Says whether anything is stored now."""

    @property
    def lease(self) -> NodeLease:
        """The rule by which the node holds its Lease."""

    @property
    def draining(self) -> bool:
        """Whether leaderships are refused."""


class NodeCollector(Collector):
    """Reads the host when Prometheus asks. `statuses()` are those of all its replicas."""

    def __init__(self, host: MeteredHost, statuses: Callable[[], list[ReplicaStatus]]) -> None:
        self._host = host
        self._statuses = statuses

    def collect(self) -> Iterator[Metric]:
        """All metrics but the commits' durations."""
        counters = self._host.counters
        for name, text, counted in (
            ("turns", "Turns of the loop that served replicas.", counters.turns),
            ("entries_applied", "Log entries applied by all replicas.", counters.writes_applied),
            ("client_requests", "Requests of clients.", counters.requests),
            ("appends_dropped", "APPENDs that found no connection.", counters.frames_dropped),
            (
                "catch_up_bytes",
                "Bytes sent to catching-up peers by all replicas that lead or led here.",
                self._host.catch_up_sent_bytes,
            ),
            ("cpu_seconds", "CPU time of the process.", time.process_time()),
        ):
            yield CounterMetricFamily(f"zonequake_store_{name}", text, value=counted)
        times = counters.request_times
        yield HistogramMetricFamily(
            "zonequake_store_request_seconds",
            "Duration of clients' requests in this process, from their frame to their answer.",
            buckets=times.buckets,
            sum_value=times.sum_s,
        )
        yield self._answered()
        storage, watch, lease = self._host.storage, self._host.watch, self._host.lease
        now_s = boottime_s()
        for name, text, value in (
            (
                "requests_waiting",
                "Reads and writes of clients that wait for their answer; no transactions.",
                sum(replica.waiting for replica in self._host.replicas.values()),
            ),
            ("loop_lag_seconds", "Delay of the last tick.", counters.loop_lag_s),
            (
                "loop_lag_longest_seconds",
                "Longest delay of a tick in this process.",
                counters.longest_loop_lag_s,
            ),
            ("log_used_bytes", "Bytes used of the log maps.", storage.log_used_bytes),
            ("data_used_bytes", "Bytes used of the data map.", storage.data.used_bytes),
            ("storage_failed", "1 if nothing is stored any more.", int(watch.failure is not None)),
            ("storage_full", "1 while something waits for room.", int(watch.is_full)),
            ("writes_refused", "1 while no write is taken.", int(watch.problem is not None)),
            ("draining", "1 while the node refuses leaderships.", int(self._host.draining)),
            ("lease_needed", "1 while replicas here need a Lease.", int(lease.is_wanted)),
            (
                "lease_held",
                "1 while the Lease holds; else such replicas acknowledge nothing here.",
                int(lease.holds(now_s)),
            ),
            (
                "lease_unrenewed_seconds",
                "Time since the Lease was renewed, or was first asked for; 0 if none is needed.",
                0.0 if lease.unrenewed_since_s is None else now_s - lease.unrenewed_since_s,
            ),
        ):
            yield GaugeMetricFamily(f"zonequake_store_{name}", text, value=value)
        under_way = GaugeMetricFamily(
            "zonequake_store_commit_under_way_seconds",
            "Duration so far of the commit under way, by environment.",
            labels=("environment",),
        )
        for environment, duration_s in storage.under_way_s.items():
            under_way.add_metric((environment,), duration_s)
        yield under_way
        yield from self._replicas()

    def _answered(self) -> Metric:
        """Counts from 0 on for each zone that has or had a replica here, or the first write would
        be no increase.
        """
        found = CounterMetricFamily(
            "zonequake_store_writes_answered",
            "Writes, appends and cas answered ok; repeated: an earlier entry had the effect.",
            labels=("zone", "request"),
        )
        for zone, answered in self._host.counters.answered.items():
            found.add_metric((zone, "first"), answered.first)
            found.add_metric((zone, "repeated"), answered.repeated)
        return found

    def _replicas(self) -> Iterator[Metric]:
        roles = ", ".join(f"{value} {role}" for role, value in _ROLES.items())
        stages = ", ".join(f"{value} {stage}" for stage, value in _STAGES.items())
        gauges = {
            name: GaugeMetricFamily(f"zonequake_store_{name}", text, labels=_REPLICA_LABELS)
            for name, text in (
                ("replica_role", f"Role of the replica here: {roles}."),
                ("term", "Raft term."),
                ("commit_index", "Highest committed index known here."),
                ("applied_index", "Highest applied index."),
                ("first_index", "First index in the log."),
                ("last_index", "Last index in the log."),
                ("token", "Highest configuration token seen."),
                ("rebalance_stage", f"Stage at the leader: {stages}."),
                ("caught_up", "1 while the leader waits for a grant."),
                ("catch_up_fraction", "Progress of the slowest catching-up peer, 0 to 1."),
                ("catch_up_sent_bytes", "Bytes sent to the peers that catch up now."),
                ("catch_up_done_bytes", "Bytes done of the transfers that run now."),
                ("catch_up_total_bytes", "Bytes of the transfers that run now."),
            )
        }
        for status in self._statuses():
            labels = (status.zone, str(status.partition))
            values = {
                "replica_role": _ROLES[status.role],
                "term": status.term,
                "commit_index": status.commit,
                "applied_index": status.applied,
                "first_index": status.first_index,
                "last_index": status.last_index,
                "token": status.token,
            }
            if status.role is ReplicaRole.LEADER:
                values["rebalance_stage"] = _STAGES[status.stage]
                values["caught_up"] = int(status.caught_up)
            for name, value in values.items():
                gauges[name].add_metric(labels, value)
            if status.progress:
                slowest = min(progress.fraction for progress in status.progress)
                gauges["catch_up_fraction"].add_metric(labels, slowest)
                for name, sizes in (
                    ("catch_up_sent_bytes", [p.bytes_sent for p in status.progress]),
                    ("catch_up_done_bytes", [p.bytes_done for p in status.progress]),
                    ("catch_up_total_bytes", [p.bytes_total for p in status.progress]),
                ):
                    gauges[name].add_metric(labels, sum(sizes))
        yield from gauges.values()

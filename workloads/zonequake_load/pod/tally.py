"""Counts of what the load does, for its status and for Prometheus."""

from __future__ import annotations

from collections import deque
from functools import cache

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from zonequake_load.operation import Outcome, Type
from zonequake_load.pod.control import OutcomeCounts, Phase, PhaseCounts
from zonequake_load.pod.history import OperationRole, RecordedCall

LATE_NS = 10_000_000
"""An operation that begins so long after its time counts as late."""

RATE_WINDOW_S = 5

_LATENCY_BUCKETS_S = (
    0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05,
    0.075, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip


class OperationTally:
    """Counts operations by phase and outcome. `registry` receives the metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.phases: dict[Phase, PhaseCounts] = {}
        self.outstanding = 0
        self._completions: deque[list[int]] = deque(maxlen=RATE_WINDOW_S + 1)  # [second, count]
        self._operations = Counter(
            "zonequake_load_operations",
            "Completed operations",
            ["f", "role", "outcome"],
            registry=registry,
        )
        self._latency = Histogram(
            "zonequake_load_latency_seconds",
            "Time from the scheduled start to the completion of operations that ended ok",
            ["f", "role"],
            buckets=_LATENCY_BUCKETS_S,
            registry=registry,
        )
        self._attempts = Counter(
            "zonequake_load_attempts", "Requests sent for operations", ["role"], registry=registry
        )
        self._late = Counter(
            "zonequake_load_late_operations",
            f"Operations begun more than {LATE_NS // 1_000_000} ms after their scheduled time",
            ["role"],
            registry=registry,
        )
        self._dropped = Counter(
            "zonequake_load_dropped_operations",
            "Operations never begun, because the load could not keep its schedule",
            ["role"],
            registry=registry,
        )
        self._pressed = Counter(
            "zonequake_load_pressure_writes",
            "Writes of the pressure that ended; they are in no history",
            ["outcome"],
            registry=registry,
        )
        # To find the series of some labels costs more than to count in it.
        self._latency_of = cache(self._latency.labels)
        self._operations_of = cache(self._operations.labels)
        self._attempts_of = cache(self._attempts.labels)
        Gauge(
            "zonequake_load_outstanding_operations", "Operations now under way", registry=registry
        ).set_function(lambda: self.outstanding)

    def began(self, phase: Phase, call: RecordedCall) -> None:
        self.outstanding += 1
        if call.inv_ns - call.sched_ns > LATE_NS:
            self._counts(phase, call.role).late += 1
            self._late.labels(call.role).inc()

    def ended(self, phase: Phase, call: RecordedCall, outcome: Outcome, now_ns: int) -> None:
        self.outstanding -= 1
        counts = self._counts(phase, call.role)
        _count(counts, outcome.type)
        if outcome.type is Type.OK:
            self._latency_of(call.operation.f, call.role).observe((now_ns - call.sched_ns) / 1e9)
        self._operations_of(call.operation.f, call.role, outcome.type).inc()
        self._attempts_of(call.role).inc(outcome.attempts)
        second = now_ns // 1_000_000_000
        if not self._completions or self._completions[-1][0] != second:
            self._completions.append([second, 0])
        self._completions[-1][1] += 1

    def dropped(self, phase: Phase, role: OperationRole) -> None:
        self._counts(phase, role).dropped += 1
        self._dropped.labels(role).inc()

    def pressed(self, phase: Phase, outcome: Outcome) -> None:
        """Counts a write of the pressure."""
        _count(self.phases.setdefault(phase, PhaseCounts()).pressure, outcome.type)
        self._pressed.labels(outcome.type).inc()

    def rate(self, now_ns: int) -> float:
        """Completions per second over the last full `RATE_WINDOW_S` seconds."""
        second = now_ns // 1_000_000_000
        recent = (n for at, n in self._completions if second - RATE_WINDOW_S <= at < second)
        return sum(recent) / RATE_WINDOW_S

    def _counts(self, phase: Phase, role: OperationRole) -> OutcomeCounts:
        counts = self.phases.setdefault(phase, PhaseCounts())
        return counts.probes if role is OperationRole.PROBE else counts.operations


def _count(counts: OutcomeCounts, ended: Type) -> None:
    match ended:
        case Type.OK:
            counts.ok += 1
        case Type.FAIL:
            counts.fail += 1
        case _:
            counts.info += 1

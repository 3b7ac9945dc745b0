"""The scenarios by name (`zonequake simulate --scenario NAME`)."""

from __future__ import annotations

from dataclasses import replace

from zonequake_simulation.scenario import SMALL, FaultKind, Scenario

_NETWORK = {
    FaultKind.ISOLATE: 3,
    FaultKind.DEAF: 2,
    FaultKind.MUTE: 2,
    FaultKind.SPLIT: 3,
    FaultKind.LEAK: 2,
    FaultKind.STORM: 2,
    FaultKind.UNREACHABLE: 1,
}
_PROCESSES = {
    FaultKind.CRASH: 4,
    FaultKind.STALL: 2,
    FaultKind.TRANSFER: 2,
    FaultKind.REFUSE: 1,
    FaultKind.COMPACT: 3,
}
_WRITES = {FaultKind.CRASH_WRITING: 5, FaultKind.SLOW_DISK: 2}
_DISKS = {
    FaultKind.FAILED_SYNC: 4,
    FaultKind.FULL_DISK: 3,
    FaultKind.FULL_MAP: 2,
    FaultKind.ROT: 3,
    FaultKind.TORN_TAIL: 2,
    FaultKind.WIPE: 2,
}
_GAPS = {
    FaultKind.LAG: 14,
    FaultKind.BREAK_OFF: 20,
    FaultKind.STANDSTILL: 4,
    FaultKind.COMPACT: 8,
    FaultKind.WISH: 8,
    FaultKind.STORM: 2,
    FaultKind.SPLIT: 1,
    FaultKind.DEAF: 1,
    FaultKind.MUTE: 1,
    FaultKind.STALL: 2,
    FaultKind.SLOW_DISK: 2,
    FaultKind.WIPE: 1,
}
_CHANGES = {FaultKind.WISH: 8, FaultKind.STRIKE: 4, FaultKind.WIPE: 1}
_LOSSES = {
    FaultKind.BLACKOUT: 10,
    FaultKind.MASSACRE: 5,
    FaultKind.API_OUTAGE: 3,
    FaultKind.WISH: 2,
}

_OPERATORS = {
    FaultKind.OPERATOR_CRASH: 3,
    FaultKind.OPERATOR_CRASH_WRITING: 5,
    FaultKind.OPERATOR_PAUSE: 3,
    FaultKind.API_OUT: 1,
    FaultKind.API_ERRORS: 2,
    FaultKind.API_STALE: 2,
    FaultKind.POD_DELETED: 3,
}
_MAJORITIES = {
    FaultKind.MASSACRE: 10,
    FaultKind.BLACKOUT: 6,
    FaultKind.STANDSTILL: 8,
    FaultKind.WISH: 3,
    FaultKind.API_OUTAGE: 1,
    FaultKind.CRASH: 4,
    FaultKind.CRASH_WRITING: 3,
    FaultKind.ISOLATE: 3,
    FaultKind.DEAF: 4,
    FaultKind.SPLIT: 2,
    FaultKind.STALL: 3,
    FaultKind.SLOW_DISK: 2,
    FaultKind.STORM: 1,
    FaultKind.OPERATOR_CRASH: 3,
    FaultKind.OPERATOR_CRASH_WRITING: 4,
    FaultKind.OPERATOR_PAUSE: 2,
    FaultKind.API_ERRORS: 1,
    FaultKind.API_STALE: 1,
    FaultKind.API_OUT: 1,
    FaultKind.POD_DELETED: 2,
}
_EVERYTHING = _NETWORK | _PROCESSES | _WRITES | _GAPS | _DISKS | _CHANGES | {FaultKind.COMPACT: 6}

SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario(name="raft", faults=_NETWORK | _PROCESSES | _WRITES),
        Scenario(
            name="reconfiguration",
            nodes=6,
            members=(1, 3, 3, 3),
            cancels=0.1,
            faults=_NETWORK | _PROCESSES | _WRITES | _CHANGES,
        ),
        Scenario(
            name="reset",
            nodes=5,
            lease_ms=800,
            faults=_NETWORK | _PROCESSES | _WRITES | _LOSSES,
            least_gap_ms=200,
            most_gap_ms=1_500,
        ),
        Scenario(
            name="volatile",
            nodes=5,
            is_volatile=True,
            faults=_NETWORK | _PROCESSES | _CHANGES,
        ),
        Scenario(
            name="two-groups", nodes=4, groups=2, faults=_NETWORK | _PROCESSES | _WRITES | _CHANGES
        ),
        Scenario(
            name="catch-up",
            nodes=5,
            settings=replace(SMALL, catch_up_bytes_per_second=3_000),
            faults=_GAPS | _WRITES,
        ),
        Scenario(
            name="transactions",
            nodes=4,
            groups=2,
            transactions=0.5,
            faults=_NETWORK | _PROCESSES | _WRITES | {FaultKind.DECISION: 12, FaultKind.WISH: 2},
        ),
        Scenario(
            name="everything",
            nodes=6,
            members=(1, 3, 3, 3),
            groups=2,
            cancels=0.05,
            transactions=0.3,
            settings=replace(SMALL, catch_up_bytes_per_second=3_000),
            faults=_EVERYTHING | {FaultKind.DECISION: 8},
        ),
        # Without transactions: a reset may take back what one of two partitions decided.
        Scenario(
            name="everything-reset",
            nodes=6,
            members=(1, 3, 3, 3),
            groups=2,
            lease_ms=800,
            cancels=0.05,
            settings=replace(SMALL, catch_up_bytes_per_second=3_000),
            faults=_EVERYTHING | _LOSSES | {FaultKind.WISH: 8},
        ),
        Scenario(
            name="operated",
            nodes=5,
            is_operated=True,
            steps=2_500,
            faults=_NETWORK | _PROCESSES | _WRITES | _CHANGES | _OPERATORS,
        ),
        Scenario(
            name="operated-two",
            nodes=5,
            groups=2,
            is_operated=True,
            steps=2_500,
            faults=_NETWORK
            | _PROCESSES
            | _WRITES
            | _CHANGES
            | _OPERATORS
            | {FaultKind.STANDSTILL: 2},
        ),
        Scenario(
            name="operated-volatile",
            nodes=5,
            is_operated=True,
            is_volatile=True,
            steps=2_500,
            faults=_NETWORK | _PROCESSES | _CHANGES | _OPERATORS,
        ),
        Scenario(
            name="operated-available",
            nodes=5,
            members=(3, 5),
            is_operated=True,
            is_highly_available=True,
            steps=3_500,
            faults=_MAJORITIES,
            least_gap_ms=100,
            most_gap_ms=1_500,
        ),
        Scenario(name="storage", nodes=4, faults=_NETWORK | _PROCESSES | _WRITES | _DISKS),
    )
}

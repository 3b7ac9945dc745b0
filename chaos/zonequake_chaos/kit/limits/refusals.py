"""The parts of a scenario that a target has no counterpart of, as plain values. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import get_args

from zonequake_chaos.scenario.faults import AnyFault, FaultTarget, TargetRole, Traffic, fault_type
from zonequake_chaos.scenario.run import ChaosRun
from zonequake_chaos.scenario.triggers import Trigger, trigger_type

_KNOWN = {
    "fault": frozenset(each.__struct_config__.tag for each in get_args(AnyFault)),
    "trigger": frozenset(each.__struct_config__.tag for each in get_args(Trigger)),
    "role": frozenset(TargetRole),
    "traffic": frozenset(Traffic),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusals:
    """Types of faults, triggers, roles and traffic that a target refuses, each with the reason.

    A reason goes on after the fault's name: "scales a pool, and its members are fixed".
    """

    faults: Mapping[str, str] = field(default_factory=dict)
    triggers: Mapping[str, str] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)
    traffic: Mapping[str, str] = field(default_factory=dict)

    def and_also(self, more: Refusals) -> Refusals:
        """Returns these refusals and `more`, whose reasons replace those of the same names."""
        return Refusals(
            faults={**self.faults, **more.faults},
            triggers={**self.triggers, **more.triggers},
            roles={**self.roles, **more.roles},
            traffic={**self.traffic, **more.traffic},
        )

    @property
    def by_kind(self) -> Mapping[str, Mapping[str, str]]:
        """The tables, each by the kind of what it refuses."""
        return {
            "fault": self.faults,
            "trigger": self.triggers,
            "role": self.roles,
            "traffic": self.traffic,
        }

    @property
    def applied(self) -> Mapping[str, list[str]]:
        """The names that are not refused, sorted, by their kind."""
        return {kind: sorted(_KNOWN[kind] - set(table)) for kind, table in self.by_kind.items()}

    def unknown(self) -> Iterator[str]:
        """Yields each refused name that no scenario can have, as text: it would refuse nothing."""
        for kind, table in self.by_kind.items():
            for name in sorted(set(table) - _KNOWN[kind]):
                yield f"{kind} {name!r}: expected one of {', '.join(sorted(_KNOWN[kind]))}"

    def of(self, run: ChaosRun) -> Iterator[str]:
        """Yields each refused part of the scenario, as text."""
        for fault in run.spec.faults:
            for reason in self._reasons(fault):
                yield f"fault {fault.name!r} {reason}"

    def _reasons(self, fault: AnyFault) -> Iterator[str]:
        target: FaultTarget | None = getattr(fault, "target", None)
        traffic: str = getattr(fault, "cut", getattr(fault, "traffic", ""))
        for table, found in (
            (self.faults, fault_type(fault)),
            (self.triggers, trigger_type(fault.trigger)),
            (self.roles, target.role.value if target is not None else ""),
            (self.traffic, traffic),
        ):
            if found in table:
                yield table[found]


FIXED_MEMBERS = Refusals(
    faults={
        "scale": "scales a pool, and its members are fixed",
        "operator_pause": "stops our operator, which decides nothing of it",
        "operator_kill": "kills our operator, from which it would notice nothing",
        "reset_by_hand": "resets partitions by hand, and it has no request for that",
    },
    triggers={
        "stage": "waits for a stage of a rebalance, which it does not have",
        "key": "waits for a key of a Partition, which it does not have",
    },
    roles={"catching_up_peer": "targets a catching-up peer, which it does not report"},
)
"""The refusals of a system whose members are the same from the beginning of a run to its end."""

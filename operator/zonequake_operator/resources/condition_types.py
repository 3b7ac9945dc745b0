"""Conditions of zones and tables, and why they are as they are."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ConditionType(StrEnum):
    """Conditions of a zone, in the order in which they are shown; `LEASE_TROUBLE` is
    HighAvailability zones' alone."""

    READY = "Ready"
    SYNCED = "Synced"
    PROGRESSING = "Progressing"
    DEGRADED = "Degraded"
    DATA_AT_RISK = "DataAtRisk"
    LEASE_TROUBLE = "LeaseTrouble"
    PERMITTED = "Permitted"
    PAUSED = "Paused"

    @property
    def well(self) -> bool:
        """Its status while there is nothing to say."""
        return _WELL[self]


_WELL = {
    ConditionType.READY: True,
    ConditionType.SYNCED: True,
    ConditionType.PROGRESSING: False,
    ConditionType.DEGRADED: False,
    ConditionType.DATA_AT_RISK: False,
    ConditionType.LEASE_TROUBLE: False,
    ConditionType.PERMITTED: True,
    ConditionType.PAUSED: False,
}


class Reason(StrEnum):
    """The reason of a condition's status."""

    ALL_PARTITIONS_SERVE = "AllPartitionsServe"
    PARTITIONS_WITHOUT_LEADER = "PartitionsWithoutLeader"
    STARTING = "Starting"
    PARTITIONS_IN_THE_WAY = "PartitionsInTheWay"
    INVALID_FILTER = "InvalidFilter"
    INVALID_SPEC = "InvalidSpec"
    NO_DATA_NODES = "NoDataNodes"
    SPEC_APPLIED = "SpecApplied"
    APPLYING = "Applying"
    REBALANCING = "Rebalancing"
    RETRY_THRESHOLD_PASSED = "RetryThresholdPassed"
    IDLE = "Idle"
    MEMBERS_MISSING = "MembersMissing"
    FEWER_NODES_THAN_REPLICAS = "FewerNodesThanReplicas"
    ALL_MEMBERS_SERVE = "AllMembersServe"
    NO_FURTHER_LOSS_ALLOWED = "NoFurtherLossAllowed"
    MAJORITY_LOST = "MajorityLost"
    LOSS_TOLERATED = "LossTolerated"
    LEASES_RENEWED = "LeasesRenewed"
    LEASE_NOT_RENEWED = "LeaseNotRenewed"
    LEASE_EXPIRED = "LeaseExpired"
    LEASE_FENCED = "LeaseFenced"
    RIGHTS_MISSING = "RightsMissing"
    ALL_RIGHTS_GRANTED = "AllRightsGranted"
    PAUSED_BY_SPEC = "PausedBySpec"
    ACTING = "Acting"
    ZONE_FOUND = "ZoneFound"
    ZONE_MISSING = "ZoneMissing"
    ZONE_DELETED = "ZoneDeleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One condition without its transition time, which the edge adds when `status` flips."""

    type: ConditionType
    status: bool
    reason: Reason
    message: str

    @property
    def is_well(self) -> bool:
        """Returns whether the condition needs no attention."""
        return self.status is self.type.well

"""Tables: in which zone they are, and whether they may leave it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.made_up_nodes import node_identity
from zonequake_operator.api_server.table_resources import parse_table, render_table_status
from zonequake_operator.planning.tables import Table, TableStatus, filled_zones, judge
from zonequake_operator.resources.condition_types import Reason
from zonequake_operator.resources.model import Zone, ZoneSpec, ZoneStatus
from zonequake_protocol.admin import (
    ConfigurationReport,
    PeerName,
    ReplicaRole,
    ReplicasReport,
    ReplicaStatus,
)

ZONE = Zone(
    name="z",
    namespace="n",
    uid="0123456789",
    generation=1,
    resource_version="1",
    spec=ZoneSpec(partitions=2),
    status=ZoneStatus(),
)
TABLE = Table(name="t", generation=3, resource_version="7", primary_zone="z", status=TableStatus())


def report(
    *last_user_index: int, role: ReplicaRole = ReplicaRole.LEADER, uid: str = "01234567"
) -> ReplicasReport:
    """One node that leads the first partitions, with these user entries in their logs."""
    node = node_identity("n1")
    peer = PeerName("n1", "s")
    return ReplicasReport(
        node=node,
        replicas=[
            ReplicaStatus(
                group=f"z.{uid}.{number}",
                zone="z",
                partition=number,
                incarnation="s",
                role=role,
                term=1,
                configuration=ConfigurationReport(peers=[peer], token=1, index=1),
                last_user_index=index,
            )
            for number, index in enumerate(last_user_index)
        ],
    )


@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        ([report(0, 0)], {ZONE.uid: False}),
        ([report(0, 5)], {ZONE.uid: True}),
        ([report(5)], {ZONE.uid: True}),
        ([report(0)], {}),
        ([report(0, 0, role=ReplicaRole.FOLLOWER)], {}),
        ([report(0, 5, role=ReplicaRole.WAITING)], {ZONE.uid: True}),
        ([report(5, 5, uid="other")], {}),
        ([], {}),
    ],
)
def test_a_zone_is_empty_only_if_every_partitions_leader_says_so(
    reports: list[ReplicasReport], expected: dict[str, bool]
) -> None:
    assert filled_zones([ZONE], reports) == expected


def test_what_was_seen_once_stays_while_the_zone_does() -> None:
    held = replace(TABLE, status=replace(TABLE.status, zone_uid=ZONE.uid, holds_data=True))
    empty = replace(TABLE, status=replace(TABLE.status, zone_uid=ZONE.uid, holds_data=False))
    assert judge(held, {"z": ZONE}, {ZONE.uid: False}).holds_data is True
    assert judge(held, {"z": ZONE}, {}).holds_data is True
    assert judge(empty, {"z": ZONE}, {}).holds_data is False
    assert judge(empty, {"z": ZONE}, {ZONE.uid: True}).holds_data is True
    assert judge(TABLE, {"z": ZONE}, {}).holds_data is None
    again = replace(ZONE, uid="another")
    assert judge(held, {"z": again}, {}).holds_data is None
    assert judge(held, {"z": again}, {"another": False}).holds_data is False


def test_a_table_says_where_it_is_and_what_is_wrong() -> None:
    for zones, ready, reason, words in (
        ({"z": ZONE}, True, Reason.ZONE_FOUND, "in the partitions of the zone z"),
        ({}, False, Reason.ZONE_MISSING, "There is no zone z. Create it, or set"),
        ({"z": replace(ZONE, deleting=True)}, False, Reason.ZONE_DELETED, "is being deleted"),
    ):
        (condition,) = judge(TABLE, zones, {}).conditions
        assert (condition.status, condition.reason) == (ready, reason)
        assert words in condition.message
    assert judge(TABLE, {}, {}).holds_data is False, "it can be given a zone that exists"


def test_a_status_that_was_written_is_read_back_and_not_written_again() -> None:
    for filled in ({}, {ZONE.uid: True}, {ZONE.uid: False}):
        status = judge(TABLE, {"z": ZONE}, filled)
        rendered = render_table_status(status, {}, now_ms=1_000)
        obj: dict[str, Any] = {
            "metadata": {"name": "t", "generation": 3, "resourceVersion": "8"},
            "spec": {"primaryZone": "z"},
            "status": rendered,
        }
        table = parse_table(obj)
        assert table.status == status
        assert judge(table, {"z": ZONE}, filled) == status
        assert render_table_status(status, rendered, now_ms=9_000) == rendered

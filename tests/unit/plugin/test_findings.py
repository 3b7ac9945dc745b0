"""What is at risk, and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest
from msgspec.structs import replace as with_fields

from zonequake_ctl.zq.screens.findings import (
    Severity,
    ZoneFinding,
    findings,
    partitions_text,
    why_missing,
)
from zonequake_ctl.zq.screens.namespace_view import NamespaceView, ZoneView
from zonequake_operator.api_server.rendering import render_conditions
from zonequake_operator.planning.conditions import judge
from zonequake_operator.resources.condition_types import Condition, ConditionType
from zonequake_operator.resources.model import Departure
from zonequake_operator.resources.parsing import parse_conditions
from zonequake_operator.resources.stored_shapes import WireCondition
from zonequake_protocol.admin import LeaseTrouble, ReplicaRole


def conditions_of(status: dict[str, object]) -> tuple[Condition, ...]:
    """The conditions as the plugin reads them."""
    return parse_conditions(msgspec.convert(status["conditions"], list[WireCondition]))


def found(view: NamespaceView) -> list[ZoneFinding]:
    return findings(view, view.zones[0])


def test_a_healthy_zone_has_no_findings(view: Callable[..., NamespaceView]) -> None:
    assert found(view({0: "abc", 1: "bca"})) == []


def test_partitions_in_the_same_trouble_for_the_same_reason_share_a_sentence(
    view: Callable[..., NamespaceView],
) -> None:
    silent = found(view({0: "abc", 1: "abc", 2: "bac", 3: "abd"}, nodes="abcd", silent="c"))
    assert [(one.severity, one.text, one.why) for one in silent] == [
        (
            Severity.RISK,
            "3 partitions (0-2): 2 of 3 members run: one more loss takes the majority",
            ("c doesn't answer",),
        )
    ]


def test_a_lost_majority_comes_first_and_says_what_brings_it_back(
    view: Callable[..., NamespaceView],
) -> None:
    lost = found(view({0: "abc", 1: "dce"}, nodes="abcde", silent="bc"))
    assert [one.severity for one in lost] == [Severity.LOST, Severity.RISK]
    assert lost[0].text == "partition 0: majority lost, 1 of 3 members run"
    assert lost[0].why == (
        "b doesn't answer",
        "c doesn't answer",
        "it is served again once 1 of them is back; "
        "StrongConsistency is reset by hand alone (zonequake reset z)",
    )


def test_a_lost_majority_in_high_availability_waits_for_its_reset(
    view: Callable[..., NamespaceView],
) -> None:
    spec = {"consistencyMode": "HighAvailability", "partitionDistributionResetTimeout": 7}
    (lost,) = found(view({0: "abc"}, silent="bc", spec=spec))
    assert "or 7 s after they have left it is reset without them" in lost.why[-1]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (
            {"role": ReplicaRole.BROKEN, "broken_reason": "a page is torn"},
            "is broken: a page is torn",
        ),
        ({"role": ReplicaRole.WAITING}, "waits for its start order"),
        ({"incarnation": "2"}, "is back without its data"),
        ({"incarnation": "2", "abstains": True}, "abstains: the partition was reset"),
    ],
)
def test_a_member_that_does_not_serve_is_explained(
    view: Callable[..., NamespaceView], changes: dict[str, object], why: str
) -> None:
    (one,) = found(view({0: "abc"}, changes={(0, "c"): changes}))
    assert one.why[0].startswith(f"c {why}")


def test_nodes_that_may_not_be_asked_are_no_loss(view: Callable[..., NamespaceView]) -> None:
    unheard = dict.fromkeys("abc", "you lack the right to ask it")
    (one,) = found(view({0: "abc"}, silent="abc", unheard=unheard))
    assert one.severity is Severity.WARNING
    assert "No data node could be asked" in one.text
    assert one.why == ("you lack the right to ask it",)


def test_an_operator_that_does_not_run_is_told(view: Callable[..., NamespaceView]) -> None:
    (one,) = found(view({0: "abc"}, operators=0))
    assert one.text.startswith("No operator runs")


def test_what_the_data_nodes_say_newer_is_not_said_again_by_old_conditions(
    view: Callable[..., NamespaceView],
) -> None:
    def condition(of: str, reason: str) -> dict[str, object]:
        return {"type": of, "status": "False", "reason": reason, "message": "Some sentence."}

    stale = {"conditions": [condition("Ready", "PartitionsWithoutLeader")]}
    assert found(view({0: "abc"}, status=stale)) == []
    lasting = {"conditions": [condition("Ready", "InvalidFilter")]}
    (one,) = found(view({0: "abc"}, status=lasting))
    assert one.text == "InvalidFilter: Some sentence."


def stored(zone: ZoneView, **given: object) -> dict[str, object]:
    """A zone's status with the conditions that the operator itself writes of it."""
    assert zone.spec is not None
    arguments: dict[str, object] = {
        "generation": 1,
        "spec": zone.spec,
        "status": zone.zone.status,
        "health": zone.health,
        "filter_problem": None,
        "data_nodes": sorted(zone.data_nodes),
        "retry_threshold": 10,
        "lease_troubles": {},
    }
    conditions = judge(**{**arguments, **given})  # type: ignore[arg-type]
    assert [condition.type for condition in conditions] == list(ConditionType)
    return {"conditions": msgspec.to_builtins(render_conditions(conditions, 1, {}, 0))}


@pytest.mark.parametrize("silent", ["", "abc"])
def test_a_condition_that_is_well_is_no_finding_whichever_status_that_is(
    view: Callable[..., NamespaceView], silent: str
) -> None:
    well = view({0: "abc"})
    assert all(condition.is_well for condition in conditions_of(stored(well.zones[0])))
    texts = [
        one.text for one in found(view({0: "abc"}, silent=silent, status=stored(well.zones[0])))
    ]
    assert texts == [text for text in texts if text.startswith("No data node could be asked")]


@pytest.mark.parametrize("of", ConditionType)
def test_each_condition_that_is_not_well_is_a_finding_where_no_report_is_newer(
    view: Callable[..., NamespaceView], of: ConditionType
) -> None:
    well = view({0: "abc"})
    status = stored(well.zones[0])
    (one,) = [each for each in status["conditions"] if each["type"] == of]  # type: ignore[attr-defined]
    one["status"] = "False" if one["status"] == "True" else "True"
    texts = [each.text for each in found(view({0: "abc"}, silent="abc", status=status))]
    assert any(one["message"] in text for text in texts)


def test_a_zone_that_moves_or_begins_is_no_warning(view: Callable[..., NamespaceView]) -> None:
    moving = view({0: "abc"}, keys={0: {"pending": {"nodes": ["a", "b"]}}})
    fresh = view({0: "abc"}, keys={0: {"bootstrap": None}})
    for zone in (moving.zones[0], fresh.zones[0]):
        status = stored(zone)
        shown = found(view({0: "abc"}, silent="abc", status=status))
        said = [one for one in shown if not one.text.startswith("No data node")]
        assert said
        assert {one.severity for one in said} == {Severity.NOTE}


def test_whom_a_lost_majority_waits_for_is_said_as_the_operator_has_it(
    view: Callable[..., NamespaceView],
) -> None:
    message = "1 partitions have lost their majority: 0. Partition 0 waits for b: c is empty."
    condition = {"type": "DataAtRisk", "status": "True", "reason": "MajorityLost"}
    status = {"conditions": [{**condition, "message": message}]}
    texts = [one.text for one in found(view({0: "abc"}, silent="bc", status=status))]
    assert "Partition 0 waits for b: c is empty." in texts
    assert not any("1 partitions have lost" in text for text in texts)


def in_trouble(view: NamespaceView, node: str, trouble: LeaseTrouble) -> NamespaceView:
    report = view.reports[node]
    said = with_fields(
        report.node,
        lease_trouble=trouble,
        lease_problem="Cannot connect",
        lease_unrenewed_since_ms=view.now_ms - 12_000,
    )
    return replace(view, reports={**view.reports, node: with_fields(report, node=said)})


@pytest.mark.parametrize(
    ("trouble", "means"),
    [
        (LeaseTrouble.EXPIRED, "acknowledges nothing"),
        (LeaseTrouble.NOT_RENEWED, "will soon acknowledge nothing"),
    ],
)
def test_a_node_whose_lease_is_in_trouble_puts_high_availability_zones_at_risk(
    view: Callable[..., NamespaceView], trouble: LeaseTrouble, means: str
) -> None:
    available = view({0: "abc"}, spec={"consistencyMode": "HighAvailability"})
    (one,) = found(in_trouble(available, "b", trouble))
    assert one == ZoneFinding(
        severity=Severity.RISK,
        text=f"b {means} of HighAvailability zones: its Lease is unrenewed for 12 s",
        why=("Cannot connect",),
    )
    assert found(in_trouble(view({0: "abc"}), "b", trouble)) == [], "no Lease is needed there"


def test_a_node_that_was_fenced_and_answers_has_left_for_that_reason(
    view: Callable[..., NamespaceView],
) -> None:
    seen = in_trouble(
        view({0: "abc"}, spec={"consistencyMode": "HighAvailability"}), "c", LeaseTrouble.EXPIRED
    )
    topology = seen.topology
    left = {name: node for name, node in topology.nodes.items() if name != "c"}
    fenced = replace(
        seen,
        topology=replace(topology, nodes=left, departed={"c": Departure(since=1, left=2)}),
    )
    assert why_missing(fenced, fenced.zones[0], 0, "c") == (
        "has left: it answers, but its Lease ran out"
    )


def test_many_partitions_are_named_by_ranges_and_the_rest_is_counted() -> None:
    assert partitions_text([3]) == "partition 3"
    assert partitions_text([0, 1, 2, 7]) == "4 partitions (0-2, 7)"
    text = partitions_text(range(0, 40, 2))
    assert text == "20 partitions (0, 2, 4, 6, 8, 10, 12, 14 and 12 more)"


def test_a_single_copy_of_several_that_are_wanted_is_a_risk(
    view: Callable[..., NamespaceView],
) -> None:
    (one,) = found(view({0: "a"}, spec={"replicas": 3}))
    assert one.severity is Severity.RISK
    assert one.text == "partition 0: 1 of 3 wanted replicas: if a is lost, all data is lost"
    assert found(view({0: "a"}, spec={"replicas": 1})) == []


def test_many_replicas_that_are_broken_each_in_its_way_share_a_sentence(
    view: Callable[..., NamespaceView],
) -> None:
    def seen(count: int) -> list[ZoneFinding]:
        broken = {
            (n, "c"): {"role": ReplicaRole.BROKEN, "broken_reason": f"record {n}"}
            for n in range(count)
        }
        return found(view(dict.fromkeys(range(count), "abc"), changes=broken))

    assert len(seen(3)) == 3
    (one,) = seen(40)
    assert one.text.startswith("40 partitions (0-39): 2 of 3 members run")
    assert one.why == (
        "c is broken: record 0",
        "reported by partition 0; the others differ in details",
    )


def test_the_same_trouble_on_many_sets_of_nodes_keeps_to_a_screen(
    view: Callable[..., NamespaceView],
) -> None:
    pairs = [f"a{x}{y}" for x in "bcdefg" for y in "bcdefg" if x < y]
    seen = found(view(dict(enumerate([*pairs, *pairs[:3]])), nodes="abcdefg", silent="bcdefg"))
    assert len(seen) == 6
    assert all(one.text.endswith("majority lost, 1 of 3 members run") for one in seen)
    assert seen[0].text.startswith("2 partitions")
    assert seen[-1].text.startswith("10 partitions")
    assert seen[-1].why == ("the same, with other nodes",)


def test_a_spec_that_no_operator_has_seen_is_said_to_be_unseen(
    view: Callable[..., NamespaceView],
) -> None:
    (one,) = found(view({0: "abc"}, status={"observedGeneration": 0}))
    assert one.severity is Severity.NOTE
    assert one.text == "The operator has not processed the spec yet (generation 1)"


def test_a_namespace_whose_nodes_have_all_left_says_what_the_operator_knew_last(
    view: Callable[..., NamespaceView],
) -> None:
    condition = {"type": "DataAtRisk", "status": "True", "reason": "MajorityLost"}
    status = {"conditions": [{**condition, "message": "1 partitions have lost their majority: 0."}]}
    lost, unasked = found(view({0: "abc"}, nodes="", status=status))
    assert lost.severity is Severity.LOST
    assert lost.text == "MajorityLost: 1 partitions have lost their majority: 0."
    assert "No data node could be asked" in unasked.text


def test_a_majority_that_came_back_with_nothing_is_not_promised_to_serve_again(
    view: Callable[..., NamespaceView],
) -> None:
    message = "1 partitions have lost their majority: 0. Partition 0 can only be reset by hand: b."
    condition = {"type": "DataAtRisk", "status": "True", "reason": "MajorityLost"}
    seen = view(
        {0: "abc"},
        spec={"storage": "Volatile"},
        status={"conditions": [{**condition, "message": message}]},
        changes={(0, "a"): {"role": ReplicaRole.FOLLOWER, "leader": None}},
        without=[(0, "b"), (0, "c")],
    )
    (lost,) = found(seen)
    assert lost.severity is Severity.LOST
    assert lost.why[0] == "b came back with nothing"
    assert lost.why[-1] == (
        "only 1 of 3 members can still have its data, fewer than a majority: it doesn't come back "
        "by itself, unless the others lose theirs too and it starts over, empty; "
        "StrongConsistency is reset by hand alone (zonequake reset z)"
    )


CHAIN = {"chain": [{"nodes": list("abc"), "term": 1, "index": 5}, {"nodes": ["a"], "token": 3}]}
STOPPED = {
    (0, node): {"role": ReplicaRole.WAITING, "configuration": None, "leader": None}
    for node in "abc"
}


def all_stopped(view: Callable[..., NamespaceView], **more: object) -> NamespaceView:
    spec = {"consistencyMode": "HighAvailability"}
    keys = {0: {**CHAIN, "stable": {"nodes": ["a"]}}}
    return view({0: "abc"}, spec=spec, keys=keys, changes=STOPPED, **more)


def test_a_stopped_group_whose_replicas_were_not_asked_says_that_it_rests_on_them(
    view: Callable[..., NamespaceView],
) -> None:
    (lost,) = found(all_stopped(view))
    assert lost.why[-1] == (
        "it depends on the data of replicas that wait for their start order (a, b, c)"
    )


def test_a_stopped_group_whose_chain_waits_for_a_node_says_for_whom(
    view: Callable[..., NamespaceView],
) -> None:
    seen = all_stopped(view, nodes="bc")
    looked_at = {n: {"z.12345678.0": seen.zones[0].groups[0].replicas[n]} for n in "bc"}
    (lost, *_) = found(replace(seen, inspected=looked_at))
    assert "The partition waits for 1 more of a to report" in lost.why[-1]
    assert "served again" not in " ".join(lost.why)

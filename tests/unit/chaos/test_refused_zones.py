"""When waiting for a zone is hopeless, by what the operator says of it."""

from __future__ import annotations

from typing import Any

from tests.unit.made_up_nodes import node_identity
from zonequake_chaos.observe.view import ClusterView, NodeView
from zonequake_kube.objects import PodView
from zonequake_protocol.admin import ReplicasReport
from zonequake_target_store.zones import refusal

FILTER = '$[?(@.disk == "gold")]'


def view(*names: str) -> ClusterView:
    return ClusterView(
        at_ns=0,
        began_ns=0,
        nodes={name: NodeView(pod=pod(name), report=report(name)) for name in names},
        partitions={},
    )


def pod(name: str) -> PodView:
    return PodView(
        name=name,
        uid="u",
        pool="default",
        ready=True,
        phase="Running",
        deleting=False,
        container="store",
        restarts=0,
    )


def report(name: str) -> ReplicasReport:
    return ReplicasReport(
        node=node_identity(name),
        replicas=[],
    )


def zone(reason: str, *, status: str = "False", waiting: list[str] | None = None) -> dict[str, Any]:
    return {
        "spec": {"dataNodesFilter": FILTER},
        "status": {
            "scaleUp": {"nodes": waiting or []},
            "conditions": [
                {"type": "Ready", "status": status, "reason": reason, "message": "The words."}
            ],
        },
    }


def topology(*names: str) -> dict[str, Any]:
    return {"status": {"nodes": [{"name": name, "attributes": {"disk": "hdd"}} for name in names]}}


def test_a_filter_that_matches_no_known_node_is_hopeless() -> None:
    why = refusal(zone("NoDataNodes"), topology("a", "b"), view("a", "b"))
    assert (
        why == 'The words. The nodes and their attributes are: a {"disk": "hdd"}, b {"disk": "hdd"}'
    )


def test_a_filter_or_spec_that_cant_be_read_is_hopeless_with_the_operators_words() -> None:
    for reason in ("InvalidFilter", "InvalidSpec"):
        assert refusal(zone(reason), topology(), view("a")) == "The words."


def test_there_is_hope_while_the_operator_does_not_know_every_node_that_answers() -> None:
    assert refusal(zone("NoDataNodes"), topology("a"), view("a", "b")) == ""


def test_there_is_hope_while_a_node_waits_for_its_timer() -> None:
    assert refusal(zone("NoDataNodes", waiting=["b"]), topology("a", "b"), view("a", "b")) == ""


def test_there_is_hope_for_a_zone_that_only_starts_and_for_one_that_was_not_looked_at() -> None:
    assert refusal(zone("Starting"), topology("a"), view("a")) == ""
    assert refusal(zone("NoDataNodes", status="True"), topology("a"), view("a")) == ""
    assert refusal({"spec": {"dataNodesFilter": FILTER}}, topology("a"), view("a")) == ""

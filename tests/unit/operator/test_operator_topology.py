"""Who joins and who leaves, by evidence only."""

from __future__ import annotations

import pytest

from tests.unit.made_up_nodes import node_identity
from zonequake_operator.nodes.topology import Pod, advance
from zonequake_operator.resources.model import Departure, Topology
from zonequake_protocol.admin import NodeIdentity

WANTED = {"zq-default": 2}


def identity(process: str = "p1", pod: str = "u1", name: str = "zq-default-0") -> NodeIdentity:
    return node_identity(
        name,
        process_incarnation=process,
        pod_uid=pod,
        attributes={"a": "b"},
        peer_address="x:7001",
        client_address="x:7002",
    )


def pod(
    uid: str = "u1", *, terminated: bool = False, restarts: int = 0, name: str = "zq-default-0"
) -> Pod:
    return Pod(
        name=name, uid=uid, ip="1.2.3.4", machine="m", terminated=terminated, restarts=restarts
    )


def known() -> Topology:
    found = advance(
        Topology(),
        identities={"zq-default-0": identity()},
        pods={"zq-default-0": pod()},
        wanted=WANTED,
    )
    assert found.version == 1
    assert found.nodes["zq-default-0"].since == 1
    return found


def test_an_unchanged_round_changes_nothing() -> None:
    before = known()
    answered = {"zq-default-0": identity()}
    pods = {"zq-default-0": pod()}
    assert advance(before, identities=answered, pods=pods, wanted=WANTED) == before


@pytest.mark.parametrize(
    ("why", "pods", "wanted", "lost", "stays"),
    [
        ("silence proves nothing", {"zq-default-0": pod()}, WANTED, (), True),
        ("a vanished pod object alone proves nothing", {}, WANTED, (), True),
        ("its ordinal isn't wanted any more", {}, {"zq-default": 0}, (), False),
        ("its pool is gone", {}, {}, (), False),
        ("its container ended", {"zq-default-0": pod(terminated=True)}, WANTED, (), False),
        ("its container was restarted", {"zq-default-0": pod(restarts=1)}, WANTED, (), False),
        ("its machine is gone", {"zq-default-0": pod()}, WANTED, ("m",), False),
        ("its successor hasn't spoken yet", {"zq-default-0": pod("u2")}, WANTED, (), True),
        ("its successor ended", {"zq-default-0": pod("u2", terminated=True)}, WANTED, (), True),
    ],
)
def test_a_silent_node_leaves_only_by_evidence(
    why: str, pods: dict[str, Pod], wanted: dict[str, int], lost: tuple[str, ...], stays: bool
) -> None:
    after = advance(known(), identities={}, pods=pods, wanted=wanted, lost_machines=frozenset(lost))
    assert ("zq-default-0" in after.nodes) == stays, why
    assert after.version == (1 if stays else 2), why
    assert after.departed == ({} if stays else {"zq-default-0": Departure(since=1, left=2)}), why


def test_a_successor_is_leave_and_join_in_one_version() -> None:
    after = advance(
        known(),
        identities={"zq-default-0": identity("p2", "u2")},
        pods={"zq-default-0": pod("u2")},
        wanted=WANTED,
    )
    assert after.version == 2
    assert after.nodes["zq-default-0"].since == 2
    assert after.nodes["zq-default-0"].process_incarnation == "p2"
    assert after.departed == {"zq-default-0": Departure(since=1, left=2)}


def test_a_late_status_of_its_predecessor_is_no_leave() -> None:
    running = {"zq-default-0": pod()}
    successor = {"zq-default-0": identity("p2")}
    after = advance(known(), identities=successor, pods=running, wanted=WANTED)
    for shown in (pod(terminated=True), pod(restarts=1)):
        pods = {"zq-default-0": shown}
        assert advance(after, identities={}, pods=pods, wanted=WANTED) == after
    ended = {"zq-default-0": pod(terminated=True, restarts=1)}
    assert not advance(after, identities={}, pods=ended, wanted=WANTED).nodes


def test_a_late_restart_count_of_the_same_process_is_no_leave() -> None:
    pods = {"zq-default-0": pod(restarts=1)}
    after = advance(known(), identities={"zq-default-0": identity()}, pods=pods, wanted=WANTED)
    assert after.version == 1
    silent = advance(after, identities={}, pods=pods, wanted=WANTED)
    assert silent == after


def test_an_answer_older_than_its_container_s_end_is_no_join() -> None:
    after = advance(
        Topology(),
        identities={"zq-default-0": identity()},
        pods={"zq-default-0": pod(terminated=True)},
        wanted=WANTED,
    )
    assert after == Topology()

"""Who has left by a Lease: not before it is fenced, and not by an API server that was away."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from tests.unit.operator.test_operator_topology import WANTED, identity, known, pod
from zonequake_operator.errors import KubeConflict, KubeError, KubeNotFound
from zonequake_operator.fleet.fencing import DELETE_AGAIN_S, FENCED, Fencing
from zonequake_operator.groups.reports import Group
from zonequake_operator.nodes.topology import Pod, advance, to_delete, to_fence
from zonequake_operator.rebalance.orders import ReplicaSettings, orders
from zonequake_operator.resources.leases import Lease, LeaseSession, Renewals
from zonequake_operator.resources.model import (
    AssignmentSet,
    AssignmentsLink,
    PartitionKeys,
    Topology,
)
from zonequake_protocol.admin import ReplicaRole, ReplicaStatus, StartReplica

NODE = "zq-default-0"


def lease(
    *, holder: str = "p1", session: int = 1, fenced: str | None = None, version: str = "1"
) -> Lease:
    return Lease(
        name=NODE,
        holder=holder,
        session=session,
        fenced=fenced,
        duration_s=8,
        resource_version=version,
    )


def run_out(looks_s: list[float], versions: list[str] | None = None) -> frozenset[str]:
    renewals = Renewals()
    for place, now_s in enumerate(looks_s):
        version = versions[place] if versions else "1"
        renewals.looked({NODE: lease(version=version)}, now_s)
    return renewals.run_out


def test_a_lease_that_is_read_alone_is_renewed_by_that_and_grows_no_older() -> None:
    renewals = Renewals()
    for now_s in every(0.5, 4.5):
        renewals.looked({NODE: lease(version="1")}, now_s)
        renewals.looked_at({NODE: lease(version="1")})
    assert renewals.run_out == frozenset()
    renewals.looked_at({NODE: lease(version="2")})
    for now_s in every(0.5, 4.5):
        renewals.looked({NODE: lease(version="2")}, 5.0 + now_s)
    assert renewals.run_out == frozenset(), "it was renewed at 4.5"


def every(period_s: float, until_s: float) -> list[float]:
    return [period_s * n for n in range(int(until_s / period_s) + 1)]


def test_a_lease_has_run_out_a_quarter_after_its_duration_since_its_renewal_was_seen() -> None:
    assert run_out(every(0.5, 10.0)) == frozenset()
    assert run_out(every(0.5, 10.5)) == {NODE}


def test_each_renewal_begins_anew() -> None:
    looks = every(0.5, 20.0)
    assert run_out(looks, [str(n // 20) for n in range(len(looks))]) == frozenset()


def test_time_in_which_the_operator_could_not_look_does_not_count() -> None:
    """Else the first look after an outage of the API server would give up every node."""
    assert run_out([0.0, 0.5, 600.0, 600.5]) == frozenset()
    assert run_out([0.0, 0.5, 600.0, *(600.0 + s for s in every(0.5, 8.5))]) == {NODE}


def fences(
    leases: dict[str, Lease],
    *,
    pods: dict[str, Pod] | None = None,
    process: str | None = None,
    gone: bool = False,
) -> frozenset[str]:
    return to_fence(
        known(),
        identities={NODE: identity(process)} if process else {},
        pods={NODE: pod()} if pods is None else pods,
        lost_machines=frozenset(),
        leases=leases,
        run_out=frozenset({NODE}) if gone else frozenset(),
    )


@pytest.mark.parametrize(
    ("why", "due", "expected"),
    [
        ("it is renewed", fences({NODE: lease()}), False),
        ("it has run out", fences({NODE: lease()}, gone=True), True),
        ("it answers us, but not the API server", fences({NODE: lease()}, gone=True, process="p1"),
         True),
        ("its container ended", fences({NODE: lease()}, pods={NODE: pod(terminated=True)}), True),
        ("its pod object vanished", fences({NODE: lease()}, pods={}), False),
        ("its successor answers", fences({NODE: lease()}, gone=True, process="p2"), False),
        ("it is fenced already", fences({NODE: lease(fenced="x")}, gone=True), False),
        ("it was given back", fences({NODE: lease(holder="")}, gone=True), False),
        ("it is of the process before", fences({NODE: lease(holder="p0")}, gone=True), False),
    ],
)  # fmt: skip
def test_who_is_fenced(why: str, due: frozenset[str], expected: bool) -> None:
    assert (due == {NODE}) == expected, why


def after(
    leases: dict[str, Lease],
    *,
    before: Topology | None = None,
    process: str | None = None,
    pods: dict[str, Pod] | None = None,
    wanted: dict[str, int] | None = None,
) -> Topology:
    return advance(
        known() if before is None else before,
        identities={NODE: identity(process)} if process else {},
        pods={NODE: pod()} if pods is None else pods,
        wanted=WANTED if wanted is None else wanted,
        leases=leases,
    )


def test_who_is_fenced_has_left_also_while_it_answers() -> None:
    assert not after({NODE: lease(fenced="x")}).nodes
    assert not after({NODE: lease(fenced="x")}, process="p1").nodes


@pytest.mark.parametrize("process", [None, "p1"])
@pytest.mark.parametrize("shown", [pod(), pod(terminated=True)], ids=["runs", "ended"])
def test_a_fence_of_a_session_before_the_topologys_proves_nothing(
    process: str | None, shown: Pod
) -> None:
    """Another operator let it join with its next one, and our Leases are older than that."""
    before = known()
    node = replace(before.nodes[NODE], lease_session=2)
    before = replace(before, nodes={NODE: node})
    pods = {NODE: shown}
    older = after({NODE: lease(fenced="x")}, before=before, process=process, pods=pods)
    assert older == before
    fenced = lease(session=2, fenced="x")
    assert not after({NODE: fenced}, before=before, process=process, pods=pods).nodes


def test_who_answers_from_its_next_session_joins_though_our_lease_is_older() -> None:
    answer = identity("p1")
    answer = structs.replace(answer, lease_session=2)
    left = after({NODE: lease(fenced="x")})
    joined = advance(
        left,
        identities={NODE: answer},
        pods={NODE: pod()},
        wanted=WANTED,
        leases={NODE: lease(fenced="x")},
    )
    assert joined.nodes[NODE].lease_session == 2


def test_no_node_leaves_whose_lease_is_not_fenced_whatever_else_is_seen() -> None:
    gone = {"pods": {NODE: pod(terminated=True)}}
    assert after({NODE: lease()}, **gone).nodes  # type: ignore[arg-type]
    assert after({NODE: lease()}, pods={}, wanted={}).nodes
    assert not after({NODE: lease(holder="")}, **gone).nodes  # type: ignore[arg-type]


def test_who_was_fenced_joins_again_with_its_next_session_and_not_before() -> None:
    left = after({NODE: lease(fenced="x")})
    assert left.version == 2
    still = after({NODE: lease(fenced="x")}, before=left, process="p1")
    assert still == left
    again = after({NODE: lease(session=2)}, before=left, process="p1")
    assert again.nodes[NODE].since == 3
    released = after({NODE: lease(holder="")}, before=left, process="p1")
    assert released.nodes[NODE].since == 3


def test_a_successor_joins_whatever_became_of_the_lease_of_the_process_before() -> None:
    for found in (lease(), lease(fenced="x"), lease(holder="p2")):
        joined = after({NODE: found}, process="p2")
        assert joined.nodes[NODE].process_incarnation == "p2"


def deletes(
    found: Lease,
    *,
    pods: dict[str, Pod] | None = None,
    wanted: dict[str, int] | None = None,
    before: Topology | None = None,
    gone: bool = False,
) -> bool:
    due = to_delete(
        Topology(version=2) if before is None else before,
        pods={} if pods is None else pods,
        wanted={"zq-default": 0} if wanted is None else wanted,
        leases={NODE: found},
        run_out=frozenset({NODE}) if gone else frozenset(),
    )
    return due == {NODE}


@pytest.mark.parametrize(
    ("why", "due", "expected"),
    [
        ("it was fenced", deletes(lease(fenced="x")), True),
        ("its pool is gone", deletes(lease(fenced="x"), wanted={}), True),
        ("it was given back", deletes(lease(holder="")), True),
        ("it has run out, and nobody is there to be fenced", deletes(lease(), gone=True), True),
        ("it may be acted on", deletes(lease()), False),
        ("its node hasn't left yet", deletes(lease(fenced="x"), before=known()), False),
        ("it is wanted again", deletes(lease(fenced="x"), wanted=WANTED), False),
        ("its pod is there", deletes(lease(fenced="x"), pods={NODE: pod()}), False),
    ],
)
def test_whose_lease_is_deleted(why: str, due: bool, expected: bool) -> None:
    assert due == expected, why


class FakeLeases:
    """One Lease object."""

    refuses: KubeError | None = None

    def __init__(self) -> None:
        self.object: dict[str, Any] = {
            "metadata": {"name": NODE, "uid": "u", "resourceVersion": "1", "labels": {"a": "b"}},
            "spec": {"holderIdentity": "p1", "leaseTransitions": 1, "leaseDurationSeconds": 8},
        }

    async def delete_lease(self, name: str, *, uid: str, resource_version: str) -> None:
        if self.refuses is not None:
            raise self.refuses
        assert name == NODE
        if not self.object:
            return
        metadata = self.object["metadata"]
        if (uid, resource_version) != (metadata["uid"], metadata["resourceVersion"]):
            raise KubeConflict("DELETE", 409, "the precondition failed")
        self.object = {}

    async def list_leases(self) -> list[dict[str, Any]]:
        return [self.object]

    async def replace_lease(self, body: dict[str, Any]) -> dict[str, Any]:
        if not self.object:
            raise KubeNotFound("PUT", 404, "there is none")
        if body["metadata"]["resourceVersion"] != self.object["metadata"]["resourceVersion"]:
            raise KubeConflict("PUT", 409, "the object has been modified")
        metadata = {**body["metadata"], "resourceVersion": "9"}
        self.object = {**body, "metadata": metadata}
        return self.object


async def test_a_fence_takes_the_lease_over_and_leaves_the_rest_of_it() -> None:
    api = FakeLeases()
    fencing = Fencing(api, monotonic_s=lambda: 0.0)  # type: ignore[arg-type]
    await fencing.look()
    await fencing.fence([NODE], "counted as left")
    assert api.object["metadata"]["annotations"] == {FENCED: "counted as left"}
    assert api.object["metadata"]["labels"] == {"a": "b"}
    assert fencing.leases[NODE].is_fenced_for("p1")


async def test_who_renewed_since_we_looked_is_not_fenced() -> None:
    api = FakeLeases()
    fencing = Fencing(api, monotonic_s=lambda: 0.0)  # type: ignore[arg-type]
    await fencing.look()
    api.object = {**api.object, "metadata": {**api.object["metadata"], "resourceVersion": "2"}}
    await fencing.fence([NODE], "counted as left")
    assert FENCED not in api.object["metadata"].get("annotations", {})
    assert fencing.leases[NODE].is_live_for("p1")


async def test_a_lease_is_deleted_as_it_was_read() -> None:
    api = FakeLeases()
    fencing = Fencing(api, monotonic_s=lambda: 0.0)  # type: ignore[arg-type]
    await fencing.look()
    await fencing.delete([NODE])
    assert (api.object, fencing.leases) == ({}, {})


@pytest.mark.parametrize("changed", [{"resourceVersion": "2"}, {"uid": "another"}])
async def test_a_lease_that_was_written_or_made_again_meanwhile_stays(
    changed: dict[str, str],
) -> None:
    api = FakeLeases()
    fencing = Fencing(api, monotonic_s=lambda: 0.0)  # type: ignore[arg-type]
    await fencing.look()
    api.object = {**api.object, "metadata": {**api.object["metadata"], **changed}}
    await fencing.delete([NODE])
    assert api.object
    assert NODE in fencing.leases


async def test_a_deletion_that_is_refused_fails_no_round_and_is_tried_again_later() -> None:
    """As by an operator whose Role doesn't allow it yet."""
    api, now_s = FakeLeases(), 7.0
    fencing = Fencing(api, monotonic_s=lambda: now_s)  # type: ignore[arg-type]
    await fencing.look()
    assert fencing.may_delete
    api.refuses = KubeError("DELETE", 403, "forbidden")
    await fencing.delete([NODE])
    assert not fencing.may_delete
    now_s += DELETE_AGAIN_S
    assert fencing.may_delete


async def test_two_operators_that_fence_and_delete_one_lease_do_no_harm() -> None:
    """One of them has an older view of it, whichever is first."""
    api = FakeLeases()
    one, other = (Fencing(api, monotonic_s=lambda: 0.0) for _ in range(2))  # type: ignore[arg-type]
    await one.look()
    await other.look()
    await one.fence([NODE], "counted as left")
    await other.delete([NODE])
    assert FENCED in api.object["metadata"]["annotations"], "the older view deletes nothing"
    await other.look()
    await other.delete([NODE])
    assert not api.object
    await one.fence([NODE], "once more")
    await one.delete([NODE])
    assert not api.object, "nor does it bring anything back"


# ── permission ───────────────────────────────────────────────────────────────────────────────────

HA = ReplicaSettings(
    zone="z",
    partition=0,
    partitions=1,
    fsync=True,
    catch_up_bytes_per_second=0,
    addresses={},
    needs_lease=True,
    sessions={"A": LeaseSession(holder="p", number=3)},
)
FORCED = PartitionKeys(
    stable=AssignmentSet.of("A", "B"),
    pending=AssignmentSet(nodes=("B",), force=True),
    configuration_token=9,
)
RESET = PartitionKeys(
    stable=AssignmentSet.of("A", "B"),
    configuration_token=11,
    chain=(
        AssignmentsLink(nodes=("A", "B"), term=1, index=1),
        AssignmentsLink(nodes=("B",), term=9_000_000_002, index=5, token=9),
    ),
)


def permissions(
    settings: ReplicaSettings, keys: PartitionKeys, session: int, rate: int | None = None
) -> list[StartReplica]:
    replica = ReplicaStatus(
        group="g",
        zone="z",
        partition=0,
        incarnation="i",
        role=ReplicaRole.FOLLOWER,
        term=1,
        token=11,
        needs_lease=True,
        permitted_session=session,
        catch_up_bytes_per_second=rate,
        enforced_lineage=9,
    )
    told = orders(
        keys,
        Group(name="g", replicas={"A": replica}),
        settings,
        alive=frozenset("AB"),
        reachable=frozenset("A"),
    )
    return [order for node, order in told if node == "A" and isinstance(order, StartReplica)]


@pytest.mark.parametrize("session", [0, 2])
def test_a_replica_is_permitted_in_each_session_of_its_node_with_the_newest_lineage(
    session: int,
) -> None:
    for keys in (FORCED, RESET):
        orders_to_start = permissions(HA, keys, session)
        assert len(orders_to_start) == 1
        order = orders_to_start[0]
        assert (order.needs_lease, order.lease_session, order.enforced_token) == (True, 3, 9)
        assert order.lease_holder == "p", "another process may count its sessions anew"


def test_no_node_is_permitted_twice_nor_without_a_session_nor_where_none_is_needed() -> None:
    assert not permissions(HA, RESET, 3)
    assert not permissions(replace(HA, sessions={}), RESET, 0)
    assert not permissions(replace(HA, needs_lease=False), RESET, 0)


def test_a_survivor_hears_of_a_new_catch_up_rate_only_when_its_reset_is_over() -> None:
    limited = replace(HA, catch_up_bytes_per_second=500)
    survives = replace(FORCED, pending=AssignmentSet(nodes=("A",), force=True))
    assert not permissions(limited, survives, 3, rate=0)
    (order,) = permissions(limited, RESET, 3, rate=0)
    assert order.catch_up_bytes_per_second == 500

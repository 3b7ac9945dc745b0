"""Each rule of the operator about Leases (docs/leases.md), taken out: some test notices.

The data nodes' rules: `tests/unit/store/test_lease_rules_taken_out.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.operator import test_operator_fencing as fencing
from tests.unit.operator import test_operator_leases as judged
from tests.unit.operator import test_operator_reset as resets
from tests.unit.operator import test_operator_topology as topologies
from zonequake_operator.controller import reconciler
from zonequake_operator.fleet import fleet, membership
from zonequake_operator.fleet.fencing import Fencing
from zonequake_operator.fleet.pods import PodEvidence
from zonequake_operator.high_availability import reset_orders
from zonequake_operator.nodes import topology
from zonequake_operator.rebalance import orders
from zonequake_operator.resources import leases
from zonequake_operator.resources.leases import Lease
from zonequake_operator.resources.model import Topology

Patch = pytest.MonkeyPatch


def time_that_counts_though_the_operator_did_not_look(patch: Patch) -> None:
    patch.setattr(leases, "LOOKED_SHARE", 1e9)


def leases_that_run_out_at_once_with_their_duration(patch: Patch) -> None:
    patch.setattr(leases, "RUN_OUT", 1.0)


def no_node_is_fenced(patch: Patch) -> None:
    async def fence(of: Fencing, names: Iterable[str], why: str) -> None:
        of.leases = {n: replace(x, fenced=why) if n in names else x for n, x in of.leases.items()}

    patch.setattr(Fencing, "fence", fence)


def a_fence_that_is_refused_counts(patch: Patch) -> None:
    fence = Fencing.fence

    async def all_the_same(of: Fencing, names: Iterable[str], why: str) -> None:
        await fence(of, names, why)
        of.leases = {n: replace(x, fenced=why) if n in names else x for n, x in of.leases.items()}

    patch.setattr(Fencing, "fence", all_the_same)


def left_without_a_fence(patch: Patch) -> None:
    patch.setattr(topology, "_was_taken", lambda *_: True)


def a_fence_of_any_session_counts(patch: Patch) -> None:
    patch.setattr(
        topology,
        "_was_taken",
        lambda lease, node: lease.is_fenced_for(node.process_incarnation),
    )


def the_fenced_join_at_once(patch: Patch) -> None:
    patch.setattr(Lease, "is_fenced_for", lambda *_: False)


def leases_that_are_not_looked_at_again(patch: Patch) -> None:
    patch.setattr(membership, "have_leases", lambda _: False)


def a_late_word_of_the_kubelet_is_believed(patch: Patch) -> None:
    patch.setattr(topology, "_restarts", lambda _, pod, __: pod.restarts if pod else 0)


def a_topology_that_is_not_read_again(patch: Patch) -> None:
    patch.setattr(membership, "_may_lack", lambda *_: False)


def permitted_once_for_all_sessions(patch: Patch) -> None:
    patch.setattr(orders, "_lacks_permission", lambda *_: False)


def keys_that_are_not_read_behind_the_session(patch: Patch) -> None:
    patch.setattr(fleet, "sessions_of", lambda *_: {})


def permitted_in_sessions_that_the_topology_does_not_know(patch: Patch) -> None:
    patch.setattr(
        fleet,
        "sessions_of",
        lambda reports, _: {
            name: leases.LeaseSession(
                holder=report.node.process_incarnation, number=report.node.lease_session
            )
            for name, report in reports.items()
        },
    )


def the_next_session_is_not_written(patch: Patch) -> None:
    patch.setattr(topology, "_refresh", lambda known, *_: known)


def sessions_told_apart_by_their_numbers(patch: Patch) -> None:
    sessions_of = topology.sessions_of
    patch.setattr(
        fleet,
        "sessions_of",
        lambda *seen: {n: replace(s, holder="") for n, s in sessions_of(*seen).items()},
    )


def a_reset_that_waits_for_no_node_to_know(patch: Patch) -> None:
    patch.setattr(reset_orders, "_untold", lambda *_: frozenset())


def a_reset_that_is_judged_by_older_reports(patch: Patch) -> None:
    patch.setattr(reconciler, "_begins_reset", lambda *_: False)


def leases_of_wanted_nodes_are_deleted(patch: Patch) -> None:
    patch.setattr(topology, "_is_wanted", lambda *_: False)


def deleted_by_the_pods_of_before(patch: Patch) -> None:
    async def not_listed(_: PodEvidence, **__: object) -> None:
        """The pods stay as they were seen."""

    listed = membership.Membership._delete_leases

    async def delete(of: membership.Membership, after: Topology, in_round: int) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(PodEvidence, "list", not_listed)
            await listed(of, after, in_round)

    patch.setattr(membership.Membership, "_delete_leases", delete)


def a_fenced_node_that_answers_is_fine(patch: Patch) -> None:
    patch.setattr(leases, "troubles", lambda *_: {})


def ran(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    return lambda: asyncio.run(test())


def test_whose_lease_is_wanted() -> None:
    assert not judged.deletes(judged.lease(fenced="x"), wanted=topologies.WANTED)


FENCE_FIRST = ran(fencing.test_a_node_is_fenced_before_the_topology_is_written_without_it)
NEXT_SESSION = ran(fencing.test_no_node_is_permitted_in_a_session_before_the_topology_has_it)
RULES: list[tuple[Callable[[Patch], None], Callable[[], None]]] = [
    (time_that_counts_though_the_operator_did_not_look,
     judged.test_time_in_which_the_operator_could_not_look_does_not_count),
    (leases_that_run_out_at_once_with_their_duration,
     judged.test_a_lease_has_run_out_a_quarter_after_its_duration_since_its_renewal_was_seen),
    (no_node_is_fenced, FENCE_FIRST),
    (a_fence_that_is_refused_counts,
     ran(fencing.test_a_node_whose_fence_is_refused_stays_in_the_topology)),
    (left_without_a_fence,
     judged.test_no_node_leaves_whose_lease_is_not_fenced_whatever_else_is_seen),
    (a_fence_of_any_session_counts,
     lambda: judged.test_a_fence_of_a_session_before_the_topologys_proves_nothing(
         "p1", topologies.pod())),
    (the_fenced_join_at_once,
     judged.test_who_was_fenced_joins_again_with_its_next_session_and_not_before),
    (leases_that_are_not_looked_at_again,
     ran(fencing.test_a_lease_that_began_while_nodes_were_heard_is_fenced_first)),
    (a_late_word_of_the_kubelet_is_believed,
     topologies.test_a_late_status_of_its_predecessor_is_no_leave),
    (a_topology_that_is_not_read_again,
     ran(fencing.test_a_session_that_the_kept_topology_does_not_know_makes_it_read_again)),
    (permitted_once_for_all_sessions,
     lambda: judged.test_a_replica_is_permitted_in_each_session_of_its_node_with_the_newest_lineage(
         0)),
    (keys_that_are_not_read_behind_the_session,
     ran(fencing.test_the_keys_are_read_again_after_each_session_that_a_node_has_begun)),
    (sessions_told_apart_by_their_numbers,
     ran(fencing.test_the_keys_are_read_again_after_each_session_that_a_node_has_begun)),
    (permitted_in_sessions_that_the_topology_does_not_know, NEXT_SESSION),
    (the_next_session_is_not_written, NEXT_SESSION),
    (a_reset_that_waits_for_no_node_to_know,
     resets.test_the_survivor_is_reset_only_after_the_others_know_it),
    (a_reset_that_is_judged_by_older_reports,
     ran(fencing.test_after_a_reset_was_written_only_newer_reports_are_judged)),
    (leases_of_wanted_nodes_are_deleted, test_whose_lease_is_wanted),
    (deleted_by_the_pods_of_before,
     ran(fencing.test_the_lease_of_a_node_that_comes_back_under_its_name_stays)),
    (a_fenced_node_that_answers_is_fine,
     ran(fencing.test_a_node_that_answers_though_it_was_given_up_is_in_trouble)),
]  # fmt: skip


@pytest.mark.parametrize(("taken_out", "test"), RULES, ids=[each[0].__name__ for each in RULES])
def test_a_rule_that_is_taken_out_is_missed(
    taken_out: Callable[[Patch], None], test: Callable[[], None], monkeypatch: Patch
) -> None:
    test()
    taken_out(monkeypatch)
    with pytest.raises(AssertionError):
        test()

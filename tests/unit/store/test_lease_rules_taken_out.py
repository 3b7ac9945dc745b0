"""Each rule of a data node about its Lease (docs/leases.md), taken out: some test notices.

A test that nothing can make fail would keep a rule on the page that the code no longer has. The
operator's rules: `tests/unit/operator/test_operator_lease_rules_taken_out.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.store import test_lease as leases
from tests.unit.store import test_permission as permission
from tests.unit.store.one_node import OneNode
from zonequake_protocol.client import ReplyStatus
from zonequake_store.lease.rules.handover import LeaseWatch
from zonequake_store.lease.rules.node_lease import LeaseRecord, NodeLease, Permission
from zonequake_store.replica import replica
from zonequake_store.replica.replica import Replica

Patch = pytest.MonkeyPatch


def permission_that_always_holds(patch: Patch) -> None:
    patch.setattr(Permission, "holds", property(lambda _: True))


def unguarded_answers(patch: Patch) -> None:
    patch.setattr(Permission, "guard", lambda _, answer: answer)


def a_lease_that_holds_for_ever(patch: Patch) -> None:
    patch.setattr(NodeLease, "holds", lambda lease, _: lease.session > 0)


def a_lease_that_is_counted_twice(patch: Patch) -> None:
    stored = NodeLease.stored

    def and_once_more(lease: NodeLease, version: str) -> None:
        stored(lease, version)
        lease._until_s += lease.duration_s

    patch.setattr(NodeLease, "stored", and_once_more)


def a_fence_that_is_not_heeded(patch: Patch) -> None:
    found = NodeLease.found

    def unheeded(lease: NodeLease, record: LeaseRecord | None, version: str | None) -> None:
        found(lease, record and replace(record, fenced=None), version)

    patch.setattr(NodeLease, "found", unheeded)


def a_refusal_that_counts_as_a_renewal(patch: Patch) -> None:
    patch.setattr(NodeLease, "refused", lambda lease: lease.stored("9"))


def a_session_for_each_renewal(patch: Patch) -> None:
    def another(lease: NodeLease, record: LeaseRecord | None) -> LeaseRecord:
        return LeaseRecord(holder=lease.holder, session=(record.session if record else 0) + 1)

    patch.setattr(NodeLease, "_ours", another)


def permission_in_any_session(patch: Patch) -> None:
    def permit(of: Permission, *_: object) -> None:
        of.session = of._lease.session

    patch.setattr(Permission, "permit", permit)


def permission_of_any_process(patch: Patch) -> None:
    permit = Permission.permit
    patch.setattr(
        Permission, "permit", lambda of, session, _: permit(of, session, of._lease.holder)
    )


def bounds_that_need_no_permission(patch: Patch) -> None:
    patch.setattr(replica, "takes_any_age", lambda operation: hasattr(operation, "bounded"))


def leaders_that_never_hand_over(patch: Patch) -> None:
    patch.setattr(LeaseWatch, "look", lambda *_: None)


def letters_that_need_no_permission(patch: Patch) -> None:
    patch.setattr(Replica, "may_acknowledge", property(lambda _: True))


def trouble_that_is_never_told(patch: Patch) -> None:
    patch.setattr(NodeLease, "trouble", lambda *_: None)


OF_THE_LEASE: list[tuple[Callable[[Patch], None], Callable[[], None]]] = [
    (permission_that_always_holds,
     leases.test_a_fence_ends_the_session_and_the_node_begins_another),
    (unguarded_answers,
     lambda: leases.test_only_acknowledgements_are_held_back(ReplyStatus.OK)),
    (a_lease_that_holds_for_ever,
     leases.test_a_lease_holds_for_its_duration_since_it_was_asked_for),
    (a_lease_that_is_counted_twice,
     leases.test_a_lease_holds_for_its_duration_since_it_was_asked_for),
    (a_fence_that_is_not_heeded,
     leases.test_a_fence_ends_the_session_and_the_node_begins_another),
    (a_refusal_that_counts_as_a_renewal,
     leases.test_a_fence_ends_the_session_and_the_node_begins_another),
    (a_session_for_each_renewal,
     leases.test_a_session_goes_on_if_the_lease_was_not_taken_meanwhile_however_late),
    (permission_in_any_session,
     leases.test_a_fence_ends_the_session_and_the_node_begins_another),
    (permission_of_any_process,
     leases.test_an_order_for_the_process_before_means_nothing_though_it_names_the_same_session),
    (leaders_that_never_hand_over,
     permission.test_a_leader_without_permission_hands_over_after_a_while_and_ever_more_rarely),
    (trouble_that_is_never_told,
     leases.test_who_never_got_a_lease_is_in_trouble_since_it_first_asked),
]  # fmt: skip


@pytest.mark.parametrize(
    ("taken_out", "test"), OF_THE_LEASE, ids=[each[0].__name__ for each in OF_THE_LEASE]
)
def test_a_rule_of_the_lease_that_is_taken_out_is_missed(
    taken_out: Callable[[Patch], None], test: Callable[[], None], monkeypatch: Patch
) -> None:
    test()
    taken_out(monkeypatch)
    with pytest.raises(AssertionError):
        test()


OF_REPLICAS: list[tuple[Callable[[Patch], None], Callable[[OneNode], Awaitable[None]]]] = [
    (permission_that_always_holds,
     permission.test_a_leader_without_permission_refuses_and_with_it_serves),
    (unguarded_answers,
     permission.test_what_was_taken_before_the_session_ended_is_not_acknowledged_after_it),
    (permission_in_any_session,
     permission.test_an_order_of_another_session_permits_nothing),
    (bounds_that_need_no_permission,
     permission.test_only_bounded_reads_without_a_bound_are_answered_without_permission),
    (letters_that_need_no_permission,
     permission.test_letters_of_transactions_wait_for_permission),
]  # fmt: skip


@pytest.mark.parametrize(
    ("taken_out", "test"), OF_REPLICAS, ids=[each[0].__name__ for each in OF_REPLICAS]
)
async def test_a_rule_of_replicas_with_a_lease_that_is_taken_out_is_missed(
    taken_out: Callable[[Patch], None],
    test: Callable[[OneNode], Awaitable[None]],
    monkeypatch: Patch,
    tmp_path: Path,
) -> None:
    async with OneNode(tmp_path) as node:
        taken_out(monkeypatch)
        with pytest.raises(AssertionError):
            await test(node)

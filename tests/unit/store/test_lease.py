"""A node's Lease: when it holds, when its session goes on, and that a fence always shuts it out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zonequake_operator.resources.leases import Lease, Renewals
from zonequake_protocol.admin import LeaseTrouble
from zonequake_protocol.client import Reply, ReplyStatus
from zonequake_store.lease.rules.node_lease import (
    NOBODY,
    LeaseRecord,
    NodeLease,
    Permission,
    PutLease,
    ReadLease,
)

DURATION_S = 8.0


class Object:
    """The Lease object at the API server."""

    def __init__(self) -> None:
        self.record: LeaseRecord | None = None
        self.version = 0

    def read(self) -> tuple[LeaseRecord | None, str | None]:
        return (None, None) if self.record is None else (self.record, str(self.version))

    def put(self, put: PutLease) -> str | None:
        at = None if self.record is None else str(self.version)
        if put.version != at:
            return None
        self.record = put.record
        self.version += 1
        return str(self.version)

    def delete(self) -> None:
        self.record = None
        self.version += 1

    def fence(self, version: str) -> bool:
        assert self.record is not None
        fenced = replace(self.record, fenced="left")
        return self.put(PutLease(fenced, version)) is not None


def carry_out(lease: NodeLease, api: Object, now_s: float) -> None:
    """All that the node asks for now."""
    while (call := lease.next_call(now_s)) is not None:
        if isinstance(call, ReadLease):
            lease.found(*api.read())
        else:
            version = api.put(call)
            if version is None:
                lease.refused()
            else:
                lease.stored(version)


def begun(api: Object, holder: str = "p1", now_s: float = 0.0) -> NodeLease:
    lease = NodeLease(holder=holder, duration_s=DURATION_S)
    lease.want(True)
    carry_out(lease, api, now_s)
    return lease


def test_a_lease_holds_for_its_duration_since_it_was_asked_for() -> None:
    api = Object()
    lease = NodeLease(holder="p1", duration_s=DURATION_S)
    lease.want(True)
    assert lease.next_call(0.0) == ReadLease()
    lease.found(*api.read())
    put = lease.next_call(1.0)
    assert isinstance(put, PutLease)
    version = api.put(put)
    assert version is not None
    lease.stored(version)  # however late the answer comes
    assert lease.holds(8.9)
    assert not lease.holds(9.0)


def test_a_node_that_needs_no_lease_asks_for_nothing() -> None:
    lease = NodeLease(holder="p1", duration_s=DURATION_S)
    assert lease.rest_s(0.0) is None
    assert lease.next_call(0.0) is None


def test_it_is_renewed_at_a_quarter_of_its_duration() -> None:
    api = Object()
    lease = begun(api)
    assert lease.rest_s(0.5) == 1.5
    assert lease.next_call(1.9) is None
    carry_out(lease, api, 2.0)
    assert lease.holds(9.9)
    assert lease.session == 1


def test_a_session_goes_on_if_the_lease_was_not_taken_meanwhile_however_late() -> None:
    api = Object()
    lease = begun(api)
    assert not lease.holds(100.0)
    carry_out(lease, api, 100.0)
    assert lease.holds(100.0)
    assert lease.session == 1


def test_a_fence_ends_the_session_and_the_node_begins_another() -> None:
    api = Object()
    lease = begun(api)
    permission = Permission(lease, lambda: 2.0)
    permission.permit(1, "p1")
    assert permission.holds
    assert api.fence("1")
    carry_out(lease, api, 2.0)
    assert lease.session == 2
    assert lease.holds(2.0)
    assert not permission.holds, "it was permitted in the session before"
    permission.permit(1, "p1")
    assert not permission.holds, "an order of before means nothing"
    permission.permit(2, "p1")
    assert permission.holds
    assert api.record == LeaseRecord(holder="p1", session=2)


def test_another_process_begins_another_session() -> None:
    api = Object()
    begun(api)
    assert begun(api, holder="p2", now_s=1.0).session == 2


def test_an_answer_that_was_lost_leaves_the_session_as_it_is() -> None:
    api = Object()
    lease = begun(api)
    put = lease.next_call(2.0)
    assert isinstance(put, PutLease)
    assert api.put(put) is not None
    lease.failed(4.0)
    assert lease.next_call(4.1) is None, "not at once"
    carry_out(lease, api, 4.8)
    assert lease.session == 1
    assert lease.holds(12.7)


def test_a_session_whose_begin_lost_its_answer_is_this_process_own() -> None:
    api = Object()
    lease = NodeLease(holder="p1", duration_s=DURATION_S)
    lease.want(True)
    lease.next_call(0.0)
    lease.found(None, None)
    put = lease.next_call(0.0)
    assert isinstance(put, PutLease)
    assert api.put(put) is not None
    lease.failed(2.0)
    assert lease.session == 0
    carry_out(lease, api, 2.8)
    assert lease.session == 1


def test_a_renewal_that_is_only_slow_is_no_trouble() -> None:
    api = Object()
    lease = NodeLease(holder="p1", duration_s=DURATION_S)
    assert lease.trouble(100.0) is None, "it isn't wanted"
    lease.want(True)
    assert lease.trouble(100.0) is None, "nothing was asked yet"
    carry_out(lease, api, 0.0)
    put = lease.next_call(2.0)
    assert isinstance(put, PutLease)
    assert lease.trouble(3.9) is None
    version = api.put(put)
    assert version is not None
    lease.stored(version)
    assert (lease.trouble(6.0), lease.unrenewed_since_s) == (None, 2.0)


def test_a_missed_renewal_is_told_before_the_lease_runs_out_and_ends_with_the_next_one() -> None:
    api = Object()
    lease = begun(api)
    lease.next_call(2.0)
    lease.failed(4.0, "GET …: Cannot connect")
    assert lease.trouble(4.0) is None
    assert lease.trouble(4.1) is LeaseTrouble.NOT_RENEWED
    assert lease.trouble(8.0) is LeaseTrouble.EXPIRED
    assert (lease.problem, lease.unrenewed_since_s) == ("GET …: Cannot connect", 0.0)
    carry_out(lease, api, 9.0)
    assert (lease.trouble(9.0), lease.problem) == (None, None)


def test_who_never_got_a_lease_is_in_trouble_since_it_first_asked() -> None:
    lease = NodeLease(holder="p1", duration_s=DURATION_S)
    lease.want(True)
    lease.next_call(50.0)
    lease.failed(52.0)
    assert lease.trouble(54.0) is None
    assert lease.trouble(54.1) is LeaseTrouble.EXPIRED
    assert lease.unrenewed_since_s == 50.0
    lease.want(False)
    assert (lease.trouble(99.0), lease.problem) == (None, None)


def test_what_a_fence_or_another_writer_does_to_the_lease_is_told() -> None:
    api = Object()
    lease = begun(api)
    assert api.fence("1")
    lease.next_call(2.0)
    lease.refused()
    assert lease.problem is not None
    assert "something else" in lease.problem
    assert lease.next_call(2.0) == ReadLease()
    lease.found(*api.read())
    assert lease.problem == "it was taken over: left"
    assert lease.trouble(2.0) is None, "the next session is about to begin"
    assert lease.trouble(4.1) is LeaseTrouble.EXPIRED, "if it never does"


def test_who_needs_it_no_more_gives_it_back_and_may_not_act_on_it_from_then_on() -> None:
    api = Object()
    lease = begun(api)
    lease.want(False)
    assert not lease.holds(0.0)
    carry_out(lease, api, 0.0)
    assert api.record == LeaseRecord(holder=NOBODY, session=1)
    assert lease.rest_s(0.0) is None
    lease.want(True)
    carry_out(lease, api, 1.0)
    assert lease.session == 2


def test_who_was_fenced_while_giving_it_back_gives_it_back_all_the_same() -> None:
    """Else the node would never join again: it has no reason for another session."""
    api = Object()
    lease = begun(api)
    assert api.fence("1")
    lease.want(False)
    carry_out(lease, api, 0.0)
    assert api.record == LeaseRecord(holder=NOBODY, session=1)


def test_a_lease_that_was_deleted_begins_with_a_higher_session() -> None:
    api = Object()
    lease = begun(api)
    permission = Permission(lease, lambda: 2.0)
    permission.permit(1, "p1")
    api.delete()
    carry_out(lease, api, 2.0)
    assert lease.session == 2
    assert not permission.holds, "as after a fence"


def test_an_order_for_the_process_before_means_nothing_though_it_names_the_same_session() -> None:
    """The operator deletes the Lease of a node that has left for good. If the node comes back, its
    next process begins with session 1 again, and an order that an operator which stood still had
    made for the first one would permit it, without the resets that were decided meanwhile."""
    api = Object()
    begun(api)
    api.delete()
    lease = begun(api, holder="p2", now_s=90.0)
    assert lease.session == 1
    permission = Permission(lease, lambda: 90.0)
    permission.permit(1, "p1")
    assert not permission.holds
    permission.permit(1, "p2")
    assert permission.holds


def test_a_process_asks_for_no_session_twice() -> None:
    """The call that it gave up arrives late and begins a session; that one is given up and its
    Lease deleted, and an order for it must not permit what the process has begun since."""
    api, lease = Object(), NodeLease(holder="p1", duration_s=DURATION_S)
    lease.want(True)
    asked: list[PutLease] = []
    for now_s in (0.0, 10.0):
        assert isinstance(lease.next_call(now_s), ReadLease)
        lease.found(*api.read())
        call = lease.next_call(now_s)
        assert isinstance(call, PutLease)
        asked.append(call)
        lease.failed(now_s)
    assert [put.record.session for put in asked] == [1, 2]


@pytest.mark.parametrize("status", [ReplyStatus.OK, ReplyStatus.NOT_LEADER, ReplyStatus.INVALID])
def test_only_acknowledgements_are_held_back(status: ReplyStatus) -> None:
    lease = NodeLease(holder="p1", duration_s=DURATION_S)
    told: list[Reply] = []
    Permission(lease, lambda: 0.0).guard(told.append)(Reply(7, status))
    assert [reply.id for reply in told] == [7]
    assert told[0].status is (ReplyStatus.UNKNOWN if status is ReplyStatus.OK else status)


# ── both halves together ─────────────────────────────────────────────────────────────────────────

ALL = ("node", "answer", "node", "answer", "late answer", "operator", "permit")
CUT_OFF = ("operator", "operator", "operator", "node", "lost")
PHASES = st.lists(
    st.tuples(
        st.sampled_from([ALL, ALL, CUT_OFF]),
        st.lists(st.tuples(st.integers(0, 6), st.floats(0.01, 2.5)), min_size=8, max_size=16),
    ),
    max_size=8,
)
RATES = st.floats(0.9, 1.1)


class Both:
    """A node and an operator, each with its own clock, over one object; calls may arrive late."""

    def __init__(self, node_rate: float, operator_rate: float, *, deletes: bool) -> None:
        """`deletes`: the node is not wanted any more, and the Leases of such nodes are deleted."""
        self.deletes = deletes
        self.now_s = 0.0
        self.api = Object()
        self.node_rate, self.operator_rate = node_rate, operator_rate
        self.lease = NodeLease(holder="p1", duration_s=DURATION_S)
        self.lease.want(True)
        self.permission = Permission(self.lease, self.node_s)
        self.call: ReadLease | PutLease | None = None
        self.late: list[PutLease] = []
        self.renewals = Renewals()
        self.given_up: set[int] = set()

    def node_s(self) -> float:
        return self.now_s * self.node_rate

    def node(self) -> None:
        if self.call is None:
            self.call = self.lease.next_call(self.node_s())

    def answer(self) -> None:
        call, self.call = self.call, None
        if isinstance(call, ReadLease):
            self.lease.found(*self.api.read())
        elif isinstance(call, PutLease):
            version = self.api.put(call)
            if version is None:
                self.lease.refused()
            else:
                self.lease.stored(version)

    def lost(self) -> None:
        """The node gives a call up, which may yet arrive."""
        call, self.call = self.call, None
        if call is not None:
            if isinstance(call, PutLease):
                self.late.append(call)
            self.lease.failed(self.node_s())

    def late_answer(self) -> None:
        if self.late:
            self.api.put(self.late.pop(0))

    def operator(self) -> None:
        record, version = self.api.read()
        if record is None or version is None:
            return
        seen = Lease(
            name="n",
            holder=record.holder,
            session=record.session,
            fenced=record.fenced,
            duration_s=int(DURATION_S),
            resource_version=version,
        )
        self.renewals.looked({"n": seen}, self.now_s * self.operator_rate)
        if seen.fenced is not None and self.deletes:
            self.api.delete()
        elif "n" in self.renewals.run_out and seen.is_live_for("p1") and self.api.fence(version):
            self.given_up.add(record.session)

    def permit(self) -> None:
        """An operator permits only those who aren't fenced."""
        record, _ = self.api.read()
        if record is not None and record.fenced is None:
            self.permission.permit(record.session, record.holder)


@settings(max_examples=200)
@given(phases=PHASES, node_rate=RATES, operator_rate=RATES, deletes=st.booleans())
def test_no_node_acknowledges_in_a_session_that_was_given_up(
    phases: list[tuple[tuple[str, ...], list[tuple[int, float]]]],
    node_rate: float,
    operator_rate: float,
    deletes: bool,
) -> None:
    both = Both(node_rate, operator_rate, deletes=deletes)
    for done in (both.node, both.answer, both.node, both.answer, both.permit):
        done()
    for kinds, steps in phases:
        for choice, pause_s in steps:
            both.now_s += pause_s
            getattr(both, kinds[choice % len(kinds)].replace(" ", "_"))()
            # A node that was permitted once, in whatever session, may act only in one not given up.
            if both.permission.holds:
                assert both.permission.session not in both.given_up


def test_the_two_clocks_are_compared_where_it_matters() -> None:
    """The property above would also hold if no session were ever given up, or ever permitted."""
    both = Both(1.1, 0.9, deletes=False)
    for done in (both.node, both.answer, both.node, both.answer, both.permit):
        done()
    assert both.permission.holds
    for _ in range(8):
        both.operator()
        both.now_s += 2.0
    both.operator()
    assert both.given_up == {1}
    assert not both.permission.holds

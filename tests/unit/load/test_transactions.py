"""What a client sends for a transaction, and what it concludes from the answers."""

from __future__ import annotations

import random

import pytest

from zonequake_load.operation import (
    Function,
    Limits,
    OnceId,
    Operation,
    Outcome,
    TransactionOperation,
    Type,
)
from zonequake_load.routing.attempts import Attempts, ClientState, Pause, SendRequest
from zonequake_load.routing.routing_table import RoutingTable
from zonequake_protocol.client import (
    Append,
    PartitionRoute,
    Read,
    Reply,
    ReplyStatus,
    RouteReply,
    partition_of,
)
from zonequake_protocol.client import Transaction as Body

FIRST = next(key for key in "abcdef" if partition_of(key, 2) == 0)
SECOND = next(key for key in "abcdef" if partition_of(key, 2) == 1)
TRANSACTION = TransactionOperation(
    steps=(
        Operation(f=Function.READ, key=FIRST),
        Operation(f=Function.APPEND, key=SECOND, value=7),
    )
)


def attempts(*partitions: int) -> Attempts:
    """Of the transaction, by a client that knows these partitions."""
    table = RoutingTable("z")
    routes = [PartitionRoute(n, f"{n}_part", ["n0", f"m{n}"], "n0", "n0:1", 3) for n in partitions]
    table.merge(RouteReply("z", 2, routes, {"n0": "n0:1"}), "n0:1", 0)
    return Attempts(
        TRANSACTION,
        Limits(deadline_ns=10**10, attempt_ns=10**9, retry=True),
        once=OnceId("c", 4),
        table=table,
        client_state=ClientState(routes_wanted=lambda: None, way_changed=lambda: None),
        rng=random.Random(1),
        reads_anywhere=True,
    )


def asked(pursued: Attempts) -> Body:
    ask = pursued.next(0)
    assert isinstance(ask, SendRequest)
    assert isinstance(ask.body, Body)
    assert ask.address == "n0:1", "only the leader decides, wherever reads may go"
    return ask.body


def test_it_goes_to_the_first_keys_leader_and_names_the_groups_and_their_nodes() -> None:
    body = asked(attempts(0, 1))
    assert body.group == "0_part"
    assert body.steps == [Read("0_part", FIRST), Append("1_part", SECOND, 7)]
    assert (body.request_id.client, body.request_id.sequence) == ("c", 4)
    assert body.nodes == {"0_part": ["n0", "m0"], "1_part": ["n0", "m1"]}


@pytest.mark.parametrize("known", [0, 1])
def test_it_waits_for_the_routes_of_all_its_partitions(known: int) -> None:
    assert isinstance(attempts(known).next(0), Pause)


def test_what_was_read_comes_with_the_answer() -> None:
    pursued = attempts(0, 1)
    asked(pursued)
    reply = Reply(1, ReplyStatus.OK, applied=True, term=3, index=9, results=[5, None])
    pursued.answered(reply, 0)
    outcome = pursued.next(0)
    assert isinstance(outcome, Outcome)
    assert (outcome.type, outcome.applied, outcome.results) == (Type.OK, True, [5, None])


def test_a_lock_is_tried_again_and_leaves_the_outcome_certain() -> None:
    pursued = attempts(0, 1)
    asked(pursued)
    pursued.answered(Reply(1, ReplyStatus.LOCKED, error="held"), 0)
    assert isinstance(pursued.next(0), Pause)
    outcome = pursued.next(10**10)
    assert isinstance(outcome, Outcome)
    assert outcome.type is Type.FAIL
    assert "held" in str(outcome.error)


def test_silence_leaves_it_unknown_under_the_same_name() -> None:
    pursued = attempts(0, 1)
    first = asked(pursued)
    pursued.unanswered("no reply", 0)
    assert isinstance(pursued.next(0), Pause)
    second = pursued.next(0)
    assert isinstance(second, SendRequest)
    assert isinstance(second.body, Body)
    assert second.body.request_id == first.request_id
    pursued.answered(Reply(2, ReplyStatus.NOT_LEADER), 0)
    assert isinstance(pursued.next(0), Pause)
    outcome = pursued.next(10**10)
    assert isinstance(outcome, Outcome)
    assert outcome.type is Type.INFO

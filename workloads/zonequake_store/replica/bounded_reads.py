"""Bounded reads: answered by any replica from the state that it has, if that is fresh enough."""

from __future__ import annotations

from collections.abc import Callable

from zonequake_protocol.client import Read, Reply, ReplyStatus, Transaction
from zonequake_protocol.terms import lineage_of
from zonequake_store.raft.core import Raft
from zonequake_store.replica.requests import KeyOperation
from zonequake_store.state.partition import StateMachine
from zonequake_store.state.replies import locked_reply, value_reply


def takes_any_age(operation: KeyOperation | Transaction) -> bool:
    """Returns whether the read accepts a state of any age: its answer promises nothing."""
    return isinstance(operation, Read) and operation.bounded and not operation.max_staleness_ms


def bounded_reply(
    id_: int, read: Read, *, partition: StateMachine, raft: Raft, clock_ms: Callable[[], int]
) -> Reply:
    """Answers from `partition`, or says why its state is too old for this read.

    `clock_ms`: the clock whose time the core is given with its ticks.
    """
    if partition.lineage < lineage_of(raft.term):
        # Also when its log is the new lineage's already: a snapshot may yet be installed.
        why = "this state may not be of its group's present lineage"
        return Reply(id_, ReplyStatus.STALE, error=why)
    bound_ms = read.max_staleness_ms
    if bound_ms:
        since_ms = raft.fresh_since_ms()
        if since_ms is None:
            why = "no leader has reported yet how fresh this state is"
            return Reply(id_, ReplyStatus.STALE, error=why)
        age_ms = clock_ms() - since_ms
        if age_ms > bound_ms:
            why = f"this state may be {age_ms} ms old, the read allows {bound_ms} ms"
            return Reply(id_, ReplyStatus.STALE, error=why)
    if partition.is_written(read.key):
        return locked_reply(id_, partition, read.key)
    return value_reply(id_, partition, read.key)

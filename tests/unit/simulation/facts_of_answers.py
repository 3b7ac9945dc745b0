"""Facts about orders and their answers, replies to clients, applied states and supplies."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace as Made
from typing import Any

import msgspec

from tests.histories.synthesize import SyntheticOperation, lines
from tests.unit.simulation.broken_rules import breaks
from tests.unit.simulation.facts_of_groups import ABC, A, B, C, entries, ledger, life, log
from zonequake_analysis.inputs.shapes import Function
from zonequake_load.operation import OnceId
from zonequake_load.pod.history import HistoryEvent
from zonequake_protocol.admin import Stage
from zonequake_protocol.client import Read, Reply, ReplyStatus, RequestId
from zonequake_simulation import orders
from zonequake_simulation.api_server import StoredWish
from zonequake_simulation.checks.catch_up import CatchUpRules
from zonequake_simulation.checks.ledger import Lineage
from zonequake_simulation.checks.model import TransactionEvent, TransactionMoment
from zonequake_simulation.checks.replies import ReplyRules
from zonequake_simulation.checks.state import StateRules
from zonequake_simulation.checks.transactions import TransactionRules
from zonequake_simulation.checks.users import UserRules
from zonequake_simulation.judge import judged
from zonequake_store.catch_up.messages import End, Invite, Piece, Supply, encode_pairs
from zonequake_store.raft.api import (
    CancelAnswer,
    ChangePeersAnswer,
    GrantAnswer,
    RaftRole,
    RaftSettings,
    RaftStatus,
)
from zonequake_store.raft.messages import Entry, EntryKind, Message, MessageKind, SnapshotMeta
from zonequake_store.state.partition import AppliedState
from zonequake_store.state.transactions import DecideCommand, TransactionId

# ------------------------------------------------------------------------------------------ orders

LEADS = RaftStatus(
    role=RaftRole.LEADER,
    term=1,
    lineage=0,
    abstains=False,
    had_leader=True,
    leader=A,
    configuration=ABC,
    configuration_index=1,
    stage=Stage.NONE,
    stage_token=0,
    stage_peers=(),
    caught_up=False,
    progress=(),
    reconfiguration_error=None,
    commit=3,
    applied=3,
    first_index=1,
    last_index=3,
    last_term=1,
)
CATCHES_UP = replace(LEADS, stage=Stage.CATCHING_UP, stage_token=5, stage_peers=(A, B))
WISH = StoredWish(token=5, wanted=(A, B))


def answering(before: RaftStatus, after: RaftStatus | None = None, **answers: Any) -> Any:
    """Returns a replica that shows one status, then the other, and gives these answers."""
    shown = iter([before])
    calls = {name: lambda answer=answer, **_: answer for name, answer in answers.items()}
    raft = Made(status=lambda: next(shown, after or before), **calls)
    return Made(core_now=lambda: raft, me=A)


@breaks("a change is received by the leader of its term alone")
def _(wrong: bool) -> None:
    answer = ChangePeersAnswer.RECEIVED if wrong else ChangePeersAnswer.STALE
    replica = answering(replace(LEADS, term=2), change_peers=answer)
    orders.change_peers(replica, LEADS, WISH)


@breaks("a change is received in NONE and CATCHING_UP, and busy later")
def _(wrong: bool) -> None:
    answer = ChangePeersAnswer.RECEIVED if wrong else ChangePeersAnswer.BUSY
    joint = replace(LEADS, stage=Stage.JOINT, stage_token=4)
    orders.change_peers(answering(joint, change_peers=answer), joint, WISH)


@breaks("a cancel is for the leader of its term alone")
def _(wrong: bool) -> None:
    answer = CancelAnswer.RECEIVED if wrong else CancelAnswer.STALE
    orders.cancel(answering(replace(LEADS, term=2), cancel_change_peers=answer), LEADS)


@breaks("a cancel with an older token has no effect")
def _(wrong: bool) -> None:
    replica = answering(
        CATCHES_UP, LEADS if wrong else None, cancel_change_peers=CancelAnswer.STALE
    )
    orders.cancel(replica, replace(CATCHES_UP, stage_token=4))


@breaks("a cancel ends only a change that catches up")
def _(wrong: bool) -> None:
    after = CATCHES_UP if wrong else LEADS
    replica = answering(CATCHES_UP, after, cancel_change_peers=CancelAnswer.RECEIVED)
    orders.cancel(replica, CATCHES_UP)


@breaks("a grant is for the change that it names")
def _(wrong: bool) -> None:
    of = replace(CATCHES_UP, stage_token=4) if wrong else CATCHES_UP
    orders.grant(answering(of, grant=GrantAnswer.RECEIVED), CATCHES_UP, WISH)


@breaks("refused orders have no effect")
def _(wrong: bool) -> None:
    replica = answering(
        LEADS,
        CATCHES_UP if wrong else None,
        change_peers=ChangePeersAnswer.STALE,
        cancel_change_peers=CancelAnswer.STALE,
        grant=GrantAnswer.STALE,
    )
    orders.try_old_orders(replica, (A, B))


# ----------------------------------------------------------------------------------------- replies

READ = Read("g", "k")
OK = Reply(1, ReplyStatus.OK)


def replies(**more: Any) -> ReplyRules:
    known = ledger()
    known.lineages[5] = Lineage()
    for name, value in more.items():
        setattr(known, name, value)
    return ReplyRules(known)


@breaks("an empty replica answers only reads of any age")
def _(wrong: bool) -> None:
    read = msgspec.structs.replace(READ, bounded=not wrong)
    empty = life(log=log(configuration=None))
    replies().answered(empty, read, OK, (0, 0), rate=1.0)


@breaks("no replica acknowledges in an older lineage than it was told of")
def _(wrong: bool) -> None:
    replies().answered(life(enforced=5 if wrong else 0), READ, OK, (0, 0), rate=1.0)


@breaks("two lineages never both acknowledge")
def _(wrong: bool) -> None:
    rules = replies(acknowledged=5 if wrong else 0)
    rules.answered(life(), READ, OK, (0, 0), rate=1.0)


# ------------------------------------------------------------------------------------------- state


def states() -> StateRules:
    known = ledger()
    known.lineages[0].chosen = {1: 1, 2: 1}
    return StateRules("g", known, TransactionRules(), UserRules())


def applying(rules: StateRules, state: AppliedState) -> None:
    """Has a state judged that a replica came to."""
    rules._users.applied = lambda replica: None  # type: ignore[method-assign]
    cells = Made(state=state, read=lambda key: None)
    rules.applied(Made(me=A, partition=cells), 0)  # type: ignore[arg-type]


@breaks("replicas apply the same")
def _(wrong: bool) -> None:
    rules = states()
    rules.handed_out(life(), (Entry(1, 1, EntryKind.NOOP),))
    rules.handed_out(life(peer=B), (Entry(1, 1, EntryKind.NOOP, b"x" if wrong else b""),))


@breaks("only an applied entry is marked as applied")
def _(wrong: bool) -> None:
    at = 2 if wrong else 1
    applying(states(), AppliedState(index=1, term=1, last_configuration_index=at))


@breaks("only what is committed is applied")
def _(wrong: bool) -> None:
    applying(states(), AppliedState(index=1, term=2 if wrong else 1))


@breaks("the high watermark is above all")
def _(wrong: bool) -> None:
    applying(states(), AppliedState(index=1, term=1, lwm=3, hwm=2 if wrong else 3))


# ------------------------------------------------------------------------------------ transactions

FIRST, AGAIN = (TransactionId("g", 1, number) for number in (1, 2))
REQUEST = RequestId("c", 1)


def decided(transaction: TransactionId) -> TransactionEvent:
    entry = DecideCommand(transaction, REQUEST, others=(), results=())
    return TransactionEvent(TransactionMoment.DECIDED, transaction, entry)


@breaks("a request is carried out once")
def _(wrong: bool) -> None:
    rules = TransactionRules()
    for transaction in (FIRST, AGAIN) if wrong else (FIRST,):
        rules.happened("g", TransactionEvent(TransactionMoment.PREPARED, transaction))
        rules.happened("g", decided(transaction))


@breaks("a transaction that certainly failed is not carried out")
def _(wrong: bool) -> None:
    rules = TransactionRules()
    rules.happened("g", TransactionEvent(TransactionMoment.PREPARED, FIRST))
    if wrong:
        rules.happened("g", decided(FIRST))
    rules.certainly_failed(OnceId("c", 1))


@breaks("every part of a transaction without decision is rolled back")
def _(wrong: bool) -> None:
    rules = TransactionRules()
    rules.happened("g", TransactionEvent(TransactionMoment.PREPARED, FIRST))
    if not wrong:
        rules.happened("g", TransactionEvent(TransactionMoment.ROLLED_BACK, FIRST))
    rules.settled()


# ---------------------------------------------------------------------------------------- catch-up


def says(frame: Any, *before: Any, role: RaftRole = RaftRole.LEADER) -> None:
    """Has frames judged that leave a replica in this role, without a rate to keep to."""
    rules = CatchUpRules(RaftSettings(catch_up_bytes_per_second=0))
    raft = Made(status=lambda: Made(role=role), _replica=Made(leadership=None))
    for each in (*before, frame):
        rules.sent(raft, each, 0, None)  # type: ignore[arg-type]


def supply(behind: int, *indexes: int) -> Supply:
    append = Message(
        kind=MessageKind.APPEND, to=C, sender=A, term=1, index=behind, entries=entries(*indexes)
    )
    return Supply("g", C, A, 1, append)


def piece(
    sequence: int, after: bytes, *pairs: tuple[bytes, bytes], end: End | None = None
) -> Piece:
    return Piece("g", C, A, 1, 1, 7, sequence, after, 0, encode_pairs(list(pairs)), end)


@breaks("only a leader supplies")
def _(wrong: bool) -> None:
    says(Invite("g", C, A, 1, 1), role=RaftRole.FOLLOWER if wrong else RaftRole.LEADER)


@breaks("a supply follows what was demanded or supplied")
def _(wrong: bool) -> None:
    rules = CatchUpRules(RaftSettings(catch_up_bytes_per_second=0))
    rules._reached(A, C, 1, 3)
    rules._supplied(supply(4 if wrong else 3))


@breaks("entries of a supply follow each other")
def _(wrong: bool) -> None:
    rules = CatchUpRules(RaftSettings(catch_up_bytes_per_second=0))
    rules._reached(A, C, 1, 3)
    rules._supplied(supply(3, 4, 6 if wrong else 5))


@breaks("a snapshot is of one state")
def _(wrong: bool) -> None:
    again = piece(0, b"", (b"k", b"2" if wrong else b"1"))
    says(again, piece(0, b"", (b"k", b"1")))


@breaks("a snapshot is of one state")
def _(wrong: bool) -> None:
    end = End(SnapshotMeta(3, 1, ABC, 1), 2 if wrong else 1, 10)
    says(piece(0, b"", (b"k", b"1"), end=end))


# ------------------------------------------------------------------------------- clients' histories


def done(f: Function, value: int | None, index: int, inv_ns: int, fin_ns: int, **more: Any) -> Any:
    """Returns an operation of process 1 on one key, answered unless `more` says otherwise."""
    fields: dict[str, Any] = {"key": "k", "partition": 0, "process": 1, "sequence": inv_ns} | more
    return SyntheticOperation(f=f, value=value, index=index, inv_ns=inv_ns, fin_ns=fin_ns, **fields)


def told(*operations: SyntheticOperation) -> None:
    """Has a history judged; raises the violation that it shows."""
    events = [
        msgspec.json.decode(line, type=HistoryEvent) for each in operations for line in lines(each)
    ]
    with tempfile.TemporaryDirectory() as folder:
        found = judged({"seed": sorted(events, key=lambda event: event.time)}, Path(folder))
    for violation in found.values():
        raise violation


@breaks("histories are linearizable")
def _(wrong: bool) -> None:
    told(
        done(Function.WRITE, 1, 1, 10, 20),
        done(Function.READ, None if wrong else 1, 0 if wrong else 1, 30, 40),
    )


@breaks("histories are linearizable")
def _(wrong: bool) -> None:
    failed = done(Function.WRITE, 2, 0, 10, 20, type="fail")
    told(
        failed,
        done(Function.WRITE, 3, 1, 12, 22, process=2),
        done(Function.READ, 2 if wrong else 3, 1, 30, 40),
    )


@breaks("the order that the store claims explains its answers")
def _(wrong: bool) -> None:
    told(
        done(Function.WRITE, 1, 2 if wrong else 1, 10, 30),
        done(Function.WRITE, 2, 1 if wrong else 2, 15, 35),
        done(Function.READ, 2, 3, 40, 50),
    )


@breaks("a process never goes back")
def _(wrong: bool) -> None:
    told(
        done(Function.WRITE, 1, 5, 10, 20),
        done(Function.WRITE, 2, 4 if wrong else 6, 30, 40, key="other"),
    )


@breaks("one entry acknowledges one write")
def _(wrong: bool) -> None:
    told(
        done(Function.WRITE, 1, 5, 10, 20),
        done(Function.WRITE, 2, 5 if wrong else 6, 12, 22, key="other", process=2),
    )

"""Coordinates the transactions that begin here: the leader of the first key's partition decides;
sans-IO.

    begin ─► PREPARING ── all voted DONE ─► DECIDING ── DecideCommand applied ─► answered ok,
                 │                             │                                 Finish(commit)
                 │ a vote against,             │ leadership lost                   │ all Done
                 ▼ PREPARE_TICKS               ▼                                   ▼
             answered, Finish(abort)         answered unknown                    ForgetCommand

A vote against because a cas found another value goes the way of a decision, with a RefuseCommand.

Its driver calls `lead` and `stop` with leadership, hands in requests, messages, every applied
DecideCommand and RefuseCommand (`applied`) and ticks; see `participant` for the rest.

**Why a dead coordinator blocks no participant.** A commit is an entry in this group's log, so the
next leader has it and goes on telling (`lead`). What has no such entry can only be committed by the
leader of its own term, which knows it as active; every other leader may call it aborted as soon as
an entry of a later term is applied here, because then no DecideCommand of the earlier term can
still come (it would stand before that entry, and count only in its own term). `ask` answers by that
rule and never guesses: it is silent while the transaction is active, or while this leader has not
applied an entry of its own term.

**When a decision is forgotten.** Done means that a group has applied its Commit, and it says so
only of what its log holds. When all have, no participant can ask any more; an AskOutcome that is
still on its way gets "abort", which a group that has ended its part ignores.

**Once.** The answer to a request id is kept in the partition's client table with the decision. A
request that comes again while its transaction runs joins it; one that comes later gets the first
answer; a second DecideCommand for the same id rolls back and answers as the first did.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from zonequake_protocol.client import Reply, ReplyStatus, RequestId
from zonequake_store.network.transaction_messages import (
    AskOutcome,
    Done,
    Finish,
    Letter,
    Prepare,
    Vote,
)
from zonequake_store.state.commands import CommandOutcome, CommandVerdict
from zonequake_store.state.partition import StateMachine
from zonequake_store.state.replies import outcome_reply
from zonequake_store.state.transactions import (
    DecideCommand,
    Decision,
    ForgetCommand,
    ReadValue,
    RefuseCommand,
    TransactionId,
    TransactionStep,
)
from zonequake_store.transactions.participant import TransactionOutput

PREPARE_TICKS = 25
"""Ticks of 100 ms for preparing: longer than the longest wait for a lock and an election together.
"""

RESEND_TICKS = 3
"""Between two letters to a group that does not answer; doubles up to _LONGEST_RESEND_TICKS."""

_LONGEST_RESEND_TICKS = 50

MAX_ACTIVE = 1024
"""Transactions of one coordinator that are not decided, and decisions that are not forgotten."""

MAX_RESULT_BYTES = 1 << 20
"""The most that a transaction may read: its results are kept with its request id."""

_encoded = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """A client's transaction: each group's steps, with their places in the client's order.

    `nodes`: where the client knows the groups' replicas.
    """

    request_id: RequestId
    steps: dict[str, tuple[TransactionStep, ...]]
    places: dict[str, tuple[int, ...]]
    nodes: dict[str, tuple[str, ...]]


class _State(enum.Enum):
    PREPARING = enum.auto()
    DECIDING = enum.auto()


@dataclass(slots=True)
class _Active:
    begin: Begin
    answers: list[tuple[int, Callable[[Reply], None]]]
    state: _State = _State.PREPARING
    votes: dict[str, Vote] = field(default_factory=dict)
    ticks: int = 0

    def answer(self, reply: Reply) -> None:
        for id_, answer in self.answers:
            answer(msgspec.structs.replace(reply, id=id_))


@dataclass(slots=True)
class _Finishing:
    """A commit that these groups have not applied yet, as far as is known."""

    waiting: dict[str, tuple[str, ...]]
    ticks: int = 0
    due: int = RESEND_TICKS
    pause: int = RESEND_TICKS


class Coordinator:
    """The transactions of `group`, whose state is `partition`; what leaves goes to `output`."""

    def __init__(self, group: str, partition: StateMachine, output: TransactionOutput) -> None:
        self.group = group
        self.partition = partition
        self._output = output
        self._term = 0
        self.nodes: tuple[str, ...] = ()  # where the group's members are
        self._number = 0
        self._active: dict[TransactionId, _Active] = {}
        self._requests: dict[tuple[str, int], TransactionId] = {}
        self._finishing: dict[TransactionId, _Finishing] = {}
        self._forgettable: list[TransactionId] = []

    @property
    def is_idle(self) -> bool:
        """Returns whether no tick is needed."""
        return not self._active and not self._finishing and not self._forgettable

    # ── leadership ───────────────────────────────────────────────────────────────────────────

    def lead(self, term: int) -> None:
        """Records that the group is led from here in `term`."""
        self._term, self._number = term, 0
        for decision in self.partition.transactions.decisions.values():
            self._tell(decision)

    def stop(self) -> None:
        """Stops: this node no longer leads the group. What is not proposed can't be committed any
        more.
        """
        active, self._active = self._active, {}
        self._requests.clear()
        self._finishing.clear()
        self._forgettable.clear()
        for each in active.values():
            if each.state is _State.DECIDING:
                each.answer(
                    Reply(0, ReplyStatus.UNKNOWN, error="leadership was lost before the decision")
                )
            else:
                each.answer(Reply(0, ReplyStatus.NOT_LEADER))

    # ── clients ──────────────────────────────────────────────────────────────────────────────

    def begin(self, id_: int, begin: Begin, answer: Callable[[Reply], None]) -> None:
        """Carry a client's transaction out; `answer` is called once, now or later."""
        partition, request_id = self.partition, begin.request_id
        known = partition.clients.lookup(
            request_id, partition.term, partition.index, is_entry=False
        )
        if known is not None and partition.deduplicate:
            answer(outcome_reply(id_, known))
            return
        name = (request_id.client, request_id.sequence)
        running = self._requests.get(name)
        if running is not None:
            self._active[running].answers.append((id_, answer))
            return
        if len(self._active) + len(partition.transactions.decisions) >= MAX_ACTIVE:
            error = "too many transactions of this partition are unfinished"
            answer(Reply(id_, ReplyStatus.OVERLOADED, error=error))
            return
        self._number += 1
        transaction = TransactionId(self.group, self._term, self._number)
        self._requests[name] = transaction
        self._active[transaction] = _Active(begin, [(id_, answer)])
        for group in begin.steps:
            self._ask_to_prepare(transaction, group, again=False)

    # ── messages ─────────────────────────────────────────────────────────────────────────────

    def vote(self, vote: Vote) -> None:
        """Records that a group has prepared its part, or refuses to."""
        active = self._active.get(vote.transaction)
        if active is None:
            if vote.outcome.verdict is CommandVerdict.DONE:
                self.ask(AskOutcome(vote.transaction, vote.member))
            return
        group = vote.member.group
        if active.state is not _State.PREPARING or group not in active.begin.steps:
            return
        if vote.outcome.verdict is CommandVerdict.UNEQUAL:
            active.state = _State.DECIDING
            request_id, found = active.begin.request_id, vote.outcome.value
            self._output.proposals.append(RefuseCommand(vote.transaction, request_id, found))
            return
        if vote.outcome.verdict is not CommandVerdict.DONE:
            self._abort(vote.transaction, _refusal(vote))
            return
        active.votes[group] = vote
        if len(active.votes) == len(active.begin.steps):
            self._decide(vote.transaction, active)

    def ask(self, ask: AskOutcome) -> None:
        """Answers a group that has prepared a part and asks how the transaction ended."""
        transaction, partition = ask.transaction, self.partition
        if transaction in self._active or transaction.term > self._term:
            return
        commit = transaction in partition.transactions.decisions
        if not commit and partition.term != self._term:
            return  # a decision of an earlier term may be committed, and not applied yet
        finish = Finish(transaction, commit)
        self._output.letters.append(Letter(ask.member.group, finish, ask.member.nodes))

    def done(self, done: Done) -> None:
        """Records that a group has applied its Commit."""
        finishing = self._finishing.get(done.transaction)
        if finishing is not None:
            finishing.waiting.pop(done.group, None)
            if not finishing.waiting:
                del self._finishing[done.transaction]
                self._forgettable.append(done.transaction)

    # ── the log ──────────────────────────────────────────────────────────────────────────────

    def applied(self, command: DecideCommand | RefuseCommand, outcome: CommandOutcome) -> None:
        """Records that a decision was applied, of this leader or of one before."""
        transaction = command.transaction
        if isinstance(command, RefuseCommand):
            self._abort(transaction, outcome_reply(0, outcome))
            return
        active = self._pop(transaction)
        decision = self.partition.transactions.decisions.get(transaction)
        if decision is not None:
            self._tell(decision)
        committed = outcome.verdict is CommandVerdict.DONE and outcome.index == self.partition.index
        if not committed:
            for member in command.others:
                self._send(member.group, Finish(transaction, False), member.nodes)
        if active is not None:
            active.answer(outcome_reply(0, outcome))

    def refused(self, command: DecideCommand | RefuseCommand | ForgetCommand) -> None:
        """Records that the log did not take a proposal."""
        if isinstance(command, ForgetCommand):
            self._forgettable += command.transactions
        else:
            self._abort(command.transaction, Reply(0, ReplyStatus.NOT_LEADER))

    # ── time ─────────────────────────────────────────────────────────────────────────────────

    def tick(self) -> None:
        """Handles a tick."""
        for transaction, active in list(self._active.items()):
            if active.state is not _State.PREPARING:
                continue
            active.ticks += 1
            silent = [group for group in active.begin.steps if group not in active.votes]
            if active.ticks >= PREPARE_TICKS:
                error = f"partition group {silent[0]} did not prepare the transaction in time"
                self._abort(transaction, Reply(0, ReplyStatus.LOCKED, error=error))
            elif active.ticks % RESEND_TICKS == 0:
                for group in silent:
                    self._ask_to_prepare(transaction, group, again=True)
        for transaction, finishing in self._finishing.items():
            finishing.ticks += 1
            if finishing.ticks >= finishing.due:
                finishing.pause = min(2 * finishing.pause, _LONGEST_RESEND_TICKS)
                finishing.due = finishing.ticks + finishing.pause
                for group, nodes in finishing.waiting.items():
                    self._send(group, Finish(transaction, True), nodes, again=True)
        if self._forgettable:
            self._output.proposals.append(ForgetCommand(tuple(self._forgettable)))
            self._forgettable.clear()

    # ── parts of these ───────────────────────────────────────────────────────────────────────

    @property
    def _floor(self) -> int:
        """Returns the number below which nothing is being prepared; the active are in the order of
        their numbers.
        """
        for transaction, active in self._active.items():
            if active.state is _State.PREPARING:
                return transaction.number
        return self._number + 1

    def _ask_to_prepare(self, transaction: TransactionId, group: str, *, again: bool) -> None:
        begin = self._active[transaction].begin
        message = Prepare(transaction, self._floor, self.nodes, begin.steps[group])
        self._send(group, message, begin.nodes.get(group, ()), again=again)

    def _decide(self, transaction: TransactionId, active: _Active) -> None:
        begin = active.begin
        results: list[ReadValue] = [None] * sum(map(len, begin.steps.values()))
        for group, vote in active.votes.items():
            for place, result in zip(begin.places[group], vote.outcome.results or (), strict=True):
                results[place] = result
        if len(_encoded(results)) > MAX_RESULT_BYTES:
            error = f"the transaction reads more than {MAX_RESULT_BYTES} bytes"
            self._abort(transaction, Reply(0, ReplyStatus.INVALID, error=error))
            return
        others = tuple(v.member for v in active.votes.values() if v.member.group != self.group)
        active.state = _State.DECIDING
        self._output.proposals.append(
            DecideCommand(transaction, begin.request_id, others, tuple(results))
        )

    def _abort(self, transaction: TransactionId, reply: Reply) -> None:
        active = self._pop(transaction)
        if active is None:
            return
        for group in active.begin.steps:
            vote = active.votes.get(group)
            nodes = vote.member.nodes if vote else active.begin.nodes.get(group, ())
            self._send(group, Finish(transaction, False), nodes)
        active.answer(reply)

    def _pop(self, transaction: TransactionId) -> _Active | None:
        active = self._active.pop(transaction, None)
        if active is not None:
            request_id = active.begin.request_id
            del self._requests[request_id.client, request_id.sequence]
        return active

    def _tell(self, decision: Decision) -> None:
        waiting = {member.group: member.nodes for member in decision.others}
        self._finishing[decision.transaction] = _Finishing(waiting)
        for group, nodes in waiting.items():
            self._send(group, Finish(decision.transaction, True), nodes)

    def _send(
        self,
        group: str,
        message: Prepare | Finish,
        nodes: tuple[str, ...],
        *,
        again: bool = False,
    ) -> None:
        self._output.letters.append(Letter(group, message, nodes, again))


def _refusal(vote: Vote) -> Reply:
    """Returns the answer for the client, without the place in the participant's log, which is
    another log.
    """
    reply = outcome_reply(0, vote.outcome)
    error = vote.error or reply.error
    return Reply(
        0,
        reply.status,
        error=error and f"{vote.member.group}: {error}",
    )

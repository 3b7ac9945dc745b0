"""The next step of one operation or transaction, from its first attempt to its outcome. Pure.

One attempt goes to the leader by the routing table. What happens next:

    reply ok                  → ok
    reply not_leader + hint   → to the hinted node at once (once in a row, then after a pause)
    not sent, no reply        → to another member at once (once for each node), which waits with its
                                answer until it knows the next leader; then after a pause. What was
                                not sent is certainly not applied; what was goes under the same
                                `OnceId`
    reply not_leader, not_here, overloaded, locked
                              → certainly not applied; after a pause, again
    reply unknown             → may be applied; after a pause, again under the same `OnceId`
    reply forgotten           → not applied by this attempt; after a pause, again, now since a later
                                index; given up if an earlier attempt may be the forgotten one
    reply invalid, wrong_partition → certainly not applied; given up
    deadline                  → given up: `fail` if every attempt certainly never happened,
                                else `info`

The client (`client.client`) and the simulation carry out what `next` says and tell what came of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from zonequake_load.operation import (
    AttemptOutcomes,
    Function,
    Limits,
    OnceId,
    Operation,
    Outcome,
    TransactionOperation,
    Type,
)
from zonequake_load.randomness import Randomness
from zonequake_load.routing.routing_table import RoutingTable
from zonequake_protocol.client import (
    Append,
    Body,
    Cas,
    Read,
    Reply,
    ReplyStatus,
    RequestId,
    Transaction,
    Write,
)

PAUSE_MIN_S = 0.02
PAUSE_MAX_S = 0.2
"""Pauses between attempts double from the one to the other, with full jitter above the first."""

LAST_ATTEMPT_NS = 10_000_000
"""With less time left no further attempt is made: it would rarely be answered, and an unanswered
attempt makes an operation `info` that was `fail`."""

PAUSE_FLOOR = 0.25
"""The part of a pause that no news shortens: two nodes that name each other as leader must not be
asked at the speed of the network."""

KeyRequest = Read | Write | Cas | Append

_GIVE_UP = frozenset({ReplyStatus.INVALID, ReplyStatus.WRONG_PARTITION})


@dataclass(frozen=True, slots=True, kw_only=True)
class SendRequest:
    """Send `body` to `address`, and wait so long for its reply."""

    address: str
    body: Body
    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A pause; it ends after `PAUSE_FLOOR` of it once the table knows another leader than
    `tried`.
    """

    tried: str | None
    pause_s: float


class ClientState:
    """State that a client's operations share besides the table.

    `seen`: the last lineage of a group that a reply carried and the highest index of it, for
    `RequestId.since`. Indexes of a lineage begin again where the one before was given up.
    """

    def __init__(
        self, *, routes_wanted: Callable[[], None], way_changed: Callable[[], None]
    ) -> None:
        self.seen: dict[str, tuple[int, int]] = {}
        self.routes_wanted = routes_wanted
        self.way_changed = way_changed


class Attempts:
    """One operation under way. Call `next`, do what it says, tell the result, and again.

    A write without `once` must not be retried: the store could apply it twice.
    """

    def __init__(
        self,
        operation: Operation | TransactionOperation,
        limits: Limits,
        *,
        once: OnceId | None,
        table: RoutingTable,
        client_state: ClientState,
        rng: Randomness,
        reads_anywhere: bool,
    ) -> None:
        steps: tuple[Operation, ...]
        if isinstance(operation, TransactionOperation):
            assert once, "a transaction needs a name"
            reads = bounded = False
            steps = operation.steps
        else:
            reads, bounded = operation.f is Function.READ, operation.bounded
            assert once or not limits.retry or reads, "retry needs a name"
            steps = (operation,)
        self._operation = operation
        self._limits = limits
        self._once = once
        self._table = table
        self._client_state = client_state
        self._rng = rng
        # A bounded read is served by any replica and says nothing about the leader; nor does a read
        # that was asked of any replica, if the store is one that answers it there.
        self._anywhere = reads_anywhere and reads
        self._local = self._anywhere or bounded
        self.partition = table.partition_of(operation.key)
        self._others = {table.partition_of(step.key) for step in steps} - {self.partition}
        self._outcomes = AttemptOutcomes()
        self._hinted: str | None = None
        self._follow: str | None = None
        self._silent_nodes: set[str] = set()
        self._turns_away = False
        self._pause_s = PAUSE_MIN_S
        self._turn = rng.randrange(64)
        self._since = 0
        self._group: str | None = None
        self._address: str | None = None
        self._attempted = False
        self._outcome: Outcome | None = None

    def next(self, now_ns: int) -> SendRequest | Pause | Outcome:
        """Returns the next step."""
        if self._attempted:
            step = self._after_attempt(now_ns)
            if step is not None:
                return step
        left_ns = self._limits.deadline_ns - now_ns
        outcomes, table, partition = self._outcomes, self._table, self.partition
        if left_ns <= (LAST_ATTEMPT_NS if outcomes.sent else 0):
            return outcomes.conclude()
        group = table.group(partition)
        address = self._hinted or table.leader(partition)
        if (address is None or (self._anywhere and self._hinted is None)) and self._limits.retry:
            self._turn += 1
            address = table.member(partition, self._turn, without=self._silent_nodes)
        elif address is None:
            # One attempt only: the suspect may have lost no more than a connection.
            address = table.suspected(partition)
        self._attempted, self._follow = True, None
        self._group, self._address = group, address
        lost = [other for other in self._others if table.group(other) is None]
        if group is None or address is None or lost:
            unknown = lost[0] if lost else partition
            outcomes.refused(f"no leader of partition {unknown} is known")
            self._client_state.routes_wanted()
            return self.next(now_ns)
        if outcomes.never_happened:
            _, self._since = self._client_state.seen.get(group, (0, 0))
        return SendRequest(
            address=address,
            body=self._body(group),
            timeout_s=min(left_ns, self._limits.attempt_ns) / 1e9,
        )

    def _after_attempt(self, now_ns: int) -> Pause | Outcome | None:
        self._attempted = False
        if self._outcome is not None:
            return self._outcome
        if not self._limits.retry:
            return self._outcomes.conclude()
        if self._follow is not None and self._hinted is None:
            self._hinted = self._follow
            return None
        self._hinted = None
        if self._turns_away:
            self._turns_away = False
            if self._knows_another():
                return None
        pause_s = PAUSE_MIN_S + self._rng.random() * (self._pause_s - PAUSE_MIN_S)
        self._pause_s = min(PAUSE_MAX_S, self._pause_s * 2)
        self._client_state.routes_wanted()
        return Pause(
            tried=self._address,
            pause_s=min(pause_s, max(0.0, (self._limits.deadline_ns - now_ns) / 1e9)),
        )

    def _knows_another(self) -> bool:
        """Returns whether there is a node to ask that was not silent yet."""
        table, partition = self._table, self.partition
        other = table.leader(partition)
        if other is None:
            other = table.member(partition, self._turn + 1, without=self._silent_nodes)
        return other is not None and other not in self._silent_nodes

    # what came of an `SendRequest`

    def not_sent(self, why: str, now_ns: int) -> None:
        """Certainly nothing of the request left this machine."""
        self._outcomes.refused(why)
        self._silent(now_ns)

    def unanswered(self, why: str, now_ns: int) -> None:
        """Records that the request left, or may have, and no reply came."""
        self._outcomes.sent += 1
        self._outcomes.unsure(why)
        self._silent(now_ns)

    def answered(self, reply: Reply, now_ns: int) -> None:
        """Records that a reply came."""
        group, address, outcomes = self._group, self._address, self._outcomes
        assert group is not None, "only a sent request is answered"
        assert address is not None, "only a sent request is answered"
        outcomes.sent += 1
        seen = self._client_state.seen
        seen[group] = max((reply.lineage, reply.index), seen.get(group, (0, 0)))
        if reply.status is ReplyStatus.OK:
            self._confirm(address, reply)
            self._outcome = self._ok(address, reply)
            return
        name = self._table.name_of(address)
        if reply.status is ReplyStatus.UNKNOWN:
            outcomes.unsure(f"{name}: {reply.error or reply.status}")
        else:
            text = f"{reply.status}: {reply.error}" if reply.error else str(reply.status)
            outcomes.refused(f"{name}: {text}")
        if reply.status in _GIVE_UP or (
            reply.status is ReplyStatus.FORGOTTEN and not outcomes.never_happened
        ):
            self._outcome = outcomes.conclude()
        elif reply.status is not ReplyStatus.FORGOTTEN:
            self._follow = self._learn(group, address, reply, now_ns)

    def _silent(self, now_ns: int) -> None:
        assert self._address is not None, "only what was asked stays unanswered"
        self._table.suspect(self.partition, self._address, now_ns)
        self._client_state.routes_wanted()
        self._turns_away = self._address not in self._silent_nodes
        self._silent_nodes.add(self._address)

    def _confirm(self, address: str, reply: Reply) -> None:
        if not self._local and self._table.confirm(self.partition, address, reply.term):
            self._client_state.way_changed()

    def _ok(self, address: str, reply: Reply) -> Outcome:
        lineage, term, index = reply.position
        return Outcome(
            type=Type.OK,
            attempts=self._outcomes.sent,
            value=reply.value,
            applied=reply.applied,
            node=self._table.name_of(address),
            lineage=lineage,
            term=term,
            index=index,
            results=reply.results,
        )

    def _learn(self, group: str, address: str, reply: Reply, now_ns: int) -> str | None:
        """Returns what a refusal says about the way; the node to go to at once, if it names one."""
        table, partition = self._table, self.partition
        if reply.status in (ReplyStatus.OVERLOADED, ReplyStatus.LOCKED, ReplyStatus.STALE):
            return None
        if reply.status is ReplyStatus.NOT_HERE:
            if table.leader(partition) == address:
                table.forget(partition, group)
            self._client_state.routes_wanted()
            return None
        table.suspect(partition, address, now_ns)
        hint = reply.leader_address
        if reply.status is ReplyStatus.NOT_LEADER and hint is not None and hint != address:
            if table.hint(partition, hint, reply.leader, reply.term, now_ns):
                self._client_state.way_changed()
            return hint
        self._client_state.routes_wanted()
        return None

    def _body(self, group: str) -> Body:
        once, operation = self._once, self._operation
        request_id = RequestId(once.client, once.sequence, self._since) if once else None
        if not isinstance(operation, TransactionOperation):
            return _request(operation, group, request_id)
        assert request_id is not None, "a transaction has a name"
        table = self._table
        steps: list[KeyRequest] = []
        nodes: dict[str, list[str]] = {}
        for step in operation.steps:
            partition = table.partition_of(step.key)
            its_group = table.group(partition)
            assert its_group is not None, "what is sent has a group"
            steps.append(_request(step, its_group, None))
            nodes[its_group] = list(table.members(partition))
        return Transaction(group, steps, request_id, nodes)


def _request(operation: Operation, group: str, request_id: RequestId | None) -> KeyRequest:
    match operation.f:
        case Function.READ:
            return Read(group, operation.key, operation.bounded, operation.max_staleness_ms)
        case Function.WRITE:
            assert operation.value is not None
            return Write(group, operation.key, operation.value, operation.filler, request_id)
        case Function.CAS:
            assert operation.value is not None
            return Cas(group, operation.key, operation.expected, operation.value, request_id)
        case Function.APPEND:
            assert isinstance(operation.value, int)
            return Append(group, operation.key, operation.value, request_id)

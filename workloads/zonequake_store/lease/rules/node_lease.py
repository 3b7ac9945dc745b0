"""A node's Lease: the time for which the node may acknowledge what replicas of HighAvailability
zones do.

Sans-IO: an edge carries out `next_call` and reports what came of it; times are of the node's own
clock. Design §3, Membership.

    wanted ─► ReadLease ─► free, another process's or fenced ─► PutLease (session + 1) ─► holds
                       └─► our own, not fenced ─► PutLease (same session)      until asked +
                                                           duration, renewed at a quarter of it
    PutLease refused (the object changed) ─► ReadLease
    read: fenced ─► the session has ended; a PutLease begins the next one
    not wanted any more ─► PutLease (no holder)

An operator takes the Lease over by compare-and-swap (`fenced`) before it counts the node as left.
So while renewals succeed no operator has done so, however long the Lease had run out in between:
the session goes on. When one is refused, nothing of before counts any more. Each replica must be
permitted again in a session (`Permission`), by an order that was made from its Partition as it was
read after the session began: it carries any reset that was decided while the node had none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from zonequake_protocol.admin import LeaseTrouble
from zonequake_protocol.client import Reply, ReplyStatus

NOBODY = ""
RENEW_SHARE = 0.25
"""Share of the duration: the time from one renewal to the next, and the time-out of a call."""
RETRY_SHARE = 0.1
"""Share of the duration: the pause after a failed call before it is tried again."""
TROUBLE_SHARE = 0.5
"""Share of the duration: unrenewed for so long, at least one renewal has failed. A renewal that is
due at a quarter takes another one at most.
"""

NOT_PERMITTED = (
    "the node's Lease has run out, or the operator hasn't permitted this replica since; "
    "another replica may lead, or the same one will when the API server is back"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRecord:
    """The content of the Lease object.

    `holder`: the incarnation of the process whose session it is; `session` grows by one with each;
    `fenced`: the process that took it over, and why; None if none did.
    """

    holder: str
    session: int
    fenced: str | None = None


@dataclass(frozen=True, slots=True)
class ReadLease:
    """Ask for the Lease."""


@dataclass(frozen=True, slots=True)
class PutLease:
    """Write the Lease over what `version` names; None: create it."""

    record: LeaseRecord
    version: str | None


class NodeLease:
    """The rules of one process's Lease. `holder`: its incarnation."""

    def __init__(self, *, holder: str, duration_s: float) -> None:
        self.duration_s = duration_s
        self.session = 0
        """The session of the Lease as this process has it; 0: none."""
        self.holder = holder
        self._wanted = False
        self._may_be_ours = False
        """Something was sent that names this process as the holder, and no release is stored."""
        self._known: tuple[LeaseRecord | None, str | None] | None = None
        self._highest_session = 0
        """The highest session that was asked for. A call that was given up may still begin its
        session, and that one may be given up and its Lease deleted, so that no number may be asked
        for twice.
        """
        self._until_s = float("-inf")
        self._due_s = float("-inf")
        self._asked_s: float | None = None
        self._put: LeaseRecord | None = None
        self.problem: str | None = None
        """The reason for which the last call renewed nothing; None: it did."""
        self.unrenewed_since_s: float | None = None
        """Since the last renewal, or the first call since it is wanted; None: it isn't."""

    @property
    def is_wanted(self) -> bool:
        """Returns whether the node holds replicas that need it."""
        return self._wanted

    def want(self, wanted: bool) -> None:
        """Sets whether the node holds replicas that need it from now on."""
        if wanted != self._wanted:
            self._wanted = wanted
            self._due_s = float("-inf")
            self.unrenewed_since_s, self.problem = None, None
            if not wanted:
                self._end_session()

    def holds(self, now_s: float) -> bool:
        """Returns whether no operator can have counted this node as left by its Lease."""
        return self.session > 0 and now_s < self._until_s

    def trouble(self, now_s: float) -> LeaseTrouble | None:
        """Returns the trouble that needs a person's attention; None also during the first
        renewal.
        """
        since_s = self.unrenewed_since_s
        if since_s is None or now_s - since_s <= TROUBLE_SHARE * self.duration_s:
            return None
        return LeaseTrouble.NOT_RENEWED if self.holds(now_s) else LeaseTrouble.EXPIRED

    # ── what to ask, and what came of it ─────────────────────────────────────────────────────

    def rest_s(self, now_s: float) -> float | None:
        """Returns how long until `next_call` has something; None: not before `want`."""
        if not self._wanted and not self._may_be_ours:
            return None
        return max(0.0, self._due_s - now_s)

    def next_call(self, now_s: float) -> ReadLease | PutLease | None:
        """Returns the next call to the API server; one call at a time; its outcome must be
        reported.
        """
        if self._asked_s is not None or self.rest_s(now_s) != 0.0:
            return None
        self._asked_s = now_s
        if self._wanted and self.unrenewed_since_s is None:
            self.unrenewed_since_s = now_s
        if self._known is None:
            return ReadLease()
        record, version = self._known
        if self._wanted:
            self._put = self._ours(record)
            self._may_be_ours = True
        else:
            assert record is not None, "a Lease to be released was read or written"
            self._put = replace(record, holder=NOBODY, fenced=None)
        return PutLease(self._put, version)

    def _ours(self, record: LeaseRecord | None) -> LeaseRecord:
        if record is not None and record.holder == self.holder and record.fenced is None:
            return record
        self._highest_session = max(self._highest_session, record.session if record else 0) + 1
        return LeaseRecord(holder=self.holder, session=self._highest_session)

    def found(self, record: LeaseRecord | None, version: str | None) -> None:
        """Records the result of a ReadLease; None: there is no Lease."""
        self._answered()
        self._known = (record, version)
        if record is not None and record.holder == self.holder and record.fenced is None:
            if self._wanted:
                self._begin(record.session)  # an answer was lost
        else:
            self._end_session()
            self._may_be_ours = record is not None and record.holder == self.holder
        if record is not None and record.fenced is not None:
            self.problem = f"it was taken over: {record.fenced}"
        self._due_s = float("-inf")

    def stored(self, version: str) -> None:
        """Records that a PutLease was accepted."""
        asked_s, record = self._answered(), self._put
        assert record is not None, "a PutLease was asked for"
        self._known = (record, version)
        self.problem = None
        self._due_s = asked_s + RENEW_SHARE * self.duration_s
        if record.holder == NOBODY:
            self._may_be_ours = False
            self._due_s = float("-inf")
        elif self._wanted:
            self._begin(record.session)
            self._until_s = max(self._until_s, asked_s + self.duration_s)
            self.unrenewed_since_s = asked_s
        else:
            self._due_s = float("-inf")

    def refused(self) -> None:
        """Records that a PutLease met another version, or no Lease at all."""
        self._answered()
        self._known = None
        self.problem = "a write was refused: something else has written the Lease or deleted it"
        self._due_s = float("-inf")

    def failed(self, now_s: float, why: str = "the API server doesn't answer") -> None:
        """Records a call with unknown outcome: it may have taken effect, or may yet."""
        self._answered()
        self._known = None
        self.problem = why
        self._due_s = now_s + RETRY_SHARE * self.duration_s

    def _answered(self) -> float:
        asked_s, self._asked_s = self._asked_s, None
        assert asked_s is not None, "something was asked"
        return asked_s

    def _begin(self, session: int) -> None:
        self.session = session
        self._highest_session = max(self._highest_session, session)

    def _end_session(self) -> None:
        self.session = 0
        self._until_s = float("-inf")


class Permission:
    """The permission of one replica to acknowledge: the Lease holds, in a session in which it was
    permitted.

    `clock_s`: the clock by which the Lease is renewed.
    """

    def __init__(self, lease: NodeLease, clock_s: Callable[[], float]) -> None:
        self.session = 0
        """In which the replica was permitted last."""
        self._lease = lease
        self._clock_s = clock_s

    def permit(self, session: int, holder: str) -> None:
        """Permits the replica, as an order says, in this session of this process; it means nothing
        in another one. The number alone doesn't tell: once the operator deleted the Lease of a node
        that was given up, it starts over with the next process of that name.
        """
        if (holder, session) == (self._lease.holder, self._lease.session):
            self.session = session

    @property
    def holds(self) -> bool:
        """Now."""
        lease = self._lease
        return self.session == lease.session and lease.holds(self._clock_s())

    def guard(self, answer: Callable[[Reply], None]) -> Callable[[Reply], None]:
        """`answer`, but nothing is acknowledged unless the permission holds then."""

        def guarded(reply: Reply) -> None:
            if reply.status is ReplyStatus.OK and not self.holds:
                reply = Reply(reply.id, ReplyStatus.UNKNOWN, error=NOT_PERMITTED)
            answer(reply)

        return guarded

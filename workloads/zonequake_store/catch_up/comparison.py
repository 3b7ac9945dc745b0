"""Members compare their counters where all of them stand at some time: at configuration entries.

    follower                                      leader
    starts, or applies a configuration entry      applies it too
    Report(counters there) ────────────────────►  which counters does a majority have?
                           ◄── Verdict(None) ───  these: good
                           ◄── Verdict(others) ─  others: the follower's replica is broken
                                                  not the leader's: its own replica is broken

A leader's first entry is a configuration: so a group that was started with stale or damaged copies
compares them as soon as they have caught up. A copy that comes back alone, to a leader that goes on
leading, is compared as soon as both have applied the same: it repeats its report until then.

The counters of most members are right, not those of the leader: the leader may be the damaged one.
While members are missing and no majority agrees, nothing is decided; otherwise a damaged leader
would break every sound copy that comes back one by one. When all have reported and still none
agrees (two members, or three different ones), the leader's count.
"""

from __future__ import annotations

from collections import Counter
from typing import Protocol

from zonequake_store.catch_up.checkpoints import Checkpoints
from zonequake_store.catch_up.demander import REPEAT_TICKS, unequal_counters
from zonequake_store.catch_up.messages import Checkpoint, Report, ReportVerdict
from zonequake_store.raft.api import RaftRole
from zonequake_store.raft.core import Raft
from zonequake_store.raft.messages import Peer


class ComparisonEdge(Protocol):
    """The calls that a comparison makes to its surroundings."""

    def checkpoint(self) -> Checkpoint:
        """Returns the replica's counters as of what it has applied."""

    def send(self, frame: Report | ReportVerdict) -> None:
        """Sends the frame; it may get lost."""

    def break_down(self, reason: str) -> None:
        """Stops the replica, which must not go on."""


class Comparison:
    """One replica's part in it, as a follower or as the leader."""

    def __init__(
        self,
        *,
        group: str,
        me: Peer,
        raft: Raft,
        checkpoints: Checkpoints,
        edge: ComparisonEdge,
    ) -> None:
        self._group = group
        self._me = me
        self._raft = raft
        self._checkpoints = checkpoints
        self._edge = edge
        self._ticks = 0
        self._unanswered = False
        self._reported = Checkpoint()
        """The counters of the last report."""
        self._reports: dict[Peer, Checkpoint] = {}
        self._at = Checkpoint()
        self._agreed = False

    @property
    def is_waiting(self) -> bool:
        """Returns whether a report is unanswered; otherwise a tick has nothing to do."""
        return self._unanswered

    @property
    def is_agreed(self) -> bool:
        """Returns whether this leader's counters at its last configuration entry are the right
        ones.
        """
        configuration, own = self._raft.status().configuration, self._checkpoints.latest
        if configuration is None or own is None:
            return False
        return configuration.members == {self._me} or (self._agreed and own.is_at(self._at))

    def applied(self) -> None:
        """Records that the replica started, or a configuration entry was applied
        (`Checkpoints.fresh`).
        """
        self._unanswered = True
        self._ticks = 0
        self._report()

    def tick(self) -> None:
        """Handles a tick of the core."""
        if self._unanswered:
            self._ticks += 1
            if self._ticks % REPEAT_TICKS == 0:
                self._report()

    def _report(self) -> None:
        leader = self._raft.leader
        if leader == self._me:
            self._unanswered = False
        elif leader is not None:
            self._reported = self._checkpoints.latest or self._edge.checkpoint()
            self._edge.send(Report(self._group, leader, self._me, self._raft.term, self._reported))

    def reported(self, report: Report) -> None:
        """Handles the report of a follower, on a leader."""
        status = self._raft.status()
        own = self._checkpoints.latest
        if status.role is not RaftRole.LEADER or own is None or status.configuration is None:
            return
        found, members = report.checkpoint, status.configuration.members
        if not found.is_at(own) or report.sender not in members:
            if found.index < own.index:
                self._answer(report.sender, found.index, None)  # too old to say anything
            elif report.sender in members:
                self._judge_now(report.sender, found)
            return
        if not own.is_at(self._at):
            self._at = own
            self._agreed = False
            self._reports.clear()
        self._reports[report.sender] = found
        reports = {peer: each for peer, each in self._reports.items() if peer in members}
        if self._me in members:
            reports[self._me] = own
        self._judge(own, reports, len(members))

    def _judge_now(self, sender: Peer, found: Checkpoint) -> None:
        """Answers a copy that came back, if its counters are of the same entry as ours."""
        own = self._edge.checkpoint()
        if found.is_at(own) and self.is_agreed:
            self._answer(sender, own.index, None if found == own else (found, own))

    def _judge(self, own: Checkpoint, reports: dict[Peer, Checkpoint], members: int) -> None:
        right, count = Counter(reports.values()).most_common(1)[0]
        if 2 * count <= members:
            if len(reports) < members:
                return
            right = own
        if right != own:
            other = next(peer for peer, each in reports.items() if each == right)
            self._edge.break_down(unequal_counters(own, self._me, right, other))
            return
        self._agreed = True
        for peer, found in reports.items():
            if peer != self._me:
                self._answer(peer, own.index, None if found == right else (found, right))

    def _answer(self, to: Peer, index: int, unequal: tuple[Checkpoint, Checkpoint] | None) -> None:
        self._edge.send(ReportVerdict(self._group, to, self._me, self._raft.term, index, unequal))

    def judged(self, verdict: ReportVerdict) -> None:
        """Handles the verdict of the leader on a report, on a follower."""
        if verdict.term != self._raft.term or self._reported.index != verdict.index:
            return
        if verdict.unequal is not None and verdict.unequal[0] != self._reported:
            return
        self._unanswered = False
        if verdict.unequal is not None:
            found, expected = verdict.unequal
            self._edge.break_down(unequal_counters(found, self._me, expected, verdict.sender))

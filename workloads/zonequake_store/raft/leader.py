"""A leadership: replication, commitment, check-quorum, reads. It ends with the role."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from zonequake_store.raft.api import LeaderElected, SupplyPeer
from zonequake_store.raft.errors import NotLeader
from zonequake_store.raft.freshness import EchoRounds
from zonequake_store.raft.handover import Handover
from zonequake_store.raft.messages import (
    NEEDS_SNAPSHOT,
    Configuration,
    Entry,
    EntryKind,
    Message,
    MessageKind,
    Peer,
    encode_configuration,
)
from zonequake_store.raft.progress import Flow, ReplicationProgress
from zonequake_store.raft.quorum import majority_value
from zonequake_store.raft.reads import ReadRounds
from zonequake_store.raft.reconfigure import Reconfiguration
from zonequake_store.raft.state import RaftState


class Leader:
    """The state that only a leader has."""

    __slots__ = (
        "_append_due",
        "_check_ticks",
        "_echoes",
        "_halves",
        "_heartbeat_ticks",
        "_myself",
        "elected",
        "handover",
        "progress",
        "reads",
        "reconfiguration",
        "replica",
        "term_start",
    )

    def __init__(self, replica: RaftState) -> None:
        """Lead `replica.term`. The first entry is the current configuration: it commits what
        older terms left, and a forced configuration becomes known by it."""
        log = replica.log
        configuration = replica.forced or log.configuration
        assert configuration is not None, "only members are elected"
        self.replica = replica
        self.term_start = log.last_index + 1
        self.elected = False
        """The first own entry is committed."""
        self.reads = ReadRounds(replica)
        self._echoes = EchoRounds()
        self.progress: dict[Peer, ReplicationProgress] = {}
        """Progress of members and catching-up peers, without this replica."""
        self._myself = ReplicationProgress(replica.me, next_index=0, catching_up=False)
        self._myself.match = log.stable
        self._halves: list[list[ReplicationProgress]] = []
        self._append_due = False
        self._heartbeat_ticks = 0
        self._check_ticks = 0
        self.handover = Handover(self)
        self.append_configuration(configuration)
        self.reconfiguration = Reconfiguration(self)

    # proposing

    def propose(self, commands: Sequence[bytes]) -> int:
        successor = self.handover.successor
        if successor is not None:
            raise NotLeader(successor)
        self._append_due = True
        return self.replica.log.append_commands(self.replica.term, commands)

    def append_configuration(self, configuration: Configuration) -> None:
        """Append it; it acts at once."""
        log = self.replica.log
        data = encode_configuration(configuration)
        log.append([Entry(self.replica.term, log.last_index + 1, EntryKind.CONFIGURATION, data)])
        self._append_due = True
        # Sorted, because the order decides in which messages leave: a run must repeat by its seed.
        for peer in sorted(configuration.members - self.progress.keys() - {self.replica.me}):
            self.add_peer(peer, catching_up=False)
        for peer, progress in list(self.progress.items()):
            if peer in configuration.members:
                progress.joined()
            elif not progress.catching_up:
                del self.progress[peer]
        self._halves = [
            [self._myself if peer == self.replica.me else self.progress[peer] for peer in half]
            for half in (configuration.peers, configuration.old_peers)
            if half
        ]
        if self.reads.running or self._echoes.running:
            self._confirm_rounds()  # the half that had yet to answer may be gone

    def add_peer(self, peer: Peer, *, catching_up: bool) -> ReplicationProgress:
        next_index = self.replica.log.last_index + (1 if catching_up else 0)
        progress = ReplicationProgress(peer, next_index=next_index, catching_up=catching_up)
        self.progress[peer] = progress
        if catching_up:
            self._let_demand(progress)
        else:
            self._append_due = True
        return progress

    # time

    def tick(self) -> None:
        settings = self.replica.settings
        self._heartbeat_ticks += 1
        if self._heartbeat_ticks >= settings.heartbeat_ticks:
            self._heartbeat_ticks = 0
            self._beat()
        if not self.handover.tick():
            return
        self.reconfiguration.tick()
        self._check_ticks += 1
        if self._check_ticks >= settings.election_ticks:
            self._check_quorum()

    @property
    def quiet_ticks(self) -> int:
        """See Raft.quiet_ticks."""
        settings = self.replica.settings
        if self.handover.is_under_way or self.replica.refusing:
            return 0
        for progress in self.progress.values():
            if progress.catching_up or progress.flow is Flow.SUPPLIED:
                return 0
        to_heartbeat = settings.heartbeat_ticks - self._heartbeat_ticks
        return max(0, min(to_heartbeat, settings.election_ticks - self._check_ticks) - 1)

    def beat(self) -> None:
        """Send heartbeats now. The tick that is under way doesn't count for the next ones."""
        self._heartbeat_ticks = -1
        self._beat()

    def _beat(self) -> None:
        """Sends heartbeats to all, with a round for peers that ask how fresh they are."""
        replica = self.replica
        wanted = self._echoes.due or replica.freshness.is_wanted
        if wanted and self.elected and not self._echoes.running:
            replica.read_round += 1
            self._myself.acked_round = replica.read_round
            self._echoes.begin(
                replica.read_round,
                commit=replica.log.commit,
                now_ms=replica.freshness.now_ms,
                peers=self.progress.values(),
            )
            self._confirm_rounds()
        self.send_heartbeats(self.progress.values())

    def doubt(self) -> None:
        """Restarts the quorum check if a quorum was heard since it began, because a reset of the
        group is wanted. Otherwise a quorum that fell silent within this check would still count at
        its end, and the reset would wait one check longer.
        """
        if self._hears_quorum():
            self._begin_check()

    def _check_quorum(self) -> None:
        """Steps down if no quorum was heard: clients should look elsewhere (§6.2)."""
        if self._hears_quorum():
            self._begin_check()
        else:
            self.replica.become_follower(
                self.replica.term, None, "the leader lost contact with its quorum"
            )

    def _hears_quorum(self) -> bool:
        """Returns whether a quorum was heard since the check began."""
        self._myself.active = True
        return bool(self._agreed([[int(peer.active) for peer in half] for half in self._halves]))

    def _begin_check(self) -> None:
        self._check_ticks = 0
        for progress in self.progress.values():
            progress.active = False

    # replication

    def append_soon(self) -> None:
        """Makes the next Ready include the entries that peers may be sent."""
        self._append_due = True

    @property
    def new_half(self) -> list[ReplicationProgress]:
        """The members of the newest set: the other half is on its way out."""
        return [peer for peer in self._halves[0] if peer is not self._myself]

    @property
    def due(self) -> bool:
        return self._append_due or (self.elected and self.reads.due)

    def prepare(self) -> None:
        """Write the messages that a Ready takes along."""
        if self.elected and self.reads.due:
            self._myself.acked_round = self.reads.begin()
            self.send_heartbeats(each for each in self.progress.values() if not each.catching_up)
            self._confirm_rounds()
        if self._append_due:
            self._append_due = False
            for progress in self.progress.values():
                self._replicate(progress)

    def _replicate(self, progress: ReplicationProgress) -> None:
        """Send what this peer may be sent now."""
        last = self.replica.log.last_index
        limit = self.replica.settings.max_in_flight_appends
        if progress.flow is Flow.PROBE:
            if not progress.waiting and (progress.poke or progress.next <= last):
                self._append(progress, empty=False)
        elif progress.flow is Flow.REPLICATE:
            while progress.next <= last and len(progress.in_flight) < limit:
                if not self._append(progress, empty=False):
                    return
            if progress.poke:
                self._append(progress, empty=True)

    def _append(self, progress: ReplicationProgress, *, empty: bool) -> bool:
        """Send one APPEND; False: the peer must be supplied."""
        replica, log = self.replica, self.replica.log
        previous = progress.next - 1
        if previous < log.first_index - 1:
            if progress.active:
                self._let_demand(progress)
            return False
        entries: Sequence[Entry] = ()
        if not empty:
            entries = log.entries(progress.next, replica.settings.max_append_bytes)
        replica.out.messages.append(self._append_message(progress.peer, previous, entries))
        progress.sent(previous + len(entries))
        return True

    def _let_demand(self, progress: ReplicationProgress) -> None:
        progress.needs_supply()
        self.replica.out.supplies.append(SupplyPeer(to=progress.peer, term=self.replica.term))

    def _append_message(self, to: Peer, previous: int, entries: Sequence[Entry]) -> Message:
        replica, log = self.replica, self.replica.log
        return Message(
            kind=MessageKind.APPEND,
            to=to,
            sender=replica.me,
            term=replica.term,
            index=previous,
            log_term=log.term(previous),
            commit=log.commit,
            entries=tuple(entries),
            token=log.token,
        )

    def supply(self, to: Peer, index: int, log_term: int) -> Message | None:
        """See PeerSupply.next_append; `to` is supplied. Nothing is counted before it leaves.

        A catching-up peer gets only what is committed. It has no vote, and doesn't ask for one:
        with a longer log than any living voter, it could only refuse its own vote to a candidate of
        an unfinished joint configuration, and no leader would ever be elected.
        """
        log, max_bytes = self.replica.log, self.allowance(to)
        previous = index
        if not log.matches(index, log_term):
            previous = log.last_not_newer(index, log_term)[0]
            if index < log.first_index - 1 or log.term(previous) > log_term:
                return None
        entries = log.entries(previous + 1, max_bytes) if max_bytes else ()
        if self.progress[to].catching_up:
            entries = entries[: max(0, log.commit - previous)]
        return self._append_message(to, previous, entries)

    def allowance(self, to: Peer) -> int:
        """See PeerSupply.allowance. A member that lags is not slowed: its quorum misses it."""
        max_bytes, limit = self.replica.settings.max_append_bytes, self.replica.catch_up_limit
        if not self.progress[to].catching_up:
            return max_bytes
        return limit.sendable_bytes(max_bytes) if limit.may_send else 0

    def send_heartbeats(self, peers: Iterable[ReplicationProgress]) -> None:
        """Sends heartbeats with the commit index that each peer may take, and the newest round."""
        replica = self.replica
        commit = replica.log.commit
        replica.out.messages.extend(
            Message(
                kind=MessageKind.HEARTBEAT,
                to=progress.peer,
                sender=replica.me,
                term=replica.term,
                commit=min(progress.match, commit),
                index=progress.echo_commit,
                context=replica.read_round,
                token=replica.log.token,
                stamp=progress.echo_stamp,
            )
            for progress in peers
        )

    def on_append_reply(self, message: Message) -> None:
        progress = self._heard(message.sender)
        if progress is None:
            return
        log = self.replica.log
        if message.reject and message.context == NEEDS_SNAPSHOT:
            if progress.flow is not Flow.SUPPLIED and message.index >= progress.match:
                self._let_demand(progress)
            return
        if message.reject:
            hint = message.hint
            if message.hint_term and hint >= log.first_index - 1:
                hint = log.last_not_newer(hint, message.hint_term)[0]
            progress.rejected(message.index, hint)
            self._append_due = True
            return
        if progress.accepted(message.index, log.first_index):
            if message.index > log.commit and not progress.catching_up:
                self.commit()
            if progress.catching_up:
                self.reconfiguration.advance()
            self.handover.advanced(progress)
        if progress.poke or progress.next <= log.last_index:
            self._append_due = True

    def on_heartbeat_reply(self, message: Message) -> None:
        progress = self._heard(message.sender)
        if progress is None:
            return
        log = self.replica.log
        if progress.flow is Flow.SUPPLIED:
            if message.index + 1 >= log.first_index and not progress.catching_up:
                progress.accepted(message.index, log.first_index)  # its answer was lost
                self._append_due = True
        elif progress.match < log.last_index or progress.flow is Flow.PROBE:
            progress.waiting = False
            progress.poke = True
            self._append_due = True
        if message.stamp:
            progress.stamp = message.stamp
            self._echoes.due = True
        if message.context > progress.acked_round:
            progress.acked_round = message.context
            if self.reads.running or self._echoes.running:
                self._confirm_rounds()

    def _heard(self, peer: Peer) -> ReplicationProgress | None:
        progress = self.progress.get(peer)
        if progress is not None:
            progress.active = True
            progress.ended = False
            if progress.catching_up:
                self.reconfiguration.heard(peer)
        return progress

    def on_stored(self) -> None:
        """Records that more of the own log is durable."""
        self._myself.match = self.replica.log.stable
        self.commit()

    # deciding

    def commit(self) -> None:
        """Commit what each half's majority has stored. Only entries of the own term are
        committed by counting: an older one that a majority holds can still be overwritten
        (figure 8 of the Raft paper)."""
        log = self.replica.log
        agreed = self._agreed([[peer.match for peer in half] for half in self._halves])
        if agreed < self.term_start or not log.commit_to(agreed):
            return
        if not self.elected:
            self.elected = True
            self.replica.out.events.append(LeaderElected(term=self.replica.term))
        self.reconfiguration.committed()

    def _confirm_rounds(self) -> None:
        agreed = self._agreed([[peer.acked_round for peer in half] for half in self._halves])
        self.reads.confirmed(agreed)
        self._echoes.confirmed(agreed, self.replica.freshness, self.progress.values())

    @staticmethod
    def _agreed(halves: list[list[int]]) -> int:
        return min(majority_value(half) for half in halves)

    # ending

    def resign(self, reason: str) -> None:
        """Ends the role, and gives up what waited for it."""
        self.reads.abort()
        self.reconfiguration.resign(reason)

    # what the host reports

    def node_ended(self, node: str) -> None:
        """See `Raft.node_ended`: nothing that was sent there arrived, and no process there can
        lead.
        """
        for progress in self.progress.values():
            if progress.peer.node == node:
                progress.ended = True
                self.unreachable(progress.peer)
        self.handover.node_ended()

    def unreachable(self, peer: Peer) -> None:
        progress = self.progress.get(peer)
        if progress is not None and progress.flow is Flow.REPLICATE:
            progress.probe()

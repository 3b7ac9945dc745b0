"""One replica of a Raft group, sans-IO: the face that a host drives (see `raft.api`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zonequake_store.raft import bootstrap, election, reset, stepping
from zonequake_store.raft.api import (
    CancelAnswer,
    ChangePeersAnswer,
    GrantAnswer,
    LogReader,
    RaftSettings,
    RaftStatus,
    Ready,
    ResetAnswer,
)
from zonequake_store.raft.errors import ReadyOutstanding
from zonequake_store.raft.log import RaftLog
from zonequake_store.raft.messages import (
    Configuration,
    HardState,
    Message,
    MessageKind,
    Peer,
    SnapshotMeta,
)
from zonequake_store.raft.peer_supply import PeerSupply
from zonequake_store.raft.state import PendingReady, RaftState
from zonequake_store.raft.status import status_of


class Raft:
    """A replica. Not thread-safe: one thread calls everything."""

    __slots__ = ("_outstanding", "_replica", "_stored_hard_state", "_ticks_storing", "supply")

    def __init__(
        self,
        *,
        me: Peer,
        settings: RaftSettings,
        log: LogReader,
        hard_state: HardState,
        random: Callable[[int], int],
        applied: int = 0,
    ) -> None:
        """Starts from what is stored. `random(n)` gives 0 ≤ x < n. `applied`: index of the last
        entry in the host's durable applied state; `Ready.committed` goes on after it.

        A replica without configuration is passive: it never campaigns and learns from a leader.
        Raises LogCorrupted if log and applied state don't fit together."""
        view = RaftLog(
            log, commit=hard_state.commit, applied=applied, cached_bytes=settings.cached_bytes
        )
        self._replica = RaftState(
            me=me, settings=settings, log=view, hard_state=hard_state, random=random
        )
        self.supply = PeerSupply(self._replica)
        self._stored_hard_state = hard_state
        self._outstanding: Ready | None = None
        self._ticks_storing = 0

    # inputs

    def tick(self, now_ms: int | None = None, *, count: int = 1) -> None:
        """`settings.tick_s` have passed, `count` times. `now_ms`: a clock that goes on while the
        process doesn't (without it, ticks are counted, and `fresh_since_ms` is no better than the
        count)."""
        if self._outstanding is not None:
            self._ticks_storing += count
        replica = self._replica
        freshness = replica.freshness
        if now_ms is None:
            now_ms = freshness.now_ms + count * int(replica.settings.tick_s * 1000)
        freshness.tick(now_ms)
        if count > 1 and replica.leadership is None:
            count -= election.skip(replica, count - 1)
        for _ in range(count):
            if replica.leadership is not None:
                replica.leadership.tick()
            else:
                election.tick(replica)

    @property
    def quiet_ticks(self) -> int:
        """Returns how many of the next ticks only count, unless something else comes before: a host
        may report them late, all at once. Any other effect of tick() must be included here."""
        replica = self._replica
        if replica.leadership is not None:
            return replica.leadership.quiet_ticks
        return election.quiet_ticks(replica)

    def beat(self) -> bool:
        """Send a leader's heartbeats before they are due: a host that lets all its groups beat at
        once, and when its peers do, wakes up and sends less often. False: this is no leader."""
        if self._replica.leadership is None:
            return False
        self._replica.leadership.beat()
        return True

    def step(self, message: Message) -> None:
        """Take one message. One for another incarnation is ignored.

        Raises LogCorrupted if it shows that this replica's log is broken: stop the replica."""
        stepping.step(self._replica, message)

    def propose(self, commands: Sequence[bytes]) -> tuple[int, int]:
        """Append commands; returns (term, index of the first). Raises NotLeader.

        A command is committed if `Ready.committed` shows its index with this term, and lost if it
        shows the index with another term."""
        return self._replica.term, self._replica.as_leader().propose(commands)

    def read(self) -> int:
        """Start a linearizable read; returns its number, answered in `Ready.reads` or
        `Ready.aborted_reads`. Raises NotLeader."""
        return self._replica.as_leader().reads.add()

    def fresh_since_ms(self) -> int | None:
        """Returns the time of tick's clock before which everything acknowledged is in the applied
        state; None if unknown. Asking starts the inquiry (`raft.freshness`), also on a leader."""
        replica = self._replica
        # Claims speak of this lineage's entries, not of a state that a snapshot is to replace.
        replaced = replica.abstains or replica.log.pending_snapshot is not None
        return replica.freshness.since_ms(0 if replaced else replica.log.applied)

    # configuration and leadership

    def bootstrap(self, configuration: Configuration) -> bool:
        """Writes a group's first configuration as entry 1 of term 1, the same at each member.

        The term is of the configuration's lineage: not 0 for a group whose data was lost with all
        its replicas, and that starts over. False, and no effect: this replica has a log already.
        Raises BootstrapRefused if it is no member, the configuration is joint, or its lineage is
        older than the newest that this replica has received."""
        return bootstrap.bootstrap(self._replica, configuration)

    def change_peers(self, *, term: int, token: int, peers: tuple[Peer, ...]) -> ChangePeersAnswer:
        """changePeersAsync of the document `rebalance` (docs/interfaces.md, step 3): `stale` for
        an older term or token, see Reconfiguration.change_peers. Raises InvalidPeers."""
        leadership = self._replica.leadership
        if term < self._replica.term:
            return ChangePeersAnswer.STALE
        if leadership is None or term > self._replica.term:
            return ChangePeersAnswer.NOT_LEADER
        return leadership.reconfiguration.change_peers(token, peers)

    def grant(self, *, term: int, token: int, peers: tuple[Peer, ...]) -> GrantAnswer:
        """Takes the operator's permission to go on to JOINT (design §3, hole 15). Repeatable."""
        leadership = self._replica.leadership
        if term < self._replica.term:
            return GrantAnswer.STALE
        if leadership is None or term > self._replica.term:
            return GrantAnswer.NOT_LEADER
        return leadership.reconfiguration.grant(token, peers)

    def cancel_change_peers(self, *, term: int, token: int) -> CancelAnswer:
        """cancelChangePeers of the document `rebalance`: `received` (its true) if nothing runs or
        the change was still catching up, `busy` (its false) later. It leaves no entry in the log.

        `stale` for an older term, or a token below that of the change."""
        leadership = self._replica.leadership
        if term < self._replica.term:
            return CancelAnswer.STALE
        if leadership is None or term > self._replica.term:
            return CancelAnswer.NOT_LEADER
        return leadership.reconfiguration.cancel(token)

    def reset_peers(self, *, term: int, token: int, peers: tuple[Peer, ...]) -> ResetAnswer:
        """resetPeers: go on alone, without a majority, in the lineage named by `token`.

        `peers` is (me,). `received`: begun, or done before; it is done once this replica has
        stored its vote, leads, and has stored its first entry. Until then it is only in memory:
        repeat it until a leader reports a configuration of this lineage. `stale`: an older token
        than this replica has seen, or an older `term` than its own. `busy`: it hears a leader, or
        leads. Raises InvalidPeers, and ResetRefused if it holds nothing of its group."""
        return reset.reset_peers(self._replica, term=term, token=token, peers=peers)

    def enforce(self, lineage: int) -> None:
        """Abstains until this replica has the configuration of the reset with this token, decided
        here or elsewhere (`raft.reset`). Lower tokens have no effect."""
        self._replica.enforce(lineage)

    @property
    def abstains(self) -> bool:
        """Returns whether this replica waits for the log of a newer lineage that it knows of."""
        return self._replica.abstains

    def transfer_leadership(self, to: Peer | None = None) -> bool:
        """Hands leadership to `to`, or the most advanced follower. False: not leader, or no peer
        to take it. Proposals raise NotLeader until it is done or an election time-out passes."""
        leadership = self._replica.leadership
        return leadership is not None and leadership.handover.transfer(to)

    @property
    def expects_leader(self) -> bool:
        """Returns whether the leader's process is known to have ended: another one leads soon."""
        return self._replica.urgent

    @property
    def leads(self) -> bool:
        """Returns whether this replica leads; its host learns it with the next Ready."""
        return self._replica.leadership is not None

    @property
    def hands_over(self) -> bool:
        """Returns whether it leads, and a transfer to a peer is under way."""
        leadership = self._replica.leadership
        return leadership is not None and leadership.handover.is_transfer

    def refuse_leadership(self, refuse: bool) -> None:
        """Keeps a draining node from leading: it never campaigns, and hands over what it leads,
        again and again.
        """
        self._replica.refusing = refuse
        if refuse:
            self.transfer_leadership()

    def changes_configuration(self, index: int) -> bool:
        """Returns whether peers or token change with the configuration entry `index` of the log;
        a new leader's first entry only repeats what was in force."""
        return self._replica.log.changes_configuration(index)

    def last_command(self, counts: Callable[[bytes], bool]) -> tuple[int, int] | None:
        """Returns (term, index) of the newest command after the applied state whose data `counts`,
        committed or not; None if there is none."""
        return self._replica.log.last_command(counts)

    # the log

    def compact(self, index: int) -> None:
        """Entries up to `index` ≤ applied will not be read again: the host may drop them from the
        store, with snapshot_meta(index), taken before, as the log's new start. Call this before
        they are dropped."""
        self._replica.log.compact(index)

    def snapshot_meta(self, index: int) -> SnapshotMeta:
        """Returns the metadata of the applied state at `index`, for a snapshot or a compaction.

        Raises LogCompacted if `index` is below the log's start.
        """
        return self._replica.log.snapshot_meta(index)

    @property
    def pending_snapshot(self) -> SnapshotMeta | None:
        """The staged snapshot that replaces the log as soon as the host has stored it."""
        return self._replica.log.pending_snapshot

    def applied(self, index: int) -> None:
        """Records that the host has applied the committed entries up to `index`."""
        self._replica.log.applied = index

    # Ready

    def has_ready(self) -> bool:
        """Returns whether ready() has something to do; False while a Ready is outstanding."""
        if self._outstanding is not None:
            return False
        out = self._replica.out
        # First what an idle group has.
        return bool(out.after_store or out.messages or self._has_more_than_messages)

    def take_messages(self) -> Sequence[Message] | None:
        """Takes the messages of a Ready that would hold nothing else and need nothing stored, to be
        sent now; most often none. None: a turn must find out, or the Ready that is outstanding.

        An idle group does nothing but answer heartbeats, for which a Ready costs the most.
        """
        if self._outstanding is not None or self._has_more_than_messages:
            return None
        out = self._replica.out
        if not out.messages:
            messages, out.after_store = out.after_store, []
        else:
            messages = out.messages + out.after_store
            out.messages, out.after_store = [], []
        return messages

    @property
    def _has_more_than_messages(self) -> bool:
        replica = self._replica
        out, log, leadership = replica.out, replica.log, replica.leadership
        return bool(
            log.has_unstored
            or log.has_committed
            or (leadership is not None and leadership.due)
            or out.events
            or out.reads
            or out.aborted_reads
            or out.supplies
            or self._vote_is_unstored
        )

    @property
    def _vote_is_unstored(self) -> bool:
        stored = self._stored_hard_state
        return self._replica.term != stored.term or self._replica.vote != stored.vote

    def ready(self) -> Ready:
        """Returns the work for the host. Raises ReadyOutstanding before the last one is stored."""
        if self._outstanding is not None:
            raise ReadyOutstanding("call stored() for the last Ready before asking for another")
        replica = self._replica
        if replica.leadership is not None:
            replica.leadership.prepare()
        log, out = replica.log, replica.out
        snapshot, entries = log.take_unstored()
        hard_state: HardState | None = None
        if self._vote_is_unstored or (
            (entries or snapshot) and log.commit != self._stored_hard_state.commit
        ):
            hard_state = replica.hard_state
        replica.out = PendingReady()
        self._outstanding = Ready(
            hard_state=hard_state,
            entries=entries,
            snapshot=snapshot,
            messages=tuple(out.messages),
            messages_after_store=tuple(out.after_store),
            committed=log.take_committed(replica.settings.max_apply_bytes),
            reads=tuple(out.reads),
            aborted_reads=tuple(out.aborted_reads),
            supplies=tuple(out.supplies),
            events=tuple(out.events),
        )
        return self._outstanding

    @property
    def is_storing(self) -> bool:
        """Returns whether a Ready is outstanding: it waits for the disk."""
        return self._outstanding is not None

    def urgent(self) -> tuple[Message, ...]:
        """Heartbeats that need not wait for the outstanding Ready: they promise nothing of it.

        A slow disk must not cost the leadership; one that takes so long that a follower's would
        have passed twice must: nothing is committed while this leader's Ready is outstanding.
        """
        replica = self._replica
        if self._outstanding is None or replica.leadership is None or not replica.out.messages:
            return ()
        if self._ticks_storing > 2 * replica.settings.election_ticks:
            return ()
        beats = tuple(each for each in replica.out.messages if each.kind is MessageKind.HEARTBEAT)
        if beats:
            others = [m for m in replica.out.messages if m.kind is not MessageKind.HEARTBEAT]
            replica.out.messages = others
        return beats

    def stored(self, ready: Ready) -> None:
        """`ready`'s entries, hard state and snapshot are durable and readable in the log."""
        if ready is not self._outstanding:
            raise ReadyOutstanding("stored() takes the Ready that ready() gave last, once")
        self._outstanding = None
        self._ticks_storing = 0
        replica = self._replica
        replica.log.stored(ready.snapshot)
        if ready.hard_state is not None:
            self._stored_hard_state = ready.hard_state
            election.own_vote_stored(replica, ready.hard_state.term, ready.hard_state.vote)
        if ready.entries and replica.leadership is not None:
            replica.leadership.on_stored()

    # reports

    def report_unreachable(self, peer: Peer) -> None:
        """Probes `peer` before sending more: a message to it was certainly or probably lost."""
        if self._replica.leadership is not None:
            self._replica.leadership.unreachable(peer)

    def node_ended(self, node: str, *, lot: int = 0) -> None:
        """Records that the process of `node` has ended: there is proof, not only silence
        (`zonequake_store.network.endings` defines it).

        A follower of a leader there waits for no time-out. `lot`: the same at all replicas of the
        group, and another in other groups; it decides which one stands first.
        """
        if self._replica.leadership is not None:
            self._replica.leadership.node_ended(node)
        else:
            election.on_ended(self._replica, node, lot)

    # positions

    @property
    def term(self) -> int:
        """The current term."""
        return self._replica.term

    @property
    def leader(self) -> Peer | None:
        """The leader of the current term, as far as it is known."""
        return self._replica.leader

    @property
    def stored_position(self) -> tuple[int, int]:
        """Returns (index, term) of the last entry that is durable here: demands begin after it."""
        log = self._replica.log
        return log.stable, log.term(log.stable)

    def holds(self, index: int, term: int) -> bool:
        """Returns whether the log holds entry `index` with this term."""
        return self._replica.log.matches(index, term)

    def may_agree_at(self, index: int, term: int) -> tuple[int, int]:
        """Returns where this log can first agree with one that holds no entry newer than this."""
        log = self._replica.log
        at = log.last_not_newer(index, term)[0]
        return at, log.term(at)

    def status(self) -> RaftStatus:
        """Returns a copy of what is worth knowing."""
        return status_of(self._replica)

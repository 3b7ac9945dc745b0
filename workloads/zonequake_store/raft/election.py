"""Elections: pre-vote, vote, and what may be answered to them (thesis §3.4, §3.6.1, §4.2.3, §9.6).

    FOLLOWER ──time-out──▶ PRE_CANDIDATE ──majority──▶ CANDIDATE ──majority──▶ LEADER
                 (no term raised, nothing stored)   (term + 1, own vote stored)

Only a member of a configuration in its own log campaigns (Replica.may_campaign). Anybody may be
asked: a peer of a joint configuration's new half can be needed for a majority before it has that
entry. Who abstains (`raft.reset`) neither campaigns nor votes.
"""

from __future__ import annotations

from zonequake_store.lineage import number_of, term_of
from zonequake_store.raft import quorum
from zonequake_store.raft.api import LineageBegun, Role
from zonequake_store.raft.leader import Leader
from zonequake_store.raft.messages import Configuration, Kind, Message, Peer
from zonequake_store.raft.replica import Replica

TRANSFER = 1
"""`Message.context` of a VOTE that a leader asked for: the lease doesn't refuse it."""


def tick(replica: Replica) -> None:
    """A tick of a replica that doesn't lead."""
    if replica.forced is not None:
        return  # it waits for its disk, for nobody else
    replica.elapsed_ticks += 1
    if replica.elapsed_ticks < replica.timeout_ticks:
        return
    if replica.may_campaign and not replica.refusing and replica.log.pending_snapshot is None:
        _start_pre_vote(replica)
    else:
        replica.become_follower(replica.term, None, "the leader was not heard")


def skip(replica: Replica, ticks: int) -> int:
    """Let ticks pass that do nothing but count, `ticks` at most; returns how many."""
    if replica.forced is not None:
        return ticks
    skipped = max(0, min(ticks, replica.timeout_ticks - replica.elapsed_ticks - 1))
    replica.elapsed_ticks += skipped
    return skipped


def on_timeout_now(replica: Replica, message: Message) -> None:
    """The leader hands over (thesis §3.10): no pre-vote, the lease is its own to give up."""
    if replica.leadership is None and replica.may_campaign and not replica.refusing:
        _start_vote(replica, transfer=True)


def on_request(replica: Replica, message: Message) -> None:
    """A VOTE of the present term, or a PRE_VOTE for a later one."""
    pre_vote = message.kind is Kind.PRE_VOTE
    free = replica.leader is None and replica.vote in (None, message.sender)
    free = free or (pre_vote and message.term > replica.term)
    free = free and not replica.abstains
    granted = free and replica.log.is_up_to_date(message.index, message.log_term)
    if granted and not pre_vote:
        replica.vote = message.sender
        replica.elapsed_ticks = 0
    replica.out.after_store.append(
        Message(
            kind=Kind.PRE_VOTE_REPLY if pre_vote else Kind.VOTE_REPLY,
            to=message.sender,
            sender=replica.me,
            term=message.term if granted else replica.term,
            reject=not granted,
            token=replica.log.token,
        )
    )


def on_reply(replica: Replica, message: Message) -> None:
    """An answer to the election that runs; others are late."""
    wanted = Role.PRE_CANDIDATE if message.kind is Kind.PRE_VOTE_REPLY else Role.CANDIDATE
    if replica.role is not wanted:
        return
    if not message.reject and wanted is Role.PRE_CANDIDATE and message.term != replica.term + 1:
        return  # granted to an older pre-election
    count(replica, message.sender, granted=not message.reject)


def own_vote_stored(replica: Replica, term: int, vote: Peer | None) -> None:
    """A hard state is durable. If it is this candidate's own vote, it counts from now on."""
    if replica.role is Role.CANDIDATE and term == replica.term and vote == replica.me:
        count(replica, replica.me, granted=True)


def count(replica: Replica, voter: Peer, *, granted: bool) -> None:
    configuration = replica.forced or replica.log.configuration
    assert configuration is not None, "only members campaign"
    replica.votes.setdefault(voter, granted)
    match quorum.outcome(configuration, replica.votes):
        case quorum.Outcome.WON if replica.role is Role.PRE_CANDIDATE:
            _start_vote(replica, transfer=False)
        case quorum.Outcome.WON:
            _lead(replica)
        case quorum.Outcome.LOST:
            replica.become_follower(replica.term, None, "the election was lost")
        case quorum.Outcome.PENDING:
            pass


def _start_pre_vote(replica: Replica) -> None:
    replica.role = Role.PRE_CANDIDATE
    replica.set_leader(None)
    replica.restart_election_timer()
    replica.votes = {}
    _ask(replica, Kind.PRE_VOTE, replica.term + 1, context=0)
    count(replica, replica.me, granted=True)


def _start_vote(replica: Replica, *, transfer: bool) -> None:
    replica.role = Role.CANDIDATE
    replica.term += 1
    replica.vote = replica.me
    replica.set_leader(None)
    replica.restart_election_timer()
    replica.votes = {}
    _ask(replica, Kind.VOTE, replica.term, context=TRANSFER if transfer else 0)


def start_forced(replica: Replica, configuration: Configuration) -> None:
    """Stand for the forced configuration {me}: its own vote, once stored, is the majority."""
    replica.role = Role.CANDIDATE
    replica.term = term_of(configuration.lineage, number_of(replica.term) + 1)
    replica.vote = replica.me
    replica.forced = configuration
    replica.set_leader(None)
    replica.votes = {}


def _ask(replica: Replica, kind: Kind, term: int, *, context: int) -> None:
    log = replica.log
    assert log.configuration is not None, "only members campaign"
    replica.out.after_store.extend(
        Message(
            kind=kind,
            to=peer,
            sender=replica.me,
            term=term,
            index=log.last_index,
            log_term=log.last_term,
            context=context,
            token=log.token,
        )
        for peer in sorted(log.configuration.members)
        if peer != replica.me
    )


def _lead(replica: Replica) -> None:
    replica.role = Role.LEADER
    replica.votes = {}
    replica.elapsed_ticks = 0
    replica.set_leader(replica.me)
    if replica.forced is not None:
        last_term, last_index = replica.log.last_term, replica.log.last_index
        replica.out.events.append(
            LineageBegun(term=replica.term, last_term=last_term, last_index=last_index)
        )
    replica.leadership = Leader(replica)
    replica.forced = None

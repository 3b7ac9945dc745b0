"""Elections: pre-vote, vote, and what may be answered to them (thesis §3.4, §3.6.1, §4.2.3, §9.6).

    FOLLOWER ──time-out──▶ PRE_CANDIDATE ──majority──▶ CANDIDATE ──majority──▶ LEADER
                 (no term raised, nothing stored)   (term + 1, own vote stored)

Only a member of a configuration in its own log campaigns (RaftState.may_campaign). Any peer may be
asked: one of a joint configuration's new half can be needed for a majority before it has that
entry. A replica that abstains (`raft.reset`) neither campaigns nor votes.

A candidate asks those again that have not answered, after 1, 2, 4, … ticks: the first request may
have met a connection that was just being opened.

**A leader whose process has ended** is not waited for (`on_ended`). Each replica that has proof of
its own forgets that leader; one of them, by lot, begins a pre-vote at once, the others a few ticks
later if nothing came of it. A replica without proof still counts its leader as alive, and refuses
as before.
"""

from __future__ import annotations

from zonequake_protocol.terms import number_of, term_of
from zonequake_store.raft import quorum
from zonequake_store.raft.api import LineageBegun, RaftRole
from zonequake_store.raft.leader import Leader
from zonequake_store.raft.messages import Configuration, Message, MessageKind, Peer
from zonequake_store.raft.state import RaftState

TRANSFER = 1
"""`Message.context` of a VOTE that a leader asked for: the lease doesn't refuse it."""


def tick(replica: RaftState) -> None:
    """Handles a tick of a replica that doesn't lead."""
    if replica.forced is not None:
        return  # it waits for its disk alone
    replica.elapsed_ticks += 1
    if replica.elapsed_ticks < replica.timeout_ticks:
        if replica.role is not RaftRole.FOLLOWER and replica.elapsed_ticks.bit_count() == 1:
            _ask(replica)
        return
    if replica.role is not RaftRole.FOLLOWER:
        replica.urgent = False  # haste has failed once
    if _may_stand(replica):
        _start_pre_vote(replica)
    else:
        replica.become_follower(replica.term, None, "the leader was not heard")


def skip(replica: RaftState, ticks: int) -> int:
    """Skips ticks that do nothing but count, `ticks` at most; returns their number."""
    if replica.forced is not None:
        return ticks
    if replica.role is not RaftRole.FOLLOWER:
        return 0  # it may have to ask again
    skipped = max(0, min(ticks, replica.timeout_ticks - replica.elapsed_ticks - 1))
    replica.elapsed_ticks += skipped
    return skipped


def quiet_ticks(replica: RaftState) -> int:
    """See `Raft.quiet_ticks`."""
    if replica.role is not RaftRole.FOLLOWER and replica.forced is None:
        return 0
    return max(0, replica.timeout_ticks - replica.elapsed_ticks - 1)


def on_ended(replica: RaftState, node: str, lot: int) -> None:
    """Records that the leader's process has ended; this replica's host has proof of it.

    Only the pre-vote comes sooner than by the time-out: the rules of a vote are unchanged, so a
    wrong proof costs one question, which peers that hear the leader refuse.
    """
    configuration = replica.log.configuration
    if replica.leader is None or replica.leader.node != node or configuration is None:
        return
    replica.urgent, replica.ended_node = True, node
    replica.set_leader(None)
    replica.restart_election_timer()
    held, replica.refused_pre_vote = replica.refused_pre_vote, None
    if held is not None and held.term > replica.term and _grants(replica, held):
        _answer(replica, held, granted=True)
    if not _may_stand(replica):
        return
    others = sorted(peer for peer in configuration.members if peer.node != node)
    place = len(others)
    if replica.me in others:
        place = (others.index(replica.me) - lot) % len(others)
    if held is not None:
        place += 1  # another one stands
    replica.place = place
    if place == 0:
        _start_pre_vote(replica)
    else:
        replica.timeout_ticks = min(replica.timeout_ticks, 1 + place)


def on_timeout_now(replica: RaftState, message: Message) -> None:
    """Campaigns, as the leader hands over (thesis §3.10): no pre-vote, the lease is its own to give
    up.
    """
    if replica.leadership is None and replica.may_campaign and not replica.refusing:
        _start_vote(replica, asked_by_leader=True)


def on_request(replica: RaftState, message: Message) -> None:
    """Answers a VOTE of the present term, or a PRE_VOTE for a later one."""
    granted = _grants(replica, message)
    if granted and message.kind is MessageKind.VOTE:
        replica.vote = message.sender
        replica.elapsed_ticks = 0
    elif granted and replica.urgent and replica.role is RaftRole.FOLLOWER:
        replica.elapsed_ticks = 0  # another one stands: let it
    _answer(replica, message, granted=granted)


def _grants(replica: RaftState, message: Message) -> bool:
    free = replica.leader is None and replica.vote in (None, message.sender)
    free = free or (message.kind is MessageKind.PRE_VOTE and message.term > replica.term)
    free = free and not replica.abstains
    return free and replica.log.is_up_to_date(message.index, message.log_term)


def _answer(replica: RaftState, message: Message, *, granted: bool) -> None:
    pre_vote = message.kind is MessageKind.PRE_VOTE
    replica.out.after_store.append(
        Message(
            kind=MessageKind.PRE_VOTE_REPLY if pre_vote else MessageKind.VOTE_REPLY,
            to=message.sender,
            sender=replica.me,
            term=message.term if granted else replica.term,
            reject=not granted,
            token=replica.log.token,
        )
    )


def on_reply(replica: RaftState, message: Message) -> None:
    """Counts an answer to the election that runs, and ignores late ones."""
    wanted = (
        RaftRole.PRE_CANDIDATE if message.kind is MessageKind.PRE_VOTE_REPLY else RaftRole.CANDIDATE
    )
    if replica.role is not wanted:
        return
    if not message.reject and wanted is RaftRole.PRE_CANDIDATE and message.term != replica.term + 1:
        return  # granted to an older pre-election
    count(replica, message.sender, granted=not message.reject)


def own_vote_stored(replica: RaftState, term: int, vote: Peer | None) -> None:
    """Records that a hard state is durable. If it is this candidate's own vote, it counts from now
    on.
    """
    if replica.role is RaftRole.CANDIDATE and term == replica.term and vote == replica.me:
        count(replica, replica.me, granted=True)


def count(replica: RaftState, voter: Peer, *, granted: bool) -> None:
    configuration = replica.forced or replica.log.configuration
    assert configuration is not None, "only members campaign"
    replica.votes.setdefault(voter, granted)
    match quorum.outcome(configuration, replica.votes):
        case quorum.VoteResult.WON if replica.role is RaftRole.PRE_CANDIDATE:
            _start_vote(replica, asked_by_leader=False)
        case quorum.VoteResult.WON:
            _lead(replica)
        case quorum.VoteResult.LOST:
            replica.urgent = False
            replica.become_follower(replica.term, None, "the election was lost")
        case quorum.VoteResult.PENDING:
            _try_again_soon(replica, configuration)


def _try_again_soon(replica: RaftState, configuration: Configuration) -> None:
    """Tries again soon: all that can vote have voted, for several candidates, and the others
    can't.
    """
    if not replica.urgent or replica.role is not RaftRole.CANDIDATE:
        return
    if all(
        peer in replica.votes for peer in configuration.members if peer.node != replica.ended_node
    ):
        soon_ticks = replica.elapsed_ticks + 1 + replica.place
        replica.timeout_ticks = min(replica.timeout_ticks, soon_ticks)


def _may_stand(replica: RaftState) -> bool:
    return replica.may_campaign and not replica.refusing and replica.log.pending_snapshot is None


def _start_pre_vote(replica: RaftState) -> None:
    replica.role = RaftRole.PRE_CANDIDATE
    replica.set_leader(None)
    replica.restart_election_timer()
    replica.votes = {}
    _ask(replica)
    count(replica, replica.me, granted=True)


def _start_vote(replica: RaftState, *, asked_by_leader: bool) -> None:
    replica.role = RaftRole.CANDIDATE
    replica.term += 1
    replica.vote = replica.me
    replica.set_leader(None)
    replica.restart_election_timer()
    replica.votes = {}
    replica.asked_by_leader = asked_by_leader
    _ask(replica)


def start_forced(replica: RaftState, configuration: Configuration) -> None:
    """Stand for the forced configuration {me}: its own vote, once stored, is the majority."""
    replica.leave_lineage()
    replica.role = RaftRole.CANDIDATE
    replica.term = term_of(configuration.lineage, number_of(replica.term) + 1)
    replica.vote = replica.me
    replica.forced = configuration
    replica.set_leader(None)
    replica.votes = {}


def _ask(replica: RaftState) -> None:
    """Asks all that have not answered yet."""
    log = replica.log
    pre_vote = replica.role is RaftRole.PRE_CANDIDATE
    transfer = not pre_vote and replica.asked_by_leader
    assert log.configuration is not None, "only members campaign"
    replica.out.after_store.extend(
        Message(
            kind=MessageKind.PRE_VOTE if pre_vote else MessageKind.VOTE,
            to=peer,
            sender=replica.me,
            term=replica.term + 1 if pre_vote else replica.term,
            index=log.last_index,
            log_term=log.last_term,
            context=TRANSFER if transfer else 0,
            token=log.token,
        )
        for peer in sorted(log.configuration.members)
        if peer != replica.me and peer not in replica.votes
    )


def _lead(replica: RaftState) -> None:
    replica.role = RaftRole.LEADER
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

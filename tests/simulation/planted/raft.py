"""Faults in elections, replication, commitment and reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import pytest

from tests.simulation.planted.registry import Planted
from zonequake_store.network.endings import EndDetector, Failure
from zonequake_store.raft import election, follower, stepping
from zonequake_store.raft.api import LogReader, RaftSettings, Ready
from zonequake_store.raft.core import Raft
from zonequake_store.raft.leader import Leader
from zonequake_store.raft.log import RaftLog
from zonequake_store.raft.messages import Entry, HardState, Message, MessageKind, Peer, SnapshotMeta
from zonequake_store.raft.progress import Flow, ReplicationProgress
from zonequake_store.raft.reads import ReadRounds
from zonequake_store.raft.state import RaftState


def commit_older_terms(patch: pytest.MonkeyPatch) -> None:
    commit = Leader.commit

    def commit_anything(leader: Leader) -> None:
        start, leader.term_start = leader.term_start, 0
        commit(leader)
        leader.term_start = start

    patch.setattr(Leader, "commit", commit_anything)


def vote_twice(patch: pytest.MonkeyPatch) -> None:
    on_request = election.on_request

    def forget_vote_first(replica: RaftState, message: Message) -> None:
        replica.vote = replica.leader = None
        on_request(replica, message)

    patch.setattr(election, "on_request", forget_vote_first)


def start_without(
    patch: pytest.MonkeyPatch, **forgotten: Callable[[HardState], int | Peer | None]
) -> None:
    """A core that starts with other values in place of what its disk says."""
    start = Raft.__init__

    def forgetful(
        raft: Raft,
        *,
        me: Peer,
        settings: RaftSettings,
        log: LogReader,
        hard_state: HardState,
        random: Callable[[int], int],
        applied: int = 0,
    ) -> None:
        changed = {name: make(hard_state) for name, make in forgotten.items()}
        start(
            raft,
            me=me,
            settings=settings,
            log=log,
            hard_state=msgspec.structs.replace(hard_state, **changed),
            random=random,
            applied=applied,
        )

    patch.setattr(Raft, "__init__", forgetful)


def vote_forgotten_at_restart(patch: pytest.MonkeyPatch) -> None:
    start_without(patch, vote=lambda stored: None)


def term_not_stored(patch: pytest.MonkeyPatch) -> None:
    start_without(patch, term=lambda stored: max(stored.term - 1, 0), vote=lambda stored: None)


def vote_for_any_log(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RaftLog, "is_up_to_date", lambda log, index, term: True)


def vote_by_length_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RaftLog, "is_up_to_date", lambda log, index, term: index >= log.last_index)


def truncate_on_every_append(patch: pytest.MonkeyPatch) -> None:
    def merge(log: RaftLog, entries: Sequence[Entry]) -> None:
        if entries:
            if entries[0].index <= log.last_index:
                log._truncate(entries[0].index)
            log.append(entries)

    patch.setattr(RaftLog, "merge", merge)


def accept_any_predecessor(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        RaftLog,
        "matches",
        lambda log, index, term: log.first_index - 1 <= index <= log.last_index,
    )


def commit_beyond_what_matched(patch: pytest.MonkeyPatch) -> None:
    on_heartbeat = follower.on_heartbeat

    def commit_what_is_there(replica: RaftState, message: Message) -> None:
        there = min(message.commit, replica.log.last_index)
        on_heartbeat(replica, msgspec.structs.replace(message, commit=there))

    heartbeats = Leader.send_heartbeats

    def with_the_whole_commit(leader: Leader, peers: Sequence[ReplicationProgress]) -> None:
        peers = list(peers)
        matches = [progress.match for progress in peers]
        for progress in peers:
            progress.match = leader.replica.log.commit
        heartbeats(leader, peers)
        for progress, match in zip(peers, matches, strict=True):
            progress.match = match

    patch.setattr(follower, "on_heartbeat", commit_what_is_there)
    patch.setattr(Leader, "send_heartbeats", with_the_whole_commit)


def count_a_probe_as_stored(patch: pytest.MonkeyPatch) -> None:
    sent = ReplicationProgress.sent

    def and_count(progress: ReplicationProgress, last: int) -> None:
        sent(progress, last)
        if progress.flow is Flow.REPLICATE:
            progress.match = max(progress.match, last)

    patch.setattr(ReplicationProgress, "sent", and_count)


def answer_reads_without_a_round(patch: pytest.MonkeyPatch) -> None:
    begin = ReadRounds.begin

    def begin_and_answer(rounds: ReadRounds) -> int:
        number = begin(rounds)
        rounds.confirmed(number)
        return number

    patch.setattr(ReadRounds, "begin", begin_and_answer)


def read_before_an_own_entry(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Leader, "elected", property(lambda leader: True, lambda leader, value: None))


def old_read_rounds_count(patch: pytest.MonkeyPatch) -> None:
    confirmed = ReadRounds.confirmed

    def any_round(rounds: ReadRounds, round_number: int) -> None:
        if round_number:
            confirmed(rounds, rounds._replica.read_round)

    patch.setattr(ReadRounds, "confirmed", any_round)


def snapshot_over_a_longer_log(patch: pytest.MonkeyPatch) -> None:
    def install(replica: RaftState, message: Message) -> None:
        meta = message.snapshot
        assert isinstance(meta, SnapshotMeta)
        replica.log.install(meta)
        follower._acknowledge(replica, message, meta.index)

    patch.setattr(follower, "on_snapshot", install)


def old_terms_are_obeyed(patch: pytest.MonkeyPatch) -> None:
    accept = stepping._accept_term

    def accept_old_leaders(replica: RaftState, message: Message) -> bool:
        if message.kind in stepping.FROM_LEADERS and message.term < replica.term:
            return True
        return accept(replica, message)

    become = RaftState.become_follower

    def in_the_present_term(
        replica: RaftState, term: int, leader: Peer | None, reason: str
    ) -> None:
        become(replica, max(term, replica.term), leader, reason)

    patch.setattr(stepping, "_accept_term", accept_old_leaders)
    patch.setattr(RaftState, "become_follower", in_the_present_term)


def acknowledge_before_storing(patch: pytest.MonkeyPatch) -> None:
    ready = Raft.ready

    def all_at_once(raft: Raft) -> Ready:
        found = ready(raft)
        changed = msgspec.structs.replace(
            found, messages=found.messages + found.messages_after_store, messages_after_store=()
        )
        raft._outstanding = changed
        return changed

    patch.setattr(Raft, "ready", all_at_once)


def count_own_entries_before_they_are_stored(patch: pytest.MonkeyPatch) -> None:
    prepare = Leader.prepare

    def count_all_first(leader: Leader) -> None:
        leader._myself.match = leader.replica.log.last_index
        prepare(leader)

    patch.setattr(Leader, "prepare", count_all_first)


def count_a_cut_link_as_refused(patch: pytest.MonkeyPatch) -> None:
    lost, failed = EndDetector.lost, EndDetector.failed
    patch.setattr(EndDetector, "lost", lambda ending, *, by_peer: lost(ending, by_peer=True))
    patch.setattr(
        EndDetector, "failed", lambda ending, address, how: failed(ending, address, Failure.REFUSED)
    )


def count_a_closed_connection_as_an_end(patch: pytest.MonkeyPatch) -> None:
    greeted = EndDetector.greeted

    def each_node_that_greets(ending: EndDetector, address: str, process: str) -> str | None:
        before = ending._process if ending._is_lost else None
        return greeted(ending, address, process) or before

    patch.setattr(EndDetector, "greeted", each_node_that_greets)


def promise_votes_beside_a_leader(patch: pytest.MonkeyPatch) -> None:
    accept = stepping._accept_term

    def believe_the_candidate(replica: RaftState, message: Message) -> bool:
        if message.kind is MessageKind.PRE_VOTE and replica.leadership is None:
            replica.leader = None
        return accept(replica, message)

    patch.setattr(stepping, "_accept_term", believe_the_candidate)


def _planted(name: str, what: str, apply: Callable[[pytest.MonkeyPatch], None]) -> Planted:
    return Planted(name=name, area="raft", scenario="raft", what=what, apply=apply)


PLANTED = [
    _planted(
        "old-term-committed-by-counting",
        "a leader commits an entry of an older term because a majority stores it (figure 8)",
        commit_older_terms,
    ),
    _planted("two-votes-in-a-term", "a replica forgets its vote at each request", vote_twice),
    _planted(
        "vote-forgotten-at-restart",
        "a replica starts without the vote that its disk holds",
        vote_forgotten_at_restart,
    ),
    _planted(
        "term-not-stored",
        "a replica starts in the term before the one it was in",
        term_not_stored,
    ),
    _planted("vote-for-any-log", "a vote is given to a shorter log, too", vote_for_any_log),
    _planted(
        "vote-by-length-alone",
        "a vote is given to a log that is as long, whatever its last term",
        vote_by_length_alone,
    ),
    _planted(
        "matching-suffix-truncated",
        "an APPEND truncates what follows it even if nothing conflicts",
        truncate_on_every_append,
    ),
    _planted(
        "any-predecessor-accepted",
        "a follower appends behind an entry of another term",
        accept_any_predecessor,
    ),
    _planted(
        "commit-beyond-the-match",
        "a heartbeat commits what the follower holds there, matched or not",
        commit_beyond_what_matched,
    ),
    _planted(
        "sent-counts-as-stored",
        "the leader counts an entry as soon as it has sent it",
        count_a_probe_as_stored,
    ),
    _planted(
        "own-entry-counted-early",
        "the leader counts its own entries before they are stored",
        count_own_entries_before_they_are_stored,
    ),
    _planted(
        "acknowledged-before-stored",
        "votes and acknowledgements leave before what they promise is stored",
        acknowledge_before_storing,
    ),
    _planted(
        "old-leaders-obeyed",
        "a follower takes entries from a leader of an older term",
        old_terms_are_obeyed,
    ),
    _planted(
        "read-without-a-round",
        "a leader answers reads without asking whether it still leads",
        answer_reads_without_a_round,
    ),
    _planted(
        "read-by-an-older-round",
        "an answer to an earlier round confirms a read",
        old_read_rounds_count,
    ),
    _planted(
        "read-before-an-own-entry",
        "a new leader reads at a commit index that may be old",
        read_before_an_own_entry,
    ),
    _planted(
        "snapshot-over-a-longer-log",
        "a late snapshot replaces a log that is already further",
        snapshot_over_a_longer_log,
    ),
    _planted(
        "cut-link-counts-as-refused",
        "a link that is cut counts as proof that the process behind it has ended",
        count_a_cut_link_as_refused,
    ),
    _planted(
        "closed-counts-as-ended",
        "a connection that a peer closed counts as proof, though the same process greets again",
        count_a_closed_connection_as_an_end,
    ),
    _planted(
        "promise-beside-a-leader",
        "a follower that hears its leader promises a vote because another one asks for it",
        promise_votes_beside_a_leader,
    ),
]

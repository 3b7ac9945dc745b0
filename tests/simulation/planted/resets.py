"""Faults in resets, lineages, cancelled changes, incarnations and bounded reads.

They belong to the area `reconfiguration`, whose list takes them in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest

from tests.simulation.planted.registry import Planted
from zonequake_protocol.admin import Stage
from zonequake_protocol.client import Read, Reply
from zonequake_simulation.replicas import Replicas
from zonequake_store.raft import election, follower, reset
from zonequake_store.raft.api import CancelAnswer, ChangePeersAnswer, ResetAnswer
from zonequake_store.raft.freshness import EchoRounds, Freshness
from zonequake_store.raft.log import RaftLog
from zonequake_store.raft.messages import Configuration, Peer
from zonequake_store.raft.progress import ReplicationProgress
from zonequake_store.raft.reconfigure import Reconfiguration
from zonequake_store.raft.state import RaftState
from zonequake_store.replica import replica
from zonequake_store.replica.bounded_reads import bounded_reply
from zonequake_store.storage.log_writes import GroupRecord


def _reset_in_spite_of(patch: pytest.MonkeyPatch, refusal: ResetAnswer) -> None:
    checked = reset.reset_peers

    def unchecked(
        replica: RaftState, *, term: int, token: int, peers: tuple[Peer, ...]
    ) -> ResetAnswer:
        answer = checked(replica, term=term, token=token, peers=peers)
        if answer is not refusal or replica.leadership is not None:
            return answer
        forced = Configuration(peers=peers, token=token, lineage=token)
        election.start_forced(replica, forced)
        return ResetAnswer.RECEIVED

    patch.setattr(reset, "reset_peers", unchecked)


def reset_by_an_older_token(patch: pytest.MonkeyPatch) -> None:
    _reset_in_spite_of(patch, ResetAnswer.STALE)


def reset_beside_a_leader(patch: pytest.MonkeyPatch) -> None:
    _reset_in_spite_of(patch, ResetAnswer.BUSY)


def reset_to_the_next_plain_term(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        election, "start_forced", _starting(lambda replica, configuration: replica.term + 1)
    )


def _starting(term_of: Callable[[RaftState, Configuration], int]) -> Callable[..., None]:
    start = election.start_forced

    def start_forced(replica: RaftState, configuration: Configuration) -> None:
        term = term_of(replica, configuration)
        start(replica, configuration)
        replica.term = term

    return start_forced


def lead_the_reset_before_it_is_stored(patch: pytest.MonkeyPatch) -> None:
    start = election.start_forced

    def at_once(replica: RaftState, configuration: Configuration) -> None:
        start(replica, configuration)
        election.count(replica, replica.me, granted=True)

    patch.setattr(election, "start_forced", at_once)


def abstain_from_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RaftState, "abstains", property(lambda replica: False))


def elect_while_abstaining(patch: pytest.MonkeyPatch) -> None:
    members = property(lambda replica: replica.log.may_contain(replica.me))
    patch.setattr(RaftState, "may_campaign", members)
    _as_if_taking_part(patch, election, "on_request")


def take_old_commits_for_a_match(patch: pytest.MonkeyPatch) -> None:
    _as_if_taking_part(patch, follower, "on_append")
    _as_if_taking_part(patch, follower, "on_heartbeat")


def _as_if_taking_part(patch: pytest.MonkeyPatch, module: Any, name: str) -> None:
    """Within this function no replica abstains."""
    abstains: property = RaftState.__dict__["abstains"]
    inside: list[RaftState] = []
    patch.setattr(
        RaftState,
        "abstains",
        property(lambda replica: replica not in inside and abstains.__get__(replica)),
    )
    function = getattr(module, name)

    def within(replica: RaftState, message: object) -> None:
        inside.append(replica)
        try:
            function(replica, message)
        finally:
            inside.remove(replica)

    patch.setattr(module, name, within)


def hand_out_old_commits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RaftLog, "forget_commits", lambda log: None)


def forget_the_lineage_in_the_next_change(patch: pytest.MonkeyPatch) -> None:
    def append(change: Reconfiguration, *, old_peers: tuple[Peer, ...]) -> None:
        change._leader.append_configuration(
            Configuration(peers=change.peers, old_peers=old_peers, token=change.token)
        )

    patch.setattr(Reconfiguration, "_append", append)


def leave_an_entry_at_a_cancel(patch: pytest.MonkeyPatch) -> None:
    cancel = Reconfiguration.cancel

    def with_an_entry(change: Reconfiguration, token: int) -> CancelAnswer:
        runs = change.stage is Stage.CATCHING_UP
        answer = cancel(change, token)
        if runs and answer is CancelAnswer.RECEIVED:
            change._leader.append_configuration(change._configuration)
        return answer

    patch.setattr(Reconfiguration, "cancel", with_an_entry)


def cancel_by_an_older_token(patch: pytest.MonkeyPatch) -> None:
    cancel = Reconfiguration.cancel
    patch.setattr(
        Reconfiguration,
        "cancel",
        lambda change, token: cancel(change, max(token, change.token, change._highest_token)),
    )


def cancel_what_is_joint(patch: pytest.MonkeyPatch) -> None:
    cancel = Reconfiguration.cancel

    def whatever_the_stage(change: Reconfiguration, token: int) -> CancelAnswer:
        answer = cancel(change, token)
        if answer is CancelAnswer.BUSY:
            change.resign("the change was cancelled")
            return CancelAnswer.RECEIVED
        return answer

    patch.setattr(Reconfiguration, "cancel", whatever_the_stage)


def change_by_an_older_token(patch: pytest.MonkeyPatch) -> None:
    change_peers = Reconfiguration.change_peers

    def unchecked(
        change: Reconfiguration, token: int, peers: tuple[Peer, ...]
    ) -> ChangePeersAnswer:
        answer = change_peers(change, token, peers)
        if answer is ChangePeersAnswer.STALE and change.stage is Stage.NONE:
            change._begin(token, tuple(sorted(peers)))
            return ChangePeersAnswer.RECEIVED
        return answer

    patch.setattr(Reconfiguration, "change_peers", unchecked)


def keep_the_incarnation(patch: pytest.MonkeyPatch) -> None:
    new_record = Replicas._new_record

    def under_the_old_name(replicas: Replicas, *args: Any, **named: Any) -> GroupRecord:
        record = new_record(replicas, *args, **named)
        return msgspec.structs.replace(record, incarnation=f"{replicas._name}-as-ever")

    patch.setattr(Replicas, "_new_record", under_the_old_name)


def ignore_the_bound(patch: pytest.MonkeyPatch) -> None:
    def of_any_age(id_: int, read: Read, **named: Any) -> Reply:
        return bounded_reply(id_, msgspec.structs.replace(read, max_staleness_ms=0), **named)

    patch.setattr(replica, "bounded_reply", of_any_age)


def echo_without_a_quorum(patch: pytest.MonkeyPatch) -> None:
    begin = EchoRounds.begin

    def confirmed_by_itself(
        echoes: EchoRounds,
        round_number: int,
        *,
        commit: int,
        now_ms: int,
        peers: Iterable[ReplicationProgress],
    ) -> None:
        begin(echoes, round_number, commit=commit, now_ms=now_ms, peers=peers)
        echoes.running = False
        for peer in peers:
            peer.echo_stamp, peer.echo_commit = peer.offered_stamp, commit

    patch.setattr(EchoRounds, "begin", confirmed_by_itself)


def claim_what_is_not_applied(patch: pytest.MonkeyPatch) -> None:
    since_ms = Freshness.since_ms
    patch.setattr(Freshness, "since_ms", lambda freshness, applied: since_ms(freshness, 1 << 60))


def _planted(
    name: str, what: str, apply: Callable[[pytest.MonkeyPatch], None], scenario: str = "reset"
) -> Planted:
    return Planted(name=name, area="reconfiguration", scenario=scenario, what=what, apply=apply)


PLANTED = [
    _planted(
        "reset-by-an-older-token",
        "a reset with an older token or term is carried out: the token is ignored",
        reset_by_an_older_token,
    ),
    _planted(
        "reset-beside-a-leader",
        "a replica that hears a leader is reset all the same",
        reset_beside_a_leader,
    ),
    _planted(
        "reset-to-the-next-plain-term",
        "a reset's term is term + 1 without its lineage",
        reset_to_the_next_plain_term,
    ),
    _planted(
        "reset-leads-before-stored",
        "the survivor leads before its term and vote are stored",
        lead_the_reset_before_it_is_stored,
    ),
    _planted(
        "nobody-abstains",
        "a replica that was told of a reset takes part with its old configuration",
        abstain_from_nothing,
    ),
    _planted(
        "abstaining-replica-elects",
        "a replica that abstains campaigns and votes",
        elect_while_abstaining,
    ),
    _planted(
        "old-commits-match",
        "commits of an older lineage count as a match of the logs",
        take_old_commits_for_a_match,
    ),
    _planted(
        "old-commits-handed-out",
        "commits of the old lineage are told after the reset was heard of",
        hand_out_old_commits,
    ),
    _planted(
        "lineage-forgotten",
        "the first change after a reset forgets its lineage",
        forget_the_lineage_in_the_next_change,
    ),
    _planted(
        "cancel-leaves-an-entry",
        "a cancelled change leaves an entry in the log",
        leave_an_entry_at_a_cancel,
        "reconfiguration",
    ),
    _planted(
        "cancel-by-an-older-token",
        "a cancel with an older token is carried out",
        cancel_by_an_older_token,
        "reconfiguration",
    ),
    _planted(
        "joint-change-cancelled",
        "a change that is joint is cancelled",
        cancel_what_is_joint,
        "reconfiguration",
    ),
    _planted(
        "change-by-an-older-token",
        "a change with an older token is carried out",
        change_by_an_older_token,
        "reconfiguration",
    ),
    _planted(
        "incarnation-kept",
        "a replica that lost log and vote votes again under its old incarnation",
        keep_the_incarnation,
        "volatile",
    ),
    _planted(
        "bound-ignored",
        "a bounded read is answered however old the state is",
        ignore_the_bound,
        "raft",
    ),
    _planted(
        "freshness-without-a-quorum",
        "a leader vouches for followers' states without asking its quorum",
        echo_without_a_quorum,
        "raft",
    ),
    _planted(
        "freshness-before-applied",
        "a state counts as fresh before what was committed is applied",
        claim_what_is_not_applied,
        "raft",
    ),
]

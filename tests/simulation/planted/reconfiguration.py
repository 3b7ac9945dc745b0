"""Faults in changes of peers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulation.planted.registry import Planted
from zonequake_store.raft import quorum
from zonequake_store.raft.leader import Leader
from zonequake_store.raft.log import RaftLog
from zonequake_store.raft.messages import Configuration, Peer
from zonequake_store.raft.progress import ReplicationProgress
from zonequake_store.raft.reconfigure import Reconfiguration
from zonequake_store.raft.state import RaftState


def decide_by_the_new_half_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Leader, "_agreed", staticmethod(lambda halves: quorum.majority_value(halves[0])))


def decide_by_the_old_half_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Leader, "_agreed", staticmethod(lambda halves: quorum.majority_value(halves[-1])))


def decide_by_both_halves_together(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        Leader,
        "_agreed",
        staticmethod(
            lambda halves: quorum.majority_value([each for half in halves for each in half])
        ),
    )


def elect_by_the_new_half_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        quorum,
        "outcome",
        lambda configuration, votes: quorum.half_outcome(configuration.peers, votes),
    )


def keep_a_truncated_configuration(patch: pytest.MonkeyPatch) -> None:
    truncate = RaftLog._truncate

    def without_rollback(log: RaftLog, index: int) -> None:
        kept = list(log._configurations)
        truncate(log, index)
        log._configurations = kept
        log._use_latest_configuration()

    patch.setattr(RaftLog, "_truncate", without_rollback)


def never_finish_an_inherited_change(patch: pytest.MonkeyPatch) -> None:
    start = Reconfiguration.__init__

    def without_taking_up(change: Reconfiguration, leader: Leader) -> None:
        log = leader.replica.log
        configuration = log.configuration
        assert configuration is not None
        log.configuration = Configuration(
            peers=configuration.peers,
            token=configuration.token,
            lineage=configuration.lineage,
        )
        start(change, leader)
        log.configuration = configuration

    patch.setattr(Reconfiguration, "__init__", without_taking_up)


def joint_without_a_grant(patch: pytest.MonkeyPatch) -> None:
    advance = Reconfiguration.advance

    def as_if_granted(change: Reconfiguration) -> None:
        change._granted = True
        advance(change)

    patch.setattr(Reconfiguration, "advance", as_if_granted)


def joint_before_caught_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Reconfiguration, "_is_caught_up", lambda change, peer: True)


def skip_joint(patch: pytest.MonkeyPatch) -> None:
    append = Leader.append_configuration

    def new_set_at_once(leader: Leader, configuration: Configuration) -> None:
        append(
            leader,
            Configuration(
                peers=configuration.peers,
                token=configuration.token,
                lineage=configuration.lineage,
            ),
        )

    patch.setattr(Leader, "append_configuration", new_set_at_once)


def heed_the_removed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RaftState, "hears_leader", property(lambda replica: False))
    patch.setattr(Leader, "progress", _Everybody())


class _Everybody:
    """A leader's table of peers in which every node seems to be, for the rule on later terms."""

    def __init__(self) -> None:
        self._tables: dict[int, dict[Peer, ReplicationProgress]] = {}

    def __get__(self, leader: Leader | None, owner: type) -> object:
        return self if leader is None else self._tables[id(leader)]

    def __set__(self, leader: Leader, table: dict[Peer, ReplicationProgress]) -> None:
        self._tables[id(leader)] = _Containing(table)


class _Containing(dict[Peer, ReplicationProgress]):
    def __contains__(self, peer: object) -> bool:
        return True


def _planted(name: str, what: str, apply: Callable[[pytest.MonkeyPatch], None]) -> Planted:
    return Planted(
        name=name, area="reconfiguration", scenario="reconfiguration", what=what, apply=apply
    )


PLANTED = [
    _planted(
        "new-half-decides",
        "the new half of a joint configuration commits alone",
        decide_by_the_new_half_alone,
    ),
    _planted(
        "old-half-decides",
        "the old half of a joint configuration commits alone",
        decide_by_the_old_half_alone,
    ),
    _planted(
        "halves-decide-together",
        "a majority of all members of a joint configuration commits",
        decide_by_both_halves_together,
    ),
    _planted(
        "new-half-elects",
        "the new half of a joint configuration elects alone",
        elect_by_the_new_half_alone,
    ),
    _planted(
        "configuration-kept-after-truncation",
        "a configuration acts on though its entry was overwritten",
        keep_a_truncated_configuration,
    ),
    _planted(
        "half-done-change-left",
        "a new leader doesn't finish the joint change that it finds",
        never_finish_an_inherited_change,
    ),
    _planted("no-grant", "a change goes to JOINT without a grant", joint_without_a_grant),
    _planted(
        "joint-before-caught-up",
        "every catching-up peer counts as caught up",
        joint_before_caught_up,
    ),
    _planted("no-joint-phase", "a change goes from the old set to the new at once", skip_joint),
    _planted(
        "removed-replica-disturbs",
        "whoever asks for a vote with a later term ends a leadership",
        heed_the_removed,
    ),
]

"""Facts about one group's elections, log, changes and storage."""

from __future__ import annotations

from types import SimpleNamespace as Made
from typing import Any

from tests.unit.simulation.broken_rules import breaks
from zonequake_protocol.admin import Stage
from zonequake_protocol.terms import term_of
from zonequake_simulation.checks.ledger import Ledger, StoredLog
from zonequake_simulation.checks.raft import RaftRules
from zonequake_simulation.checks.reconfiguration import ReconfigurationRules
from zonequake_simulation.checks.storage import StorageRules
from zonequake_store.raft.api import (
    ConfigurationApplied,
    RaftRole,
    RaftSettings,
    Ready,
    StageChanged,
)
from zonequake_store.raft.messages import (
    Configuration,
    Entry,
    EntryKind,
    Message,
    MessageKind,
    Peer,
    SnapshotMeta,
    encode_configuration,
)

A, B, C = (Peer(name, "1") for name in "abc")
ABC = Configuration(peers=(A, B, C), token=1)


def ledger() -> Ledger:
    return Ledger(lambda: 0)


def log(**more: Any) -> Any:
    """Returns a log of three entries of term 1, all committed, with `ABC` as its first."""
    made: dict[str, Any] = {
        "commit": 3,
        "first_index": 1,
        "last_index": 3,
        "configuration": ABC,
        "configuration_index": 1,
        "token": 1,
        "term": lambda index: 1 if index else 0,
        "_configurations": [(1, ABC)],
        "configuration_at": lambda index: (1, ABC),
    }
    return Made(**(made | more))


def life(**more: Any) -> Any:
    """Returns the life of replica A, which leads term 1."""
    core: dict[str, Any] = {
        "term": 1,
        "abstains": False,
        "role": RaftRole.LEADER,
        "log": log(),
        "leadership": Made(
            term_start=1,
            reconfiguration=Made(stage=Stage.NONE, token=0),
            handover=Made(is_departing=False),
        ),
    }
    given = {name: more.pop(name) for name in list(more) if name in core}
    made: dict[str, Any] = {
        "peer": A,
        "core": Made(**(core | given)),
        "term": 1,
        "commit": 3,
        "abstained": False,
        "enforced": 0,
        "was_leader": True,
        "configuration": ABC,
        "appended_as_leader": (0, 0),
        "stage": Stage.NONE,
        "handed_to": 0,
        "digest": 0,
    }
    return Made(**(made | more))


def entries(*indexes: int, term: int = 1) -> tuple[Entry, ...]:
    return tuple(Entry(term, index, EntryKind.COMMAND, b"") for index in indexes)


# ------------------------------------------------------------------------------------------- Raft


@breaks("terms never fall")
def _(wrong: bool) -> None:
    RaftRules(ledger()).went_on(life(term=0) if wrong else life())


@breaks("commit never falls")
def _(wrong: bool) -> None:
    RaftRules(ledger()).went_on(life(commit=4) if wrong else life())


@breaks("one leader per term")
def _(wrong: bool) -> None:
    rules = RaftRules(ledger())
    rules.leaders[1] = B if wrong else A
    rules.leads(life())


@breaks("a reset set has one member, itself")
def _(wrong: bool) -> None:
    alone = Configuration(peers=(A, B) if wrong else (A,), token=5, lineage=5)
    rules = RaftRules(ledger())
    rules._votes[A, term_of(5, 1)] = A
    rules._reset(life(term=term_of(5, 1)), alone, ABC)


@breaks("leaders commit")
def _(wrong: bool) -> None:
    known = ledger()
    known.stored = {peer: stored(1, 1, 1) for peer in (A, B, C)}
    role = RaftRole.FOLLOWER if wrong else RaftRole.LEADER
    RaftRules(known).committed(life(role=role, was_leader=False), 3, 1)


@breaks("an elected leader has committed an entry of its own")
def _(wrong: bool) -> None:
    RaftRules(ledger()).told_elected(life(), 2 if wrong else 1)


@breaks("a leader only appends")
def _(wrong: bool) -> None:
    rules, leader = RaftRules(ledger()), life()
    rules.appended(leader, Ready(entries=entries(2, 3)))
    rules.appended(leader, Ready(entries=entries(3 if wrong else 4)))


# ---------------------------------------------------------------------------------- configurations


def changes(known: Ledger | None = None) -> ReconfigurationRules:
    return ReconfigurationRules(known or ledger(), RaftSettings(), {1: A})


@breaks("one uncommitted configuration")
def _(wrong: bool) -> None:
    made = [(4, ABC), (5, ABC)] if wrong else [(4, ABC)]
    uncommitted = log(configuration_index=made[-1][0], _configurations=[(1, ABC), *made])
    changes().leads(life(log=uncommitted))


@breaks("a leader outside the new set steps down once all it took is committed")
def _(wrong: bool) -> None:
    outside = Configuration(peers=(B, C), token=2)
    changes().leads(life(log=log(configuration=outside if wrong else ABC)))


@breaks("a truncated configuration is rolled back")
def _(wrong: bool) -> None:
    found = Entry(1, 1, EntryKind.CONFIGURATION, encode_configuration(ABC))
    cut = () if wrong else (found,)
    changes().took_effect(life(log=log(entries=lambda index, count: cut)))


@breaks("stages follow one another")
def _(wrong: bool) -> None:
    stage = Stage.STABLE if wrong else Stage.CATCHING_UP
    changes().entered(life(), StageChanged(stage=stage, token=2, peers=(A,), adding=()))


@breaks("an announced configuration is committed and final")
def _(wrong: bool) -> None:
    known = ledger()
    known.lineages[0].chosen = {} if wrong else {1: 1}
    event = ConfigurationApplied(peers=ABC.peers, term=1, index=1, token=1)
    changes(known).announced(life(), event)


# ----------------------------------------------------------------------------------------- storage


def stored(*terms: int, term: int = 1, vote: Peer | None = None) -> StoredLog:
    made = StoredLog()
    made.terms, made.term, made.vote = list(terms), term, vote
    return made


def storage(of_a: StoredLog) -> StorageRules:
    known = ledger()
    known.stored[A] = of_a
    return StorageRules(known)


@breaks("a snapshot does not replace a log that holds its last entry")
def _(wrong: bool) -> None:
    at = SnapshotMeta(3 if wrong else 4, 1, ABC, 1)
    storage(stored(1, 1, 1)).replaces(life(), at)


@breaks("a vote is stored before it is given")
def _(wrong: bool) -> None:
    vote = Message(kind=MessageKind.VOTE_REPLY, to=B, sender=A, term=1)
    storage(stored(vote=C if wrong else B)).sent(vote)


@breaks("an entry is stored before it is acknowledged")
def _(wrong: bool) -> None:
    reply = Message(kind=MessageKind.APPEND_REPLY, to=B, sender=A, term=1, index=3 if wrong else 2)
    storage(stored(1, 1)).sent(reply)

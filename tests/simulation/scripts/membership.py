"""Scripts of changes of peers (Ongaro's thesis §4, design §4)."""

from __future__ import annotations

from tests.simulation.scripts.stage import Stage, Unplayable
from zonequake_protocol.admin import Stage as ChangeStage
from zonequake_simulation.violation import require
from zonequake_store.raft.api import ChangePeersAnswer, GrantAnswer, RaftRole
from zonequake_store.raft.messages import Configuration, Message, MessageKind


def begin_change(stage: Stage, leader: str, to: str, *, token: int = 2) -> None:
    """Catch up the new peers and grant: the joint entry is in the leader's log, unsent."""
    raft = stage.rafts[leader]
    term = raft.status().term
    peers = stage.set_of(to)
    answer = raft.change_peers(term=term, token=token, peers=peers)
    if answer is not ChangePeersAnswer.RECEIVED:
        raise Unplayable(f"the change is refused: {answer}")
    stage.turn(leader)
    everybody = "".join(stage.rafts)
    for _ in range(5):
        stage.exchange(everybody)
        stage.supply()
        stage.tick(leader)
    stage.exchange(everybody)
    stage.lose()
    status = raft.status()
    require(
        status.stage is ChangeStage.CATCHING_UP
        and status.configuration is not None
        and not status.configuration.is_joint,
        "JOINT only after its grant",
        stage=status.stage,
        configuration=status.configuration,
    )
    granted = raft.grant(term=term, token=token, peers=peers)
    if granted is not GrantAnswer.RECEIVED:
        raise Unplayable(f"the grant is refused: {granted}; {raft.status()}")
    stage.turn(leader)


def a_silent_newcomer_is_waited_for() -> None:
    """abc → abd, and d hears nothing: no grant is accepted, and no entry is written."""
    stage = Stage("abc", passive="d")
    stage.elect("a", "bc")
    stage.exchange("abc")
    stage.propose("a", b"x")
    stage.exchange("abc")
    raft = stage.rafts["a"]
    before = raft.status()
    raft.change_peers(term=before.term, token=2, peers=stage.set_of("abd"))
    for _ in range(3):
        stage.tick("a")
        stage.exchange("abc")
    granted = raft.grant(term=before.term, token=2, peers=stage.set_of("abd"))
    stage.turn("a")
    require(
        granted is GrantAnswer.BUSY and raft.status().last_index == before.last_index,
        "nothing is written while catching up",
        granted=granted,
        before=before.last_index,
        after=raft.status().last_index,
    )
    stage.settle("abc", leader="a")


def a_change_that_takes_anothers_place_inherits_no_grant() -> None:
    """The leader's own first entry is not committed, so ab's grant must wait; then ac is wished."""
    stage = Stage("abc")
    stage.elect("a", "bc")
    stage.lose()
    raft = stage.rafts["a"]
    term, before = raft.status().term, raft.status().last_index
    for token, peers in ((2, "ab"), (3, "ac")):
        answer = raft.change_peers(term=term, token=token, peers=stage.set_of(peers))
        if answer is not ChangePeersAnswer.RECEIVED:
            raise Unplayable(f"the change is refused: {answer}")
        if token == 2:
            raft.grant(term=term, token=token, peers=stage.set_of(peers))
        stage.turn("a")
    for _ in range(3):
        stage.tick("a")
        stage.exchange("abc")
    found = raft.status()
    require(
        found.stage is ChangeStage.CATCHING_UP and found.last_index == before,
        "JOINT only after its grant",
        stage=found.stage,
        configuration=found.configuration,
    )
    stage.settle("abc", leader="a")


def a_half_decides_nothing_alone() -> None:
    """abc → ade: the joint entry reaches the new half, the leader dies, the old half goes on.

    With the new half alone the entry would be committed, and with the new half alone its successor
    elected, while b and c elect another in the same term.
    """
    stage = Stage("abc", passive="de")
    stage.elect("a", "bc")
    stage.exchange("abc")
    begin_change(stage, "a", "ade")
    for newcomer in "de":
        stage.deliver("a", newcomer, MessageKind.APPEND)
        stage.deliver(newcomer, "a")
    stage.crash("a")
    stage.lose()
    led = stage.campaign("d", "e")
    stage.lose()
    stage.campaign("b", "c")
    require(not led, "nobody leads a joint configuration with one half", led=led)
    stage.exchange("bc")
    stage.settle("abc", leader="b")
    old = Configuration(peers=stage.set_of("abc"), token=1)
    require(
        stage.rafts["a"].status().configuration == old,
        "a truncated configuration is rolled back",
        found=stage.rafts["a"].status().configuration,
    )


def an_old_half_decides_nothing_alone() -> None:
    """abc → ade: the joint entry reaches the old half alone, which must not commit it."""
    stage = Stage("abc", passive="de")
    stage.elect("a", "bc")
    stage.exchange("abc")
    begin_change(stage, "a", "ade")
    joint = stage.rafts["a"].status().last_index
    for old in "bc":
        stage.deliver("a", old, MessageKind.APPEND)
        stage.deliver(old, "a")
    require(
        joint not in stage.chosen, "a majority of each half stores what is committed", index=joint
    )
    stage.exchange("abcde")
    stage.settle("ade", leader="a")


def a_leader_dies_between_the_halves() -> None:
    """abc → bcd: joint is committed, the leader dies with the final entry unsent.

    The next leader finishes the change without being asked.
    """
    stage = Stage("abc", passive="d")
    stage.elect("a", "bc")
    stage.exchange("abc")
    begin_change(stage, "a", "bcd")
    joint = stage.rafts["a"].status().last_index
    for member in "bcd":
        stage.deliver("a", member, MessageKind.APPEND)
    stage.lose()  # b, c and d have stored it; a never hears of it
    stage.crash("a")
    stage.elect("b", "cd")
    stage.exchange("bcd")
    for _ in range(3):
        stage.tick("b")
        stage.exchange("bcd")
    status = stage.rafts["b"].status()
    require(
        status.configuration == Configuration(peers=stage.set_of("bcd"), token=2)
        and status.stage is ChangeStage.NONE
        and joint in stage.chosen,
        "a new leader finishes a half-done change",
        configuration=status.configuration,
        stage=status.stage,
    )
    stage.settle("bcd", leader="b")


def a_removed_server_disturbs_nobody() -> None:
    """abc → ab: c never learns of it, and asks for votes with ever higher terms."""
    stage = Stage("abc")
    stage.elect("a", "bc")
    stage.exchange("abc")
    begin_change(stage, "a", "ab")
    for _ in range(3):
        stage.exchange("ab")
        stage.tick("a")
    stage.take("a", "c")
    term = stage.rafts["a"].status().term
    for number in range(1, 4):
        for to in "ab":
            stage.hand(
                Message(
                    kind=MessageKind.VOTE,
                    to=stage.peers[to],
                    sender=stage.peers["c"],
                    term=term + number,
                    index=99,
                    log_term=term,
                    token=1,
                )
            )
        stage.tick("a")
        stage.exchange("ab")
    status = stage.rafts["a"].status()
    require(
        status.role is RaftRole.LEADER and status.term == term,
        "a removed replica ends no leadership",
        role=status.role,
        term=status.term,
    )
    stage.settle("ab", leader="a")


def a_wiped_replica_is_another() -> None:
    """b stores x, is wiped and comes back: its old name's vote is not the new one's to give."""
    stage = Stage("abc")
    stage.elect("a", "bc")
    stage.exchange("abc")
    stage.propose("a", b"x")
    stage.deliver("a", "b", MessageKind.APPEND)
    stage.deliver("b", "a")
    require(3 in stage.chosen, "the script commits x", chosen=stage.chosen)
    stage.crash("a")
    stage.crash("b")
    stage.lose()
    stage.wipe("b", "2")
    stage.campaign("c", "b")
    require(not stage.leads("c"), "another incarnation doesn't vote for the old one")
    stage.lose()


SCRIPTS = (
    a_silent_newcomer_is_waited_for,
    a_change_that_takes_anothers_place_inherits_no_grant,
    a_half_decides_nothing_alone,
    an_old_half_decides_nothing_alone,
    a_leader_dies_between_the_halves,
    a_removed_server_disturbs_nobody,
    a_wiped_replica_is_another,
)

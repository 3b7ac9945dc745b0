"""Scripts of elections, replication and commitment (Raft paper §5, thesis §3 and §6.4)."""

from __future__ import annotations

from tests.simulation.scripts.stage import Stage
from zonequake_simulation.violation import require
from zonequake_store.raft.messages import Message, MessageKind


def figure_8() -> None:
    """Figure 8 of the Raft paper: an entry of an older term lies on a majority, and is overwritten.

    Only an entry of the leader's own term commits it; a leader that counts the old one commits what
    the next leader lacks.
    """
    stage = Stage("abcde")
    stage.elect("a", "bcde")
    stage.exchange("abcde")
    stage.propose("a", b"x")
    stage.deliver("a", "b", MessageKind.APPEND)
    stage.crash("a")
    stage.lose()

    stage.elect("e", "cd")  # by those who lack x
    stage.propose("e", b"y")  # stored by e alone
    stage.crash("e")
    stage.lose()

    stage.restart("a")
    stage.elect("a", "bc")
    for follower in "cd":  # x gets to a majority, the entry of a's own term to no other
        stage.deliver("a", follower, MessageKind.APPEND)  # does it match? no
        stage.deliver(follower, "a")
        stage.deliver("a", follower, MessageKind.APPEND)  # x
        stage.deliver(follower, "a")
        require(
            stage.stores[follower].last_index == 3,
            "the script brings x to a majority",
            node=follower,
            last_index=stage.stores[follower].last_index,
        )
    stage.crash("a")
    stage.lose()

    stage.restart("e")
    stage.elect("e", "bcd")
    stage.exchange("bcde")
    stage.settle("abcde", leader="e")


def a_vote_outlives_a_restart() -> None:
    """Who voted and comes back must not vote again in that term."""
    stage = Stage("abc")
    stage.elect("b", "a")
    stage.lose()
    stage.crash("a")
    stage.restart("a")
    stage.campaign("c", "a", rounds=1)
    stage.settle("abc", leader="b" if stage.leads("b") and not stage.leads("c") else "c")


def a_lost_append_leaves_no_gap() -> None:
    """What follows a lost or other entry is refused, however late the leader learns of it."""
    stage = Stage("abc")
    stage.elect("a", "bc")
    stage.exchange("abc")
    for data in (b"x", b"y", b"z"):
        stage.propose("a", data)
    stage.crash("a")
    stage.lose()

    stage.elect("b", "c")
    stage.exchange("bc")
    stage.propose("b", b"v")
    stage.exchange("bc")
    stage.lose()
    stage.crash("b")

    stage.restart("b")
    stage.elect("c", "b")
    stage.restart("a")
    stage.exchange("abc")
    stage.settle("abc", leader="c")


def a_late_append_removes_nothing() -> None:
    """A second copy of an APPEND arrives after its successor was acknowledged and counted."""
    stage = Stage("abc")
    stage.elect("a", "bc")
    stage.exchange("abc")
    stage.propose("a", b"x")
    stage.propose("a", b"y")  # both fly before either is acknowledged, so that b knows no commit
    first, second = stage.take("a", "b", MessageKind.APPEND)
    stage.hand(stage.take("a", "c", MessageKind.APPEND)[0])
    stage.hand(first)
    stage.hand(second)
    stage.deliver("b", "a")
    require(max(stage.chosen) == 4, "the script commits y", chosen=stage.chosen)
    stage.hand(first)
    stage.crash("a")
    stage.lose()
    stage.campaign("c", "b")
    stage.lose()
    stage.settle("abc", leader="b")


def a_longer_old_log_wins_no_vote() -> None:
    """a has stored much that no other has; b and c have committed something newer."""
    stage = Stage("abc")
    stage.elect("a", "bc")
    stage.exchange("abc")
    for data in (b"x", b"y", b"z"):
        stage.propose("a", data)
    stage.crash("a")
    stage.lose()
    stage.elect("b", "c")
    stage.exchange("bc")
    stage.crash("b")
    stage.lose()
    stage.restart("a")
    stage.campaign("a", "c")
    stage.lose()
    stage.settle("abc", leader="b")


def a_deposed_leader_overwrites_nothing() -> None:
    """An APPEND of an older term arrives where the newer leader's entry was just counted."""
    stage = Stage("abc")
    stage.elect("a", "bc")
    stage.exchange("abc")
    stage.propose("a", b"x")
    (late,) = stage.take("a", "c", MessageKind.APPEND)
    stage.lose()
    stage.elect("b", "c")
    stage.deliver("b", "c", MessageKind.APPEND)
    stage.deliver("c", "b")
    require(3 in stage.chosen, "the script commits b's entry", chosen=stage.chosen)
    stage.hand(late)
    stage.crash("b")
    stage.lose()
    stage.tick("a", 2 * stage.settings.election_ticks)  # it learns that no other follows
    stage.campaign("c", "a")
    stage.lose()
    stage.settle("abc", leader="c")


def a_leader_stores_what_it_counts() -> None:
    """The leader's disk is slow, one follower's is not: two replicas are no majority of stores."""
    stage = Stage("abc")
    stage.elect("a", "bc")
    stage.exchange("abc")
    stage.held.add("a")
    stage.propose("a", b"x")
    stage.deliver("a", "b", MessageKind.APPEND)
    stage.deliver("b", "a")
    stage.crash("a")
    stage.lose()
    stage.restart("a")
    stage.campaign("c", "a")
    stage.exchange("ac")
    stage.settle("abc", leader="c")


def a_follower_stores_what_it_acknowledges() -> None:
    """A follower's disk is slow and its process dies: what it told must be on its disk."""
    stage = Stage("abc")
    stage.elect("a", "bc")
    stage.exchange("abc")
    stage.held.add("b")
    stage.propose("a", b"x")
    stage.deliver("a", "b", MessageKind.APPEND)
    stage.deliver("b", "a")
    stage.crash("b")
    stage.crash("a")
    stage.lose()
    stage.restart("b")
    stage.campaign("c", "b")
    stage.exchange("bc")
    stage.settle("abc", leader="c")


def a_voter_stores_what_it_votes() -> None:
    """A voter's disk is slow and its process dies: the vote it gave must be on its disk."""
    stage = Stage("abc")
    for voter in "ac":
        stage.tick(voter, stage.settings.election_ticks)
    stage.held.add("a")
    stage.campaign("b", "a")
    stage.crash("a")
    stage.lose()
    stage.restart("a")
    stage.campaign("c", "a", rounds=1)
    stage.lose()


def a_deposed_leader_answers_no_read() -> None:
    """A leader that doesn't know of its successor must ask a majority before it answers."""
    stage = Stage("abc")
    stage.elect("a", "bc")
    stage.exchange("abc")
    stage.elect("b", "c")
    stage.exchange("bc")
    stage.propose("b", b"x")
    stage.exchange("bc")
    number = stage.read("a")
    require(("a", number) not in stage.answered, "a deposed leader answers no read")
    stage.settle("abc", leader="b")


def an_answer_to_an_older_round_confirms_no_read() -> None:
    """b answers a round of heartbeats, then helps to elect another; its answer comes late."""
    stage = Stage("abc")
    stage.elect("a", "bc")
    stage.exchange("abc")
    stage.read("a")
    stage.deliver("a", "b", MessageKind.HEARTBEAT)
    late = stage.take("b", "a", MessageKind.HEARTBEAT_REPLY)
    stage.deliver("a", "c", MessageKind.HEARTBEAT)
    stage.deliver("c", "a", MessageKind.HEARTBEAT_REPLY)
    stage.lose()
    stage.elect("b", "c")
    stage.exchange("bc")
    stage.propose("b", b"x")
    stage.exchange("bc")
    number = stage.read("a")
    for reply in late:
        stage.hand(reply)
    require(("a", number) not in stage.answered, "a deposed leader answers no read")
    stage.settle("abc", leader="b")


def a_new_leader_reads_nothing_old() -> None:
    """A leader knows how far was committed only when an entry of its own term is."""
    stage = Stage("abc")
    stage.elect("a", "bc")
    stage.exchange("abc")
    stage.propose("a", b"x")
    stage.exchange(
        "ac", MessageKind.APPEND, MessageKind.APPEND_REPLY
    )  # committed, b has it, and was not told
    stage.deliver("a", "b", MessageKind.APPEND)
    stage.crash("a")
    stage.lose()
    stage.elect("b", "c")
    stage.take("b", "c", MessageKind.APPEND)
    stage.read("b")
    stage.tick("b", 2)
    stage.exchange("bc", MessageKind.HEARTBEAT, MessageKind.HEARTBEAT_REPLY)
    stage.settle("abc", leader="b")


def an_old_snapshot_rolls_nothing_back() -> None:
    """A snapshot's announcement arrives when its receiver is already further."""
    stage = Stage("abc")
    stage.elect("a", "bc")
    stage.exchange("abc")
    stage.propose("a", b"x")
    stage.exchange("abc")
    raft = stage.rafts["a"]
    meta = raft.snapshot_meta(3)
    stage.propose("a", b"y")
    stage.exchange("abc")
    stage.tick("a")
    stage.exchange("abc")
    stage.hand(
        Message(
            kind=MessageKind.SNAPSHOT,
            to=stage.peers["b"],
            sender=stage.peers["a"],
            term=raft.status().term,
            snapshot=meta,
        )
    )
    require(stage.stores["b"].last_index == 4, "b keeps y", last=stage.stores["b"].last_index)
    stage.settle("abc", leader="a")


SCRIPTS = (
    figure_8,
    a_vote_outlives_a_restart,
    a_lost_append_leaves_no_gap,
    a_late_append_removes_nothing,
    a_longer_old_log_wins_no_vote,
    a_deposed_leader_overwrites_nothing,
    a_leader_stores_what_it_counts,
    a_follower_stores_what_it_acknowledges,
    a_voter_stores_what_it_votes,
    a_deposed_leader_answers_no_read,
    an_answer_to_an_older_round_confirms_no_read,
    a_new_leader_reads_nothing_old,
    an_old_snapshot_rolls_nothing_back,
)

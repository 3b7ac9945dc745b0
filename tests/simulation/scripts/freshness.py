"""Scripts of bounded reads: how old a follower may call its state."""

from __future__ import annotations

from tests.simulation.scripts.stage import Stage, Unplayable
from zonequake_simulation.violation import require
from zonequake_store.raft.messages import MessageKind

HEARTBEATS = (MessageKind.HEARTBEAT, MessageKind.HEARTBEAT_REPLY)


def is_not_fresh(stage: Stage, name: str, *, leader: str, committed_ms: int) -> None:
    """Some heartbeats later a node that lacks what was committed must not say that it has it."""
    raft = stage.rafts[name]
    for _ in range(4):
        stage.tick(name)
        stage.tick(leader)
        stage.exchange(leader + name, *HEARTBEATS)
        since_ms = raft.fresh_since_ms()
        require(
            since_ms is None or since_ms < committed_ms,
            "a bounded read sees what was committed before its bound",
            node=name,
            fresh_since_ms=since_ms,
            committed_ms=committed_ms,
        )


def asked(stage: Stage, name: str, *, leader: str) -> int:
    """A client asks the node how fresh it is; the time there when it is told for the first time."""
    raft = stage.rafts[name]
    for _ in range(6):
        stage.tick(name)
        stage.tick(leader)
        stage.exchange("".join(stage.rafts))
        if raft.fresh_since_ms() is not None:
            stage.tick(name)
            return raft._replica.freshness.now_ms
    raise Unplayable(f"{name} is never told how fresh its state is")


def a_deposed_leader_vouches_for_no_state() -> None:
    """a still reaches b, while c, d and e have elected c and committed: b's state is old."""
    stage = Stage("abcde")
    stage.elect("a", "bcde")
    stage.exchange("abcde")
    asked(stage, "b", leader="a")
    stage.lose()
    stage.elect("c", "de")
    stage.exchange("cde")
    index = stage.propose("c", b"x")
    stage.exchange("cde")
    if index not in stage.chosen:
        raise Unplayable("nothing is committed behind a's back")
    stage.tick("b")
    is_not_fresh(stage, "b", leader="a", committed_ms=stage.rafts["b"]._replica.freshness.now_ms)
    stage.settle("abcde", leader="c")


def a_state_is_fresh_when_it_is_applied() -> None:
    """a and c commit, and b hears how far they are before it has the entries."""
    stage = Stage("abc")
    stage.elect("a", "bc")
    stage.exchange("abc")
    asked(stage, "b", leader="a")
    stage.lose()
    index = stage.propose("a", b"x")
    stage.take("a", "b")
    stage.exchange("ac")
    if index not in stage.chosen:
        raise Unplayable("nothing is committed without b")
    stage.take("a", "b")
    stage.tick("b")
    is_not_fresh(stage, "b", leader="a", committed_ms=stage.rafts["b"]._replica.freshness.now_ms)
    stage.settle("abc", leader="a")


SCRIPTS = (a_deposed_leader_vouches_for_no_state, a_state_is_fresh_when_it_is_applied)

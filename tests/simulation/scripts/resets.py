"""Scripts of forced resets: one node goes on without a majority (design §3, holes 6 and 12)."""

from __future__ import annotations

from tests.simulation.scripts.membership import begin_change
from tests.simulation.scripts.stage import Stage, Unplayable
from zonequake_simulation.violation import require
from zonequake_store.raft.api import ResetAnswer
from zonequake_store.raft.messages import Configuration, Message, MessageKind


def begin_lineage(stage: Stage, survivor: str, token: int) -> None:
    """Reset a silent node; it leads alone, and has committed something of its own."""
    stage.silence(survivor)
    answer = stage.reset(survivor, token)
    if answer is not ResetAnswer.RECEIVED or not stage.leads(survivor):
        raise Unplayable(f"{survivor} is not reset: {answer}; {stage.rafts[survivor].status()}")
    stage.propose(survivor, b"alone")


def an_old_majority_that_comes_back_acknowledges_nothing() -> None:
    """a, b and c; c is reset, while a and b live on apart, and then one of them hears of it."""
    stage = Stage("abc")
    stage.elect("a", "bc")
    stage.exchange("abc")
    begin_lineage(stage, "c", 5)
    stage.propose("a", b"y")
    stage.exchange("ab")  # they can't know: they were not told

    stage.propose("a", b"z")
    z = stage.rafts["a"].status().last_index
    stage.deliver("a", "c", MessageKind.APPEND)
    stage.deliver("c", "a")  # a later lineage
    stage.deliver("a", "b", MessageKind.APPEND)
    stage.deliver("b", "a")
    require(z not in stage.chosen, "an old majority acknowledges nothing more", index=z)
    require(not stage.leads("a"), "who heard of a later lineage leads nothing older")
    stage.lose()
    require(
        not stage.campaign("b", "a"),
        "who heard of a later lineage votes for nobody older",
        voter="a",
    )
    stage.lose()


def an_old_leader_that_comes_back_learns_from_its_start_order() -> None:
    """a, b and c; c is reset while a and b are down. Their start orders carry the token."""
    stage = Stage("abc")
    stage.elect("a", "bc")
    stage.exchange("abc")
    for old in "ab":
        stage.crash(old)
    stage.lose()
    begin_lineage(stage, "c", 5)
    for old in "ab":
        stage.restart(old)
        stage.rafts[old].enforce(5)
        stage.turn(old)
    require(
        not stage.campaign("a", "b") and not stage.campaign("b", "a"),
        "a majority without the enforced lineage elects nobody",
    )
    stage.lose()


def an_older_reset_is_refused() -> None:
    """Two operators, one of them late: the order with the older token has no effect."""
    stage = Stage("abc")
    stage.elect("a", "bc")
    stage.exchange("abc")
    stage.lose()
    begin_lineage(stage, "c", 5)
    before = stage.rafts["c"].status()
    answers = {token: stage.reset("c", token) for token in (1, 4)}
    after = stage.rafts["c"].status()
    require(
        set(answers.values()) == {ResetAnswer.STALE} and before == after,
        "an older reset is refused and has no effect",
        answers=answers,
        before=before.configuration,
        after=after.configuration,
    )
    stage.silence("b")
    stage.rafts["b"].enforce(5)
    stage.turn("b")
    late = stage.reset("b", 4)
    require(
        late is ResetAnswer.STALE and not stage.leads("b"),
        "an older reset is refused by who knows of a newer",
        answer=late,
    )


def a_reset_ends_a_half_done_joint_change() -> None:
    """abc → ade, joint stored by a and d alone; only d is left, and is reset.

    Its configuration is itself, final: nobody of either half can be needed, and when the others
    come back, they neither finish the change nor undo the reset.
    """
    stage = Stage("abc", passive="de")
    stage.elect("a", "bc")
    stage.exchange("abc")
    begin_change(stage, "a", "ade")
    stage.deliver("a", "d", MessageKind.APPEND)
    for old in "abce":
        stage.crash(old)
    stage.lose()
    begin_lineage(stage, "d", 7)
    alone = Configuration(peers=stage.set_of("d"), token=7, lineage=7)
    found = stage.rafts["d"].status().configuration
    require(found == alone, "a reset set has one member", found=found)
    for old in "abce":
        stage.restart(old)
        stage.rafts[old].enforce(7)
        stage.turn(old)
    require(
        not stage.campaign("a", "bce"), "a half-done change is not finished beside a reset", by="a"
    )
    stage.lose()
    for _ in range(3 * stage.settings.election_ticks):
        stage.tick("d")
    found = stage.rafts["d"].status().configuration
    require(stage.leads("d") and found == alone, "the survivor leads on", found=found)


def a_reset_waits_for_its_disk() -> None:
    """The survivor's disk stores nothing yet: it must neither lead nor commit."""
    stage = Stage("abc")
    stage.elect("a", "bc")
    stage.exchange("abc")
    stage.lose()
    stage.silence("c")
    stage.held.add("c")
    stage.reset("c", 5)
    require(not stage.leads("c"), "a reset's vote is stored before it counts")
    stage.crash("c")
    stage.restart("c")
    stage.lose()
    stage.settle("abc", leader="a")


def a_read_ends_with_its_lineage() -> None:
    """a's read is confirmed by b on the way; c was reset, has written, and a hears of it first."""
    stage = Stage("abc")
    stage.elect("a", "bc")
    stage.exchange("abc")
    stage.lose()
    begin_lineage(stage, "c", 5)
    number = stage.read("a")
    stage.deliver("a", "b", MessageKind.HEARTBEAT)
    stage.deliver("a", "c", MessageKind.HEARTBEAT)
    stage.deliver("c", "a")  # a later lineage
    stage.deliver("b", "a")  # the confirmation
    require(
        ("a", number) not in stage.answered, "an old lineage answers no read any more", reader="a"
    )
    stage.lose()


def a_second_reset_shuts_the_first_survivor_out() -> None:
    """c is reset with 5 and lost, a with 7: what c did alone is no part of what goes on."""
    stage = Stage("abc")
    stage.elect("a", "bc")
    stage.exchange("abc")
    stage.lose()
    begin_lineage(stage, "c", 5)
    stage.propose("c", b"more")
    stage.crash("c")
    stage.crash("b")
    stage.lose()
    begin_lineage(stage, "a", 7)
    for old in "bc":
        stage.restart(old)
    stage.rafts["b"].enforce(7)
    stage.turn("b")
    for _ in range(2 * stage.settings.election_ticks):
        stage.tick("c")  # it leads itself again, as it was not told
    if not stage.leads("c"):
        raise Unplayable("the first survivor does not lead itself again")
    c = stage.rafts["c"]
    of_later = stage.rafts["b"].status().term
    stage.hand(
        Message(
            kind=MessageKind.PRE_VOTE,
            to=stage.peers["c"],
            sender=stage.peers["b"],
            term=of_later + 1,
        )
    )
    require(
        c.status().abstains and not stage.leads("c"),
        "who heard of a later lineage leads nothing older",
        leader="c",
    )
    answer = stage.reset("c", 5)
    require(answer is ResetAnswer.STALE, "an older reset is refused", answer=answer)
    require(
        not stage.campaign("c", "b") and not stage.campaign("b", "c"),
        "a majority without the enforced lineage elects nobody",
    )
    stage.lose()
    require(stage.leads("a"), "the second survivor leads on", found=stage.rafts["a"].status().role)


SCRIPTS = (
    an_old_majority_that_comes_back_acknowledges_nothing,
    an_old_leader_that_comes_back_learns_from_its_start_order,
    an_older_reset_is_refused,
    a_reset_ends_a_half_done_joint_change,
    a_reset_waits_for_its_disk,
    a_read_ends_with_its_lineage,
    a_second_reset_shuts_the_first_survivor_out,
)

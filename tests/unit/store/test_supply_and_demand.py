"""Supplier and demander between a leader's and a peer's core, on a line that does what it likes."""

from __future__ import annotations

import random

import msgspec
import pytest

from tests.unit.store.supply_world import GROUP, LEADER, NEW, SMALL, Core, World
from zonequake_store.catch_up.demander import REFUSALS, REPEAT_TICKS, size_of
from zonequake_store.catch_up.messages import (
    Checkpoint,
    Demand,
    Dismissal,
    Invite,
    Piece,
    Supply,
)
from zonequake_store.catch_up.supplier import (
    FORGET_TICKS,
    INVITE_TICKS,
    WINDOW_PIECES,
    WINDOW_SUPPLIES,
)
from zonequake_store.errors import LogCorrupt
from zonequake_store.raft.catch_up import ENTRY_OVERHEAD_BYTES
from zonequake_store.raft.messages import Message, MessageKind, Peer
from zonequake_store.raft.peer_supply import PeerSupply


def test_entries_are_supplied_until_nothing_is_missing() -> None:
    world = World(50)
    world.run()
    assert world.is_caught_up
    assert world.of(Piece) == []
    assert not world.leader.raft.status().progress[0].by_snapshot
    world.leader.raft.propose([b"later"])
    world.turns()
    world.run()
    assert world.peer.raft.stored_position == world.leader.raft.stored_position


def test_a_log_that_does_not_reach_back_is_replaced_by_the_state_and_the_rest_follows() -> None:
    world = World(50, compacted_to=45)
    world.index = 47
    world.run()
    assert world.installed == world.state
    assert world.is_caught_up
    assert world.peer.raft.status().first_index == 48
    assert world.opened == set(), "it has no reader any more"
    progress = world.leader.raft.status().progress[0]
    assert progress.fraction == 1.0
    assert progress.bytes_sent > size_of(world.state)


def test_no_more_than_a_window_is_on_its_way() -> None:
    world = World(900, cells=0)
    world.line = lambda frame: 0 if isinstance(frame, Supply) else 1
    world.run()
    assert len(world.of(Supply)) == WINDOW_SUPPLIES
    world = World(50, compacted_to=45, cells=900)
    world.holds_up_staging = True
    world.run()
    assert len(world.of(Piece)) == WINDOW_PIECES


def test_demands_follow_what_was_stored_until_nothing_is_left_to_supply() -> None:
    world = World(900, cells=0)
    world.run()  # no tick: nothing repeats a demand
    assert len(world.of(Supply)) > WINDOW_SUPPLIES
    assert world.is_caught_up
    assert world.demander._demanded == world.leader.raft.stored_position


def test_a_turn_in_which_nothing_was_stored_asks_for_nothing() -> None:
    world = World(50)
    while not world.of(Demand):
        world.run(most=1)
    asked = len(world.of(Demand))
    world.demander.progressed()
    assert len(world.of(Demand)) == asked


def test_what_no_connection_took_leaves_with_the_next_tick() -> None:
    world = World(50)
    world.waiting.clear()  # its first invitation
    world.is_disconnected = True
    world.supplier.begin(NEW)
    world.tick(REPEAT_TICKS // 2)
    assert world.waiting == []
    world.is_disconnected = False
    world.tick()
    assert world.of(Demand)
    world = World(50)
    world.is_disconnected = True
    world.run()  # the invitation arrives, its answer does not leave
    assert not world.of(Demand)
    world.is_disconnected = False
    world.tick()
    assert world.is_caught_up


def test_a_lost_demand_is_repeated_and_a_lost_supply_asked_for_again() -> None:
    world = World(50)
    chance = random.Random(1)
    world.line = lambda frame: chance.randrange(2)
    world.run()
    assert not world.is_caught_up
    world.tick(20 * REPEAT_TICKS)
    assert world.is_caught_up


def test_a_late_demand_of_an_earlier_leadership_does_not_end_the_supplies_of_this_one() -> None:
    world = World(10)
    world.waiting.clear()  # the first invitation arrived, what the demander answered is lost
    world.demander.invited(Invite(GROUP, NEW, LEADER, world.leader.raft.term, 1))
    world.waiting.clear()
    earlier = world.leader.raft.term - 1
    late = Demand(GROUP, LEADER, NEW, earlier, world.demander._round, 0, 0, Checkpoint())
    world.supplier.demanded(late)
    world.run()
    assert world.demander._supplier is None, "it was dismissed"
    world.tick(2 * INVITE_TICKS)
    world.run()
    assert world.is_caught_up


def test_a_peer_that_says_nothing_is_invited_again() -> None:
    world = World(5)
    world.waiting.clear()
    world.tick(INVITE_TICKS)
    assert len(world.of(Invite)) == 2
    assert world.is_caught_up


def test_a_transfer_goes_on_where_it_stopped_when_the_demander_was_restarted() -> None:
    world = World(50, compacted_to=45)
    world.run(most=12)
    staged = world.durable
    assert staged is not None
    assert staged.sequence > 0
    assert staged.end is None
    before = [frame.after for frame in world.of(Piece)]
    world.forget(NEW)
    world.sent.clear()
    world.peer = Core(NEW, world.peer.store)
    world.new_demander()
    world.tick(2 * INVITE_TICKS)
    assert world.installed == world.state
    after = [frame.after for frame in world.of(Piece)]
    assert staged.after in after
    assert b"" not in after, "not from the beginning"
    assert before[0] == b""


def test_a_state_that_was_whole_when_the_demander_was_restarted_is_taken() -> None:
    world = World(50, compacted_to=45, cells=2)
    world.holds_up_staging = True
    world.run()
    world.durable = world.held[-1]
    assert world.durable.end is not None, "one piece holds it all"
    world.staged[world.durable.number] = list(world.state)
    world.holds_up_staging = False
    world.forget(NEW)
    world.new_demander()
    world.tick(3 * INVITE_TICKS)
    assert world.installed == world.state
    assert world.is_caught_up


def test_a_restarted_supplier_offers_another_snapshot_and_nothing_is_mixed() -> None:
    world = World(50, compacted_to=45)
    world.run(most=12)
    assert world.durable is not None
    world.forget(LEADER)
    world.opened.clear()
    world.state = [(b"k%04d" % n, b"w" * (n % 13)) for n in range(5, 70)]
    world.new_supplier()
    world.supplier.begin(NEW)
    world.tick(2 * REPEAT_TICKS)
    assert world.installed == world.state
    assert world.is_caught_up


def test_a_snapshot_is_closed_when_its_peer_is_silent_for_long_and_then_offered_anew() -> None:
    world = World(50, compacted_to=45)
    world.run(most=12)
    assert world.opened == {1}
    assert world.supplier.lowest_index_needed == world.index
    world.line = lambda frame: 0
    world.tick(FORGET_TICKS + 5)
    assert world.opened == set()
    assert world.supplier.lowest_index_needed > world.index
    world.line = lambda frame: 1
    if not world.leader.raft.supply.is_open(NEW):  # its silence ended the change
        world.leader.raft.change_peers(term=world.leader.raft.term, token=3, peers=(LEADER, NEW))
    world.tick(3 * REPEAT_TICKS)
    assert world.installed == world.state


def test_whenever_a_leader_steps_down_what_was_being_read_for_its_peer_goes_nowhere() -> None:
    interrupted = 0
    for moment in range(60):
        world = World(50, compacted_to=45, cells=900)
        world.run(most=moment)
        raft = world.leader.raft
        later = Message(
            kind=MessageKind.APPEND_REPLY, to=LEADER, sender=NEW, term=raft.term + 1, reject=True
        )
        raft.step(later)
        interrupted += any(isinstance(each, tuple) and each[0] == LEADER for each in world.waiting)
        pieces = len(world.of(Piece))
        world.run()
        assert len(world.of(Piece)) == pieces
        world.supplier.close()
        assert world.opened == set()
    assert interrupted


def test_a_log_that_cannot_be_read_is_replaced_by_the_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def rotten(supply: PeerSupply, to: Peer, *, index: int, log_term: int) -> Message | None:
        if index < 30:
            raise LogCorrupt("record of index 1: CRC is wrong")
        return next_append(supply, to, index=index, log_term=log_term)

    next_append = PeerSupply.next_append
    monkeypatch.setattr(PeerSupply, "next_append", rotten)
    world = World(50)
    world.run()
    assert world.installed == world.state
    assert world.is_caught_up


def test_entries_that_the_core_refuses_again_and_again_are_replaced_by_the_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    next_append = PeerSupply.next_append

    def wrong(supply: PeerSupply, to: Peer, *, index: int, log_term: int) -> Message | None:
        message = next_append(supply, to, index=index, log_term=log_term)
        if message is None or index >= 30:
            return message
        return msgspec.structs.replace(message, log_term=message.log_term + 1)

    monkeypatch.setattr(PeerSupply, "next_append", wrong)
    world = World(50)
    world.run()
    assert world.installed == world.state
    assert len(world.of(Supply)) < WINDOW_SUPPLIES * REFUSALS


def test_only_a_supply_that_brings_something_or_reaches_our_end_forgets_a_refusal() -> None:
    world = World(50)
    world.run()
    demander, raft = world.demander, world.leader.raft
    end, term = world.peer.raft.stored_position
    demander._refusals = 1
    for index, left in ((10, 1), (end, 0)):
        append = Message(
            kind=MessageKind.APPEND,
            to=NEW,
            sender=LEADER,
            term=raft.term,
            index=index,
            log_term=term,
        )
        demander.supplied(Supply(GROUP, NEW, LEADER, demander._round, append))
        assert demander._refusals == left


def test_unequal_counters_at_the_same_index_break_the_demander() -> None:
    world = World(50)
    world.counters[world.index] = Checkpoint(world.index, 5, 5)
    world.run()
    world.tick(REPEAT_TICKS)
    assert world.broken
    assert "[]" in world.broken[0]
    assert "low watermark 5" in world.broken[0]
    assert f"low watermark {world.index}" in world.broken[0]


def test_a_state_whose_counters_were_not_installed_breaks_the_demander() -> None:
    world = World(50, compacted_to=45)
    world.lwm = 7
    world.run()
    assert world.installed == world.state
    assert "low watermark 7" in world.broken[0]


def test_who_is_not_supplied_is_dismissed_and_asks_no_more() -> None:
    world = World(5)
    world.run()
    world.leader.raft.cancel_change_peers(term=world.leader.raft.term, token=2)
    world.tick(REPEAT_TICKS)
    assert world.of(Dismissal)
    assert world.demander._supplier is None
    assert not world.supplier.is_active


@pytest.mark.parametrize("seed", range(40))
def test_whatever_the_line_does_the_peer_catches_up_with_the_whole_state(seed: int) -> None:
    chance = random.Random(seed)
    world = World(60, compacted_to=chance.choice([0, 45, 58]))
    world.line = lambda frame: chance.choices([0, 1, 2], [1, 4, 1])[0]
    for _ in range(12):
        world.run(choose=chance.randrange, most=chance.randrange(40))
        match chance.randrange(8):
            case 0:
                world.peer = Core(NEW, world.peer.store)
                world.forget(NEW)
                world.new_demander()
            case 1:
                world.supplier.close()
                world.forget(LEADER)
                world.new_supplier()
                world.supplier.begin(NEW)
            case 2:
                world.leader.raft.propose([b"more"])
                world.turns()
        world.tick(chance.randrange(15))
    world.line = lambda frame: 1
    world.tick(4 * REPEAT_TICKS)
    if not world.leader.raft.supply.is_open(NEW):
        world.change()
        world.tick(4 * REPEAT_TICKS)
    assert world.peer.raft.stored_position == world.leader.raft.stored_position
    if world.peer.raft.status().first_index > 1:
        assert world.installed == world.state


def test_an_invitation_of_an_earlier_leadership_leads_nowhere_and_a_later_one_counts() -> None:
    world = World(50)
    world.run()
    term, asked = world.leader.raft.term, len(world.of(Demand))
    world.demander.invited(Invite(GROUP, NEW, Peer("b", "1"), term - 1, 99))
    assert len(world.of(Demand)) == asked
    assert world.demander._supplier == LEADER
    world.demander.invited(Invite(GROUP, NEW, LEADER, term + 1, 1))
    assert len(world.of(Demand)) == asked + 1, "a round of the same leader's later leadership"


def give_up(world: World) -> None:
    raft = world.leader.raft
    raft.cancel_change_peers(term=raft.term, token=2)
    world.turns()


def ask_again(world: World) -> None:
    raft = world.leader.raft
    raft.change_peers(term=raft.term, token=3, peers=(LEADER, NEW))
    world.turns()


def test_a_transfer_goes_on_where_it_stopped_when_its_change_was_given_up_and_begun_again() -> None:
    world = World(50, compacted_to=45)
    world.run(most=12)
    staged = world.durable
    assert staged is not None
    world.forget(NEW)
    world.waiting = [each for each in world.waiting if isinstance(each, tuple)]
    give_up(world)
    world.tick(3)
    assert world.opened == {1}, "for the next attempt"
    world.peer = Core(NEW, world.peer.store)
    world.new_demander()
    world.sent.clear()
    ask_again(world)
    world.tick(2 * INVITE_TICKS)
    assert world.installed == world.state
    assert b"" not in [frame.after for frame in world.of(Piece)]
    assert world.opened == set()


def test_a_state_that_is_opened_after_its_change_was_given_up_serves_the_next() -> None:
    world = World(50, compacted_to=45)
    while not world.opened:
        world.deliver(world.waiting.pop(0))
    give_up(world)
    world.run()  # the state is open now, and no demander may have it
    assert world.of(Piece) == []
    ask_again(world)
    world.tick(2 * INVITE_TICKS)
    assert world.installed == world.state


def test_a_state_whose_demander_did_not_come_back_is_closed() -> None:
    world = World(50, compacted_to=45)
    world.run(most=12)
    give_up(world)
    world.line = lambda frame: 0
    world.tick(FORGET_TICKS + 5)
    assert world.opened == set()
    assert not world.supplier.is_active


def test_what_did_not_leave_counts_neither_as_progress_nor_against_the_rate() -> None:
    world = World(50)
    world.run(most=1)  # the invitation
    world.is_disconnected = True
    world.run()
    (progress,) = world.leader.raft.status().progress
    assert progress.bytes_sent == 0


def test_a_leader_that_most_members_contradict_blames_no_member() -> None:
    world = World(50, compacted_to=45)
    world.counters[world.index] = Checkpoint(world.index, 5, 5)
    world.lwm = 5
    world.may_judge = False
    world.run()
    assert world.broken == []


def test_entries_that_the_rate_lets_through_as_often_as_demands_repeat_are_sent_once() -> None:
    world = World(50)
    entry_bytes = 5 + ENTRY_OVERHEAD_BYTES
    world.leader.raft.supply.set_rate(round(entry_bytes / (REPEAT_TICKS * SMALL.tick_s)))
    last_index = world.leader.raft.status().last_index
    world.tick(last_index * (REPEAT_TICKS + 1))
    assert world.is_caught_up
    sent = [entry.index for supply in world.of(Supply) for entry in supply.append.entries]
    assert len(sent) == last_index

"""Ticks told late make no difference: neither to what is sent nor to when."""

from __future__ import annotations

import contextlib
import random
from types import SimpleNamespace
from typing import cast

import pytest

from tests.unit.raft.memory_log import MemoryLogStore
from zonequake_store.node.ticks import TickSchedule
from zonequake_store.raft.api import RaftEvent, RaftSettings
from zonequake_store.raft.core import Raft
from zonequake_store.raft.errors import NotLeader
from zonequake_store.raft.messages import Configuration, HardState, Message, MessageKind, Peer
from zonequake_store.replica.log import MemoryLog
from zonequake_store.replica.planted_faults import PlantedFaults
from zonequake_store.replica.replica import Replica
from zonequake_store.state.partition import StateMachine
from zonequake_store.storage.cells import MemoryCells
from zonequake_store.storage.log_writes import GroupRecord

PEERS = tuple(Peer(name, "1") for name in "abcd")
SETTINGS = RaftSettings(heartbeat_ticks=6, catch_up_silence_ticks=15)


class Group:
    """Three members and a newcomer, whose replicas sleep between what concerns them or don't."""

    def __init__(self, *, sleeps: bool) -> None:
        self.tick_schedule = TickSchedule() if sleeps else None
        self.stores = {peer: MemoryLogStore() for peer in PEERS}
        self.replicas = {peer: self._replica(number) for number, peer in enumerate(PEERS)}
        self.sent: list[tuple[int, Message]] = []
        self.told: list[tuple[int, Peer, RaftEvent]] = []
        self.cut: frozenset[Peer] = frozenset()
        self.looked_at = 0
        self.awake = dict.fromkeys(PEERS)
        for peer in PEERS[:3]:
            self.replicas[peer].core_now().bootstrap(Configuration(peers=PEERS[:3], token=1))
        self.settle(0)

    def _replica(self, number: int) -> Replica:
        peer = PEERS[number]
        chance = random.Random(number)
        return Replica(
            group="g",
            record=GroupRecord(
                number=1,
                data_number=1,
                incarnation=peer.incarnation,
                zone="z",
                partition=0,
                partitions=1,
                token=1,
            ),
            me=peer,
            raft=Raft(
                me=peer,
                settings=SETTINGS,
                log=self.stores[peer],
                hard_state=HardState(),
                random=chance.randrange,
            ),
            log=MemoryLog(),
            cells=MemoryCells(),
            partition=cast("StateMachine", SimpleNamespace(index=0)),
            faults=PlantedFaults(),
            client_address=lambda _: None,
            clock_ms=lambda: 0,
            ticks=self.tick_schedule.ticks if self.tick_schedule else None,
        )

    def tick(self, now: int) -> None:
        """As a host does: with a tick schedule only those who are due are looked at."""
        due = (
            self.tick_schedule.pass_tick(100 * now)
            if self.tick_schedule
            else list(self.replicas.values())
        )
        self.looked_at += len(due)
        for replica in due:
            if not self.tick_schedule:
                replica.core_now().tick(100 * now)
            self.awake[replica.me] = None
        self.settle(now)

    def settle(self, now: int) -> None:
        while self.awake:
            peer = min(self.awake)
            del self.awake[peer]
            self._turn(peer, now)

    def _turn(self, peer: Peer, now: int) -> None:
        replica, store = self.replicas[peer], self.stores[peer]
        while replica.core_now().has_ready():
            ready = replica.core_now().ready()
            store.store(ready)
            self.told += [(now, peer, event) for event in ready.events]
            replica.core_now().stored(ready)
            if ready.committed:
                replica.core_now().applied(ready.committed[-1].index)
            for message in ready.messages + ready.messages_after_store:
                self.sent.append((now, message))
                if not {message.to, message.sender} & self.cut:
                    self.replicas[message.to].core_now().step(message)
                    self.awake[message.to] = None
        if self.tick_schedule:
            self.tick_schedule.consider(replica)

    @property
    def leader(self) -> Peer | None:
        """The newest, found without waking a replica up."""
        terms = {
            message.sender: message.term
            for _, message in self.sent[-200:]
            if message.kind in (MessageKind.APPEND, MessageKind.HEARTBEAT)
        }
        return max(terms, key=lambda peer: (terms[peer], peer), default=None)

    def act(self, chance: random.Random) -> None:
        leader = self.leader
        action = chance.choice(["write", "cut", "heal", "transfer", "change", "refuse", "beat"])
        if action == "cut":
            self.cut = frozenset(chance.sample(PEERS, 1))
        elif action == "heal":
            self.cut = frozenset()
        elif action == "refuse":
            for peer in PEERS:
                self.replicas[peer].core_now().refuse_leadership(chance.random() < 0.2)
        elif leader is not None:
            raft = self.replicas[leader].core_now()
            if action == "write":
                with contextlib.suppress(NotLeader):  # it hands over
                    raft.propose([b"x"])
                    raft.read()
            elif action == "transfer":
                raft.transfer_leadership()
            elif action == "beat":
                raft.beat()
            else:
                status = raft.status()
                wanted = PEERS[:3] if chance.random() < 0.5 else PEERS[1:]
                raft.change_peers(term=status.term, token=chance.randrange(9), peers=wanted)
        self.awake.update(
            dict.fromkeys(PEERS if action == "refuse" else ([leader] if leader else []))
        )


@pytest.mark.parametrize("seed", range(30))
def test_a_group_whose_replicas_sleep_sends_the_same_at_the_same_ticks(seed: int) -> None:
    groups = [Group(sleeps=False), Group(sleeps=True)]
    chances = [random.Random(seed) for _ in groups]
    for now in range(1, 300):
        for group, chance in zip(groups, chances, strict=True):
            group.tick(now)
            if chance.random() < 0.15:
                group.act(chance)
                group.settle(now)
    assert groups[0].sent == groups[1].sent
    assert groups[0].told == groups[1].told
    assert groups[1].looked_at < groups[0].looked_at


def test_an_idle_group_is_looked_at_for_its_leader_alone() -> None:
    group = Group(sleeps=True)
    for now in range(1, 40):
        group.tick(now)
    group.looked_at = 0
    for now in range(40, 340):
        group.tick(now)
    leader_only = 300 / SETTINGS.heartbeat_ticks
    passive = 2 * 300 / SETTINGS.election_ticks  # the newcomer hears no peer
    assert group.looked_at < leader_only + passive + 5

"""Groups that carry out transactions over a bad network, with leaders that die or are deposed.

Each group has one log. Its leader is a real TransactionManager over a real StateMachine; what it
proposes is committed later, or lost with its leadership. A deposed leader may live on for a while
without knowing: it reads letters and writes some, but the log takes nothing from it.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from zonequake_protocol.client import (
    Append,
    Cas,
    Read,
    Reply,
    ReplyStatus,
    RequestId,
    Transaction,
    Write,
    partition_of,
)
from zonequake_store.network.transaction_messages import Letter
from zonequake_store.replica.requests import begin_of
from zonequake_store.state.client_table import ClientTable
from zonequake_store.state.commands import Command, decode_command, encode_command
from zonequake_store.state.partition import AppliedState, StateMachine
from zonequake_store.state.transactions import TransactionCommand, TransactionTable
from zonequake_store.storage.cells import MemoryCells
from zonequake_store.transactions.manager import TransactionManager

Entry = tuple[int, Command | None]  # None: a leader's first entry


@dataclass
class Leader:
    """A leader, real or deposed; `applied` entries of the group's log are in its state."""

    node: str
    term: int
    partition: StateMachine
    manager: TransactionManager


class Group:
    """One group: its committed log, what its leader proposed, and its leaders."""

    def __init__(self, name: str, number: int, groups: int) -> None:
        self.name = name
        self.number = number
        self._groups = groups
        self.log: list[Entry] = []
        self.proposed: list[Entry] = []
        self.term = 0
        self._nodes = itertools.count()
        self.leader = self._elected(0)
        self.deposed: list[Leader] = []

    @property
    def nodes(self) -> tuple[str, ...]:
        return (self.name,)

    def _elected(self, applied: int) -> Leader:
        self.term += 1
        cells = MemoryCells()
        partition = StateMachine(
            cells, clients=ClientTable(), transactions=TransactionTable(), state=AppliedState()
        )
        node = f"{self.name}-{next(self._nodes)}"
        manager = TransactionManager(
            self.name, node, partition, number=self.number, partitions=self._groups
        )
        leader = Leader(node, self.term, partition, manager)
        for entry in self.log[:applied]:
            self.apply(leader, entry)
        manager.lead(self.term, self.nodes)
        self.proposed.append((self.term, None))
        return leader

    def change_leader(self, rng: random.Random) -> None:
        """Depose the leader: of what it proposed a part is kept. The next one lags a little."""
        kept = rng.randint(0, len(self.proposed))
        self.proposed = self.proposed[:kept]
        self.deposed.append(self.leader)
        self.leader = self._elected(rng.randint(max(0, len(self.log) - 5), len(self.log)))

    def kill_deposed(self) -> None:
        """The deposed leaders notice, and tell their clients."""
        for leader in self.deposed:
            leader.manager.stop()
        self.deposed.clear()

    def apply(self, leader: Leader, entry: Entry) -> None:
        term, command = entry
        partition = leader.partition
        index = partition.index + 1
        if command is None:
            partition.skip(term, index, configuration=True)
            return
        outcome = partition.apply(term, index, command)
        if leader.manager.leads and isinstance(command, TransactionCommand):
            leader.manager.applied(command, outcome)

    def step(self) -> None:
        """Let the leader propose, and apply one more entry: a committed one, or the next."""
        leader = self.leader
        for command in leader.manager.take_proposals():
            self.proposed.append((leader.term, decode_command(encode_command(command))))
        if leader.partition.index < len(self.log):
            self.apply(leader, self.log[leader.partition.index])
        elif self.proposed:
            self.log.append(self.proposed.pop(0))
            self.apply(leader, self.log[-1])

    def value(self, key: str) -> list[int]:
        cell = self.leader.partition.read(key)
        return list(cell.value) if cell is not None and isinstance(cell.value, tuple) else []


@dataclass
class Asked:
    """A client's transaction: appends `number` to each of `keys`, and reads each before."""

    number: int
    keys: list[tuple[str, str]]  # group, key
    begun: int = 0
    ended: int = 0
    replies: list[Reply] = field(default_factory=list)

    @property
    def acknowledged(self) -> bool:
        return any(reply.status is ReplyStatus.OK and reply.applied for reply in self.replies)

    @property
    def may_be_done(self) -> bool:
        """Whether some attempt may have happened, or may yet."""
        certain = {
            ReplyStatus.NOT_LEADER,
            ReplyStatus.LOCKED,
            ReplyStatus.OVERLOADED,
            ReplyStatus.INVALID,
        }
        return any(reply.status not in certain for reply in self.replies)


class Groups:
    """Groups, the letters between them, and clients; every choice comes from one seed."""

    def __init__(self, seed: int, *, groups: int = 3, keys_per_group: int = 2) -> None:
        self.rng = random.Random(seed)
        self.groups = {f"g{n}": Group(f"g{n}", n, groups) for n in range(groups)}
        self.letters: list[tuple[str, Letter]] = []
        self.asked: list[Asked] = []
        self._ids = itertools.count(1)
        self._moments = itertools.count(1)
        names = (f"k{n}" for n in itertools.count())
        self.keys: dict[str, list[str]] = {group: [] for group in self.groups}
        while any(len(keys) < keys_per_group for keys in self.keys.values()):
            key = next(names)
            mine = self.keys[f"g{partition_of(key, groups)}"]
            if len(mine) < keys_per_group:
                mine.append(key)

    # ── clients ──────────────────────────────────────────────────────────────────────────────

    def begin(self) -> None:
        """A new client, or one that tries again: after no answer, or one that isn't certain."""
        again = [each for each in self.asked if not each.acknowledged]
        if again and self.rng.random() < 0.3:
            asked = self.rng.choice(again)
        else:
            groups = self.rng.sample(sorted(self.groups), self.rng.randint(1, len(self.groups)))
            keys = [(group, self.rng.choice(self.keys[group])) for group in groups]
            asked = Asked(len(self.asked) + 1, keys, begun=next(self._moments))
            self.asked.append(asked)
        self.ask(asked)

    def ask(self, asked: Asked) -> None:
        """Send the transaction to its first group's leader, or to one that thinks so."""
        first = asked.keys[0][0]
        steps: list[Read | Write | Cas | Append] = []
        for group, key in asked.keys:
            steps += [Read(group, key), Append(group, key, asked.number)]
        transaction = Transaction(first, steps, RequestId(f"c{asked.number}", 1))
        owner = self.groups[first]
        leader = self.rng.choice([owner.leader, *owner.deposed])

        def answered(reply: Reply) -> None:
            if not asked.acknowledged:
                asked.ended = next(self._moments)
            asked.replies.append(reply)

        leader.manager.begin(next(self._ids), begin_of(transaction), answered)

    # ── time ─────────────────────────────────────────────────────────────────────────────────

    def step(self, *, loss: float, leader_changes: float) -> None:
        """One thing happens."""
        rng = self.rng
        self._collect()
        group = rng.choice(list(self.groups.values()))
        kind = rng.random()
        if kind < leader_changes:
            group.change_leader(rng)
        elif kind < 2 * leader_changes:
            group.kill_deposed()
        elif kind < 0.1:
            for leader in (group.leader, *group.deposed):
                leader.manager.tick()
        elif kind < 0.5 or not self.letters:
            group.step()
        else:
            place = rng.randrange(len(self.letters))
            sender, letter = self.letters[place]
            if rng.random() > 0.1:  # else it comes twice
                del self.letters[place]
            if rng.random() >= loss:
                self._deliver(sender, letter)

    def settle(self) -> None:
        """Nothing is lost or killed any more; run until nothing is under way."""
        for group in self.groups.values():
            group.kill_deposed()
        for turn in range(4000):
            self._collect()
            while self.letters:
                self._deliver(*self.letters.pop(0))
                self._collect()
            for group in self.groups.values():
                group.step()
                if turn % 5 == 0:
                    group.leader.manager.tick()
            if turn % 50 == 49 and self.is_quiet:
                return
        raise AssertionError("the transactions do not come to an end")

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is prepared, decided or under way."""
        leaders = [group.leader for group in self.groups.values()]
        return not (
            self.letters
            or any(group.proposed for group in self.groups.values())
            or any(leader.manager.needs_ticks or leader.manager.has_work for leader in leaders)
            or any(leader.partition.transactions.prepared for leader in leaders)
            or any(leader.partition.transactions.decisions for leader in leaders)
        )

    def _collect(self) -> None:
        for group in self.groups.values():
            for leader in (group.leader, *group.deposed):
                sent = leader.manager.take_letters()
                self.letters += [(leader.node, letter) for letter in sent]
            for leader in group.deposed:
                leader.manager.take_proposals()  # the log takes nothing from it

    def _deliver(self, sender: str, letter: Letter) -> None:
        group = self.groups[letter.group]
        for leader in (group.leader, *group.deposed):
            leader.manager.receive(letter.message, sender)


Check = Callable[[Groups], None]


def check_atomicity(groups: Groups) -> None:
    """Each transaction is in all of its lists once or in none; what was told is true."""
    for asked in groups.asked:
        found = [groups.groups[group].value(key).count(asked.number) for group, key in asked.keys]
        assert len(set(found)) == 1, f"transaction {asked.number} is in part there: {found}"
        assert found[0] <= 1, f"transaction {asked.number} was done {found[0]} times"
        if asked.acknowledged:
            assert found[0] == 1, f"transaction {asked.number} was acknowledged and is lost"
        elif asked.replies and not asked.may_be_done:
            assert found[0] == 0, f"transaction {asked.number} certainly failed, and is there"


def check_serializability(groups: Groups) -> None:
    """There is one order of all committed transactions that explains every list and every read,
    and in which who had ended stands before who had not begun."""
    committed = {
        asked.number: asked
        for asked in groups.asked
        if groups.groups[asked.keys[0][0]].value(asked.keys[0][1]).count(asked.number)
    }
    before: dict[int, set[int]] = {number: set() for number in committed}
    for group in groups.groups.values():
        for key in groups.keys[group.name]:
            order = group.value(key)
            for earlier, later in itertools.pairwise(order):
                before[later].add(earlier)
    for asked in committed.values():
        for reply in asked.replies:
            if reply.status is ReplyStatus.OK and reply.results is not None:
                for (owner, key), read in zip(asked.keys, reply.results[::2], strict=True):
                    order = groups.groups[owner].value(key)
                    expected = order[: order.index(asked.number)]
                    assert (read or []) == expected, f"{asked.number} read {read} of {order}"
        for other in committed.values():
            if other.acknowledged and other.ended < asked.begun:
                before[asked.number].add(other.number)
    done: set[int] = set()
    while len(done) < len(committed):
        free = [number for number, those in before.items() if number not in done and those <= done]
        assert free, "the lists contradict each other: no order explains them"
        done.update(free)


def check_counters(groups: Groups) -> None:
    """All transactions ended: nothing is reserved, nothing is locked."""
    for group in groups.groups.values():
        partition = group.leader.partition
        assert partition.counter.is_sequential
        assert not partition.transactions.locks

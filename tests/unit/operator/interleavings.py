"""Every order of events of one small group: a search over all states, none of them twice.

A state is the stored keys, the group's model, what is wished, and orders that are under way. The
operator writes once or sends one order per step, so that anything may happen between any two of
its acts, and an order that isn't sent is one that was lost:

    operator      one write ∙ one order ∙ one order that is held back and arrives at any later time
    group         one step of its own
    faults        leader deposed ∙ with its uncommitted entries ∙ replica lost ∙ node away and back
    people        another wish

Faults and wishes are bounded by a budget. States that differ only by how high tokens, terms and
indexes have counted are one state: they are only ever compared, and continued from the highest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from zonequake_operator.groups.reports import Group
from zonequake_operator.rebalance.key_changes import WantedKeys, decide
from zonequake_operator.rebalance.orders import ReplicaSettings, orders
from zonequake_operator.resources.model import AssignmentSet, PartitionKeys
from zonequake_protocol.admin import ConfigurationReport, Order, PeerName, Stage, StartReplica

MAX_QUIET_STEPS = 400
"""So many steps without faults bring any state to its end; the longest took under 60."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How often what may happen; `wishes` are taken in their order, each at any time."""

    wishes: tuple[str, ...] = ()
    depositions: int = 0
    losses: int = 0
    absences: int = 0
    held: int = 0


@dataclass(slots=True)
class State:
    """One moment. `group` is a StoreGroup."""

    keys: PartitionKeys
    group: Any
    wish: WantedKeys
    budget: Budget
    away: frozenset[str] = frozenset()
    late: tuple[tuple[str, Order], ...] = ()
    due: bool = False

    def alive(self, nodes: frozenset[str]) -> frozenset[str]:
        return nodes - self.away

    def key(self) -> bytes:
        """Equal for states with the same future."""
        return _canonical(self)


@dataclass(slots=True)
class Search:
    """All states that a start can come to. `nodes`: of the topology."""

    nodes: frozenset[str]
    settings: ReplicaSettings
    may_leave: frozenset[str]
    for_good: bool
    """Does no node come back that left?"""
    check: Callable[[State, State], None]
    """Raises AssertionError if the second may not follow the first."""
    seen: set[bytes] = field(default_factory=set)
    ends_well: set[bytes] = field(default_factory=set)

    def run(self, start: State, limit: int) -> int:
        """Visit every state, and follow each to its end. Returns how many there are.

        Raises AssertionError with the events that lead there, if a state is forbidden or doesn't
        end at the wish; or if there are more than `limit`.
        """
        stack: list[tuple[State, tuple[str, ...]]] = [(start, ())]
        self.seen.add(start.key())
        while stack:
            state, path = stack.pop()
            try:
                self.assert_it_ends_well(state)
                for event, after in self.successors(state):
                    key = after.key()
                    if key in self.seen:
                        continue
                    self.check(state, after)
                    self.seen.add(key)
                    assert len(self.seen) <= limit, f"more than {limit} states"
                    stack.append((after, (*path, event)))
            except AssertionError as error:
                error.add_note(f"after {', '.join(path)}\n{state.keys}")
                raise
        return len(self.seen)

    def successors(self, state: State) -> Iterator[tuple[str, State]]:
        """Whatever may happen next."""
        yield from self._by_the_operator(state)
        yield "tick", _changed(state, group=lambda group: group.tick())
        for number, (node, order) in enumerate(state.late):
            rest = state.late[:number] + state.late[number + 1 :]
            name = f"{type(order).__name__} arrives late at {node}"
            yield name, _changed(state, group=_obeying(node, order), late=rest)
        yield from self._faults(state)
        if state.budget.wishes:
            first, *rest_of_wishes = state.budget.wishes
            budget = replace(state.budget, wishes=tuple(rest_of_wishes))
            yield f"wish {first}", _changed(state, wish=first, budget=budget)

    def _by_the_operator(self, state: State) -> Iterator[tuple[str, State]]:
        seen = self._report(state)
        after = self._decide(state, seen)
        if after != state.keys:
            yield "write", _changed(state, keys=after)
            return  # orders rest on what is stored
        if state.due:
            yield "write", _changed(state, due=False)
            return
        for node, order in self._orders(state, seen):
            name = type(order).__name__
            yield f"{name} to {node}", _changed(state, group=_obeying(node, order))
            if state.budget.held and not isinstance(order, StartReplica):
                budget = replace(state.budget, held=state.budget.held - 1)
                late = (*state.late, (node, order))
                yield f"{name} to {node} is held", _changed(state, budget=budget, late=late)

    def _faults(self, state: State) -> Iterator[tuple[str, State]]:
        budget = state.budget
        if budget.depositions and state.group.leader is not None:
            spent = replace(budget, depositions=budget.depositions - 1)
            yield "depose", _changed(state, group=lambda g: g.depose(), budget=spent)
            if state.group.index > state.group.commit:
                losing = lambda g: g.depose(losing_uncommitted=True)  # noqa: E731
                yield "depose and lose", _changed(state, group=losing, budget=spent)
        if budget.losses:
            spent = replace(budget, losses=budget.losses - 1)
            for node in sorted(state.group.replicas):
                if node not in state.away:
                    lose = lambda g, node=node: g.lose(node)  # noqa: E731
                    yield f"lose {node}", _changed(state, group=lose, budget=spent)
        if budget.absences:
            spent = replace(budget, absences=budget.absences - 1)
            for node in sorted(self.may_leave - state.away):
                leave = lambda g, node=node: g.crash(node)  # noqa: E731
                away = state.away | {node}
                yield (
                    f"{node} leaves",
                    _changed(state, group=leave, budget=spent, away=away, due=True),
                )
        for node in sorted(() if self.for_good else state.away):
            away = state.away - {node}
            yield f"{node} comes back", _changed(state, away=away, due=True)

    # ------------------------------------------------------------------------------- the operator

    def _report(self, state: State) -> Group:
        found: Group = state.group.report(state.away)
        return found

    def _decide(self, state: State, seen: Group) -> PartitionKeys:
        return decide(state.keys, seen, replace(state.wish, due=state.due), state.alive(self.nodes))

    def _orders(self, state: State, seen: Group) -> list[tuple[str, Order]]:
        alive = state.alive(self.nodes)
        return orders(state.keys, seen, self.settings, alive=alive, reachable=alive)

    # -------------------------------------------------------------------------------- to the end

    def assert_it_ends_well(self, state: State) -> None:
        """Without further faults: who comes back is back, and the operator and the group go on."""
        passed = []
        if state.budget.wishes:
            state = _changed(state, wish=state.budget.wishes[-1])
        if state.away and not self.for_good:
            state = _changed(state, away=frozenset(), due=True)
        for _ in range(MAX_QUIET_STEPS):
            key = state.key()
            if key in self.ends_well:
                break
            passed.append(key)
            if (after := self._quiet_step(state)) is None:
                self._assert_ended(state)
                break
            state = after
        else:
            raise AssertionError(f"it doesn't end: {state.keys}, {state.group}")
        self.ends_well.update(passed)

    def _quiet_step(self, state: State) -> State | None:
        if state.late:
            node, order = state.late[0]
            return _changed(state, group=_obeying(node, order), late=state.late[1:])
        seen = self._report(state)
        if (after := self._decide(state, seen)) != state.keys:
            return _changed(state, keys=after)
        if state.due:
            return _changed(state, due=False)
        told = self._orders(state, seen)

        def everything(group: Any) -> None:
            for node, order in told:
                group.obey(node, order)
            group.tick()

        after_all = _changed(state, group=everything)
        return None if after_all.key() == state.key() else after_all

    def _assert_ended(self, state: State) -> None:
        keys, group = state.keys, state.group
        if not group.is_lost():
            assert keys.stable == state.wish.calculated, (
                f"{keys.stable} isn't {state.wish.calculated}"
            )
            assert keys.pending is None
            assert keys.planned is None
            assert keys.pending_lock is None
            assert (keys.switch_reduce, keys.switch_append) == ((), ())
            assert group.leader is not None
            assert group.stage is Stage.NONE, "no leader waits for a grant that never comes"
            assert keys.stable is not None
            assert set(group.replicas) - state.away == set(keys.stable.nodes)


def _obeying(node: str, order: Order) -> Callable[[Any], None]:
    return lambda group: group.obey(node, order)


def _changed(
    state: State,
    *,
    group: Callable[[Any], None] | None = None,
    keys: PartitionKeys | None = None,
    wish: str | None = None,
    budget: Budget | None = None,
    away: frozenset[str] | None = None,
    late: tuple[tuple[str, Order], ...] | None = None,
    due: bool | None = None,
) -> State:
    after_group = state.group
    if group is not None:
        after_group = state.group.copy()
        group(after_group)
    due = state.due if due is None else due
    after_wish = state.wish
    if wish is not None:
        target = AssignmentSet.of(*wish)
        after_wish, due = (
            replace(after_wish, calculated=target, revision=after_wish.revision + 1),
            True,
        )
    if keys is not None:
        due = False  # a write of a due partition raises its trigger revision
    return State(
        keys=state.keys if keys is None else keys,
        group=after_group,
        wish=after_wish,
        budget=state.budget if budget is None else budget,
        away=state.away if away is None else away,
        late=state.late if late is None else late,
        due=due,
    )


# -------------------------------------------------------------------------------- canonical states


def _canonical(state: State) -> bytes:
    keys, group = state.keys, state.group
    tokens = _Ranks([0])
    terms, indexes = _Ranks([0]), _Ranks([0])
    for one in (keys.bootstrap, keys.pending_lock):
        if one is not None:
            tokens.add(one.token)
    tokens.add(keys.configuration_token, keys.bootstrap_lineage, group.stage_token)
    configurations = [c for c in (group.configuration, group.committed) if c is not None]
    for configuration in configurations:
        tokens.add(configuration.token)
        indexes.add(configuration.index)
    tokens.add(*(replica.token for replica in group.replicas.values()))
    indexes.add(group.index, group.commit)
    terms.add(group.term)
    for _, order in state.late:
        tokens.add(order.token)
        terms.add(getattr(order, "term", 0))
    lives = _Lives()

    def peers(found: Any) -> list[tuple[str, int]]:
        return sorted((p.node, lives.of(p)) for p in found)

    def configuration_of(c: ConfigurationReport | None) -> object:
        if c is None:
            return None
        token, index = tokens.of(c.token), indexes.of(c.index)
        return [peers(c.peers), peers(c.old_peers), token, index]

    def set_of(found: AssignmentSet | None) -> object:
        return found and [found.nodes, found.force, found.from_reset]

    def token_peers(found: Any) -> object:
        return found and [tokens.of(found.token), peers(found.peers)]

    def order_of(node: str, order: Any) -> object:
        named = peers(getattr(order, "peers", ()))
        incarnation = getattr(order, "incarnation", None)
        life = None if incarnation is None else lives.of(PeerName(node, incarnation))
        term = terms.of(getattr(order, "term", 0))
        return [type(order).__name__, node, tokens.of(order.token), term, named, life]

    return msgspec.msgpack.encode(
        [
            [configuration_of(group.configuration), configuration_of(group.committed)],
            [
                (n, lives.of(PeerName(n, r.incarnation)), tokens.of(r.token), r.running)
                for n, r in sorted(group.replicas.items())
            ],
            [set_of(keys.stable), set_of(keys.pending), set_of(keys.planned)],
            [token_peers(keys.bootstrap), token_peers(keys.pending_lock)],
            [tokens.of(keys.configuration_token), tokens.of(keys.bootstrap_lineage)],
            [keys.switch_reduce, keys.switch_append],
            [group.leader, terms.of(group.term), indexes.of(group.index), indexes.of(group.commit)],
            [group.stage.value, tokens.of(group.stage_token), peers(group.stage_peers)],
            [group.caught_up, group.granted, group.silent_ticks, str(group.ended)],
            [set_of(state.wish.calculated), state.due, sorted(state.away)],
            [order_of(node, order) for node, order in state.late],
            [getattr(state.budget, name) for name in Budget.__slots__],
        ]
    )


class _Ranks:
    """Numbers by their order alone."""

    def __init__(self, numbers: list[int]) -> None:
        self._numbers = set(numbers)
        self._ranks: dict[int, int] = {}

    def add(self, *numbers: int) -> None:
        self._numbers.update(numbers)

    def of(self, number: int) -> int:
        if not self._ranks:
            self._ranks = {n: rank for rank, n in enumerate(sorted(self._numbers))}
        return self._ranks[number]


class _Lives:
    """Incarnations of each node, in the order in which a state shows them."""

    def __init__(self) -> None:
        self._lives: dict[str, dict[str, int]] = {}

    def of(self, peer: PeerName) -> int:
        lives = self._lives.setdefault(peer.node, {})
        return lives.setdefault(peer.incarnation, len(lives))

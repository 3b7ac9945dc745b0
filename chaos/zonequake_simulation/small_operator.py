"""The small operator of the simulation: permits starts, changes peers, grants and resets groups.

Some of its orders are old or forbidden on purpose (docs/design/decisions.md, "Simulation").

Level-triggered: it observes a group, and takes the next step to its target. Several run at the same
time: each acts on its observation, which may be old when its order arrives, and writes by
compare-and-swap; term and token guard the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from random import Random

from zonequake_operator.resources.leases import Renewals
from zonequake_protocol.admin import Stage
from zonequake_simulation import orders
from zonequake_simulation.api_server import API, ApiServer, StoredWish
from zonequake_simulation.checks.group import GroupRules
from zonequake_simulation.member import SimulatedNode
from zonequake_simulation.network import Network
from zonequake_simulation.replicas import GroupPlace
from zonequake_simulation.scenario import Scenario
from zonequake_simulation.world import World
from zonequake_store.lease.rules.node_lease import LeaseRecord, PutLease
from zonequake_store.raft.api import RaftRole, RaftStatus
from zonequake_store.raft.messages import Configuration, Peer
from zonequake_store.replica.replica import Replica

_SIZES = (1, 2, 3, 3, 3, 4, 5)
_RESET_AFTER_US = 300_000
"""How long a majority must be missing before the operator gives it up."""


def leader_of(
    nodes: Mapping[str, SimulatedNode], group: str
) -> tuple[SimulatedNode, RaftStatus] | None:
    """Returns the leader of a group at the highest term; None if there is none."""
    found: tuple[SimulatedNode, RaftStatus] | None = None
    for node in nodes.values():
        replica = node.replicas.get(group)
        if replica is not None and replica.core_now()._replica.role is RaftRole.LEADER:
            status = replica.core_now().status()
            if found is None or status.term > found[1].term:
                found = node, status
    return found


class GroupOperator:
    """The operators of one group, and their shared state at the API server."""

    def __init__(
        self,
        place: GroupPlace,
        *,
        world: World,
        network: Network,
        api: ApiServer,
        scenario: Scenario,
        rules: GroupRules,
        nodes: dict[str, SimulatedNode],
    ) -> None:
        self.place = place
        self.quiet = False
        """Whether the operator does only what is necessary, without any tricks."""
        self.after_grant: Callable[[SimulatedNode], None] | None = None
        """A waiting fault; it gets the leader after the next grant."""
        self.first_members: tuple[Peer, ...] = ()
        """Empty: a group is bootstrapped in the instant of its decision, so no member waits for
        it.
        """
        self._world = world
        self._network = network
        self._api = api
        self._scenario = scenario
        self._rules = rules
        self._nodes = nodes
        self._random: Random = world.stream(f"operator {place.name}")
        self._missing_since_us: int | None = None
        self._renewals = Renewals()

    @property
    def wish(self) -> StoredWish:
        """The stored wish."""
        return self._api.read(self.place.name)[1]

    @property
    def under_way(self) -> tuple[tuple[Peer, ...], ...]:
        """Peers of a change that is granted and not begun: its leader must commit an entry of its
        own term first."""
        return tuple(
            peers
            for leader, term, token, peers in self._rules.reconfiguration.grants
            if self._waits_with(leader, term, token)
        )

    def _waits_with(self, leader: Peer, term: int, token: int) -> bool:
        replica = self._nodes[leader.node].replicas.get(self.place.name)
        if replica is None or replica.me != leader:
            return False
        seen = replica.core_now().status()
        return (
            seen.role is RaftRole.LEADER
            and seen.stage is Stage.CATCHING_UP
            and (seen.term, seen.stage_token) == (term, token)
        )

    def bootstrap(self, members: list[str]) -> None:
        """Begins the group on these nodes."""
        for node in self._nodes.values():
            node.start_replica(self.place, token=1, lineage=0)
        group = self.place.name
        peers = tuple(sorted(self._nodes[name].replicas[group].me for name in members))
        assert self._api.write(group, 0, StoredWish(token=1, wanted=peers)), "the group is new"
        first = Configuration(peers=peers, token=1)
        for name in members:
            self._nodes[name].act(group, lambda replica: _bootstrap(replica, first))
        self._world.later(200_000, self._operate)
        if self._scenario.lease_ms:
            self._look_at_leases()

    # ── permission to start ──────────────────────────────────────────────────────────────────

    def node_started(self, node: SimulatedNode) -> None:
        """Takes note of a new process: its replica may start once the operator permits it."""
        delay_us = self._random.randrange(5_000, 300_000)
        self._world.later(delay_us, lambda: self._permit(node, node.process))

    def _permit(self, node: SimulatedNode, process: int) -> None:
        if node.process != process or not node.alive:
            return
        if not self._hears(node):
            self._world.later(300_000, lambda: self._permit(node, process))
            return
        version, wish = self._api.read(self.place.name)
        replica = node.start_replica(self.place, token=wish.token, lineage=wish.lineage)
        if replica is None:
            if not node.erase(self.place.name):
                return  # it is erased in the node's next process
            replica = node.start_replica(self.place, token=wish.token, lineage=wish.lineage)
            assert replica is not None, "an empty replica starts"
        me = replica.me
        if any(peer.node == me.node and peer != me for peer in wish.wanted):
            # The wanted peer's storage is gone: another incarnation takes its place.
            wanted = tuple(sorted(me if peer.node == me.node else peer for peer in wish.wanted))
            self._api.write(
                self.place.name, version, replace(wish, token=wish.token + 1, wanted=wanted)
            )

    def _hears(self, node: SimulatedNode) -> bool:
        """Returns whether an order reaches a node, and its answer returns."""
        network = self._network
        return network.reaches(API, node.name) and network.reaches(node.name, API)

    # ── wishes ───────────────────────────────────────────────────────────────────────────────

    def wish_for(self, draw: int) -> bool:
        """Wants another set of peers; returns False if that is impossible now."""
        version, wish = self._api.read(self.place.name)
        if wish.survivor is not None:
            return False  # a forced set is locked until it leads
        random = Random(draw)  # noqa: S311
        size = min(random.choice(_SIZES), len(self._nodes))
        present = self._present()
        if len(present) < size:
            return False
        wanted = tuple(sorted(present[name] for name in random.sample(sorted(present), size)))
        self._write(version, replace(wish, token=wish.token + 1, wanted=wanted))
        return True

    def _write(self, version: int, wish: StoredWish) -> None:
        self._api.write(self.place.name, version, wish)

    def _present(self) -> dict[str, Peer]:
        group = self.place.name
        return {
            name: node.replicas[group].me
            for name, node in self._nodes.items()
            if group in node.replicas and not self._has_left(name)
        }

    def _has_left(self, name: str) -> bool:
        lease = self._api.leases().get(name)
        return lease is not None and lease.is_fenced_for(f"{name}-{self._nodes[name].process}")

    def _look_at_leases(self) -> None:
        """Takes over Leases that have run out, unless they were renewed since the operator read
        them.
        """
        self._world.later(self._random.randrange(60_000, 140_000), self._look_at_leases)
        leases = self._api.leases()
        self._renewals.looked(leases, self._world.now_us / 1e6)
        for name in sorted(self._renewals.run_out):
            lease = leases[name]
            if lease.fenced is None:
                record = LeaseRecord(holder=lease.holder, session=lease.session, fenced="left")
                if self._api.put_lease(name, PutLease(record, lease.resource_version)):
                    self._world.tally["fences"] += 1

    def _let_go_on(self) -> None:
        """Permits replicas in the sessions that their nodes have begun.

        The session is read first, then the wish; the order arrives some time later.
        """
        group = self.place.name
        for name, node in self._nodes.items():
            replica = node.replicas.get(group)
            if replica is None or replica.permission is None or node.lease is None:
                continue
            session, holder = node.lease.rule.session, node.lease.rule.holder
            if not session:
                continue
            if replica.permission.session == session or self._has_left(name):
                continue
            if not self._hears(node):
                continue
            lineage = self.wish.lineage
            self._world.later(
                self._random.randrange(1_000, 40_000),
                partial(node.act, group, partial(_permit, lineage, session, holder)),
            )

    # ── looking ──────────────────────────────────────────────────────────────────────────────

    def leader(self) -> tuple[SimulatedNode, RaftStatus] | None:
        """Returns the leader of the highest term, even if it is not reachable."""
        return leader_of(self._nodes, self.place.name)

    def is_settled(self, status: RaftStatus) -> bool:
        """Returns whether a leader reports what is wanted, and nothing is under way."""
        configuration, wish = status.configuration, self.wish
        return (
            configuration is not None
            and configuration.peers == wish.wanted
            and configuration.token == wish.token
            and configuration.lineage == wish.lineage
            and not configuration.is_joint
            and status.stage is Stage.NONE
            and wish.survivor is None
        )

    def _operate(self) -> None:
        random = self._random
        self._world.later(random.randrange(50_000, 400_000), self._operate)
        version, wish = self._api.read(self.place.name)
        if self._scenario.lease_ms:
            self._let_go_on()
        if wish.lineage:
            self._enforce(wish)
        found = self.leader()
        if found is not None and not self._hears(found[0]):
            found = None
        if self._scenario.lease_ms and self._reset_is_due(wish, found):
            self._begin_reset(version, wish)
            return
        if wish.survivor is not None:
            self._reset(version, wish, found)
            return
        if found is None:
            return
        node, seen = found
        if self.is_settled(seen):
            if not self.quiet and random.random() < 0.2:
                node.act(
                    self.place.name, lambda replica: orders.try_old_orders(replica, wish.wanted)
                )
                other = self._nodes[random.choice(wish.wanted).node]
                other.act(self.place.name, orders.try_forbidden_reset)
            return
        late_us = 0 if self.quiet else random.choice([0, 0, 1_000, 50_000])
        self._world.later(late_us, lambda: self._order(node, seen, wish))

    # ── changes ──────────────────────────────────────────────────────────────────────────────

    def _order(self, node: SimulatedNode, seen: RaftStatus, wish: StoredWish) -> None:
        group = self.place.name
        catching_up = seen.stage is Stage.CATCHING_UP
        if seen.stage is Stage.NONE or (catching_up and seen.stage_token != wish.token):
            node.act(group, lambda replica: orders.change_peers(replica, seen, wish))
        elif catching_up and seen.caught_up:
            alive = set(self._present().values()).intersection(wish.wanted)
            if wish != self.wish or 2 * len(alive) <= len(wish.wanted):
                return  # the lock is asked for at the API server, and only for a live majority
            granted: list[bool] = []
            node.act(group, lambda replica: granted.append(self._grant(replica, seen, wish)))
            if granted == [True] and self.after_grant is not None:
                strike, self.after_grant = self.after_grant, None
                strike(node)
        elif not self.quiet and self._random.random() < self._scenario.cancels:
            node.act(group, lambda replica: self._cancel(replica, seen))

    def _grant(self, replica: Replica, seen: RaftStatus, wish: StoredWish) -> bool:
        self._rules.reconfiguration.grants.add((replica.me, seen.term, wish.token, wish.wanted))
        return orders.grant(replica, seen, wish)

    def _cancel(self, replica: Replica, seen: RaftStatus) -> None:
        self._world.tally["cancels"] += orders.cancel(replica, seen)

    # ── resets ───────────────────────────────────────────────────────────────────────────────

    def _reset_is_due(
        self, wish: StoredWish, found: tuple[SimulatedNode, RaftStatus] | None
    ) -> bool:
        """Returns whether a majority has been missing for long enough, and is missing now."""
        if not self._is_missing(wish, found):
            self._missing_since_us = None
            return False
        now_us = self._world.now_us
        if self._missing_since_us is None:
            self._missing_since_us = now_us
        return now_us - self._missing_since_us >= _RESET_AFTER_US

    def _is_missing(self, wish: StoredWish, found: tuple[SimulatedNode, RaftStatus] | None) -> bool:
        if wish.survivor is not None:
            return self._has_left(wish.survivor.node)  # a forced set lost its only member
        if found is not None:
            return False
        present = self._present()
        newest: tuple[int, int, Configuration] | None = None
        for name in present:
            status = self._nodes[name].replicas[self.place.name].core_now().status()
            if status.configuration is not None:
                key = (status.configuration.lineage, status.configuration_index)
                if newest is None or key > newest[:2]:
                    newest = (*key, status.configuration)
        if newest is None:
            return False  # no live node has any state: nothing can be reset
        alive = set(present.values())
        return any(
            2 * len(alive.intersection(half)) <= len(half)
            for half in (newest[2].peers, newest[2].old_peers, wish.wanted)
            if half
        )

    def _begin_reset(self, version: int, wish: StoredWish) -> None:
        """Gives up the majority: the live node with the newest log continues alone."""
        best: tuple[int, int, Peer] | None = None
        for name, peer in self._present().items():
            log = self._nodes[name].replicas[self.place.name].core_now()._replica.log
            configuration = log.configuration
            if configuration is None or configuration.token < wish.lineage:
                continue
            key = (log.last_term, log.last_index, peer)
            if best is None or key > best:
                best = key
        self._missing_since_us = None
        if best is None:
            return
        token, survivor = wish.token + 1, best[2]
        self._write(
            version, StoredWish(token=token, wanted=(survivor,), lineage=token, survivor=survivor)
        )
        self._world.tally["resets decided"] += 1

    def _enforce(self, wish: StoredWish) -> None:
        """Sends reachable nodes the lineage below which no replica takes part; to some only
        later.
        """
        for node in self._nodes.values():
            if self._hears(node) and (self.quiet or self._random.random() < 0.7):
                node.act(self.place.name, lambda replica: replica.core_now().enforce(wish.lineage))

    def _reset(
        self, version: int, wish: StoredWish, found: tuple[SimulatedNode, RaftStatus] | None
    ) -> None:
        """Repeats the reset until a leader of its lineage reports; then adds the other peers
        again.
        """
        survivor = wish.survivor
        assert survivor is not None, "a forced set is under way"
        if found is not None:
            configuration = found[1].configuration
            assert configuration is not None, "a leader has a configuration"
            if configuration.lineage == wish.lineage and found[1].commit >= (
                found[1].configuration_index
            ):
                present = {**self._present(), survivor.node: survivor}
                names = sorted(present, key=lambda name: (name != survivor.node, name))
                wanted = tuple(sorted(present[name] for name in names[:3]))
                token = wish.token + (len(wanted) > 1)
                self._write(version, replace(wish, token=token, wanted=wanted, survivor=None))
                return
        node = self._nodes[survivor.node]
        if self._hears(node) and not self._untold(wish, survivor):
            node.act(self.place.name, lambda replica: orders.reset_peers(replica, wish))

    def _untold(self, wish: StoredWish, survivor: Peer) -> bool:
        """Returns whether a node that hasn't left may not know of the reset: it could still
        acknowledge.
        """
        group = self.place.name
        return any(
            not self._hears(node) or node.replicas[group].core_now().status().lineage < wish.lineage
            for name, node in self._nodes.items()
            if name != survivor.node and group in node.replicas and not self._has_left(name)
        )


def _permit(lineage: int, session: int, holder: str, replica: Replica) -> None:
    replica.core_now().enforce(lineage)
    assert replica.permission is not None, "nodes have Leases"
    replica.permission.permit(session, holder)


def _bootstrap(replica: Replica, first: Configuration) -> None:
    replica.core_now().bootstrap(first)

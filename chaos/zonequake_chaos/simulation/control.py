"""The operator in virtual time: gives replicas permission to start, changes peers, grants.

Level-triggered: it looks, and does the next thing that brings a group to what is wanted. What it
looked at may be old when its order arrives; term and token guard the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from zonequake_chaos.simulation.checks.group import GroupRules
from zonequake_chaos.simulation.member import GroupPlace, Node
from zonequake_chaos.simulation.scenario import Scenario
from zonequake_chaos.simulation.violation import require
from zonequake_chaos.simulation.world import World
from zonequake_store.admin_protocol import Stage
from zonequake_store.raft.api import ChangePeersAnswer, GrantAnswer, Role, Status
from zonequake_store.raft.messages import Configuration, Peer
from zonequake_store.replica import Replica

_SIZES = (1, 2, 3, 3, 3, 4, 5)


class GroupOperator:
    """The operator of one group. `wanted` and `token` are what it has written down."""

    def __init__(
        self,
        place: GroupPlace,
        *,
        world: World,
        scenario: Scenario,
        rules: GroupRules,
        nodes: dict[str, Node],
    ) -> None:
        self.place = place
        self.token = 1
        self.wanted: tuple[Peer, ...] = ()
        self.quiet = False
        """No tricks any more: only what has to be done."""
        self.after_grant: Callable[[Node], None] | None = None
        """A fault that waits for the next grant, and gets the leader."""
        self._world = world
        self._scenario = scenario
        self._rules = rules
        self._nodes = nodes
        self._random: Random = world.stream(f"operator {place.name}")

    def bootstrap(self, members: list[str]) -> None:
        """Begin the group on these nodes."""
        for node in self._nodes.values():
            node.start_replica(self.place, self.token)
        group = self.place.name
        self.wanted = tuple(sorted(self._nodes[name].replicas[group].me for name in members))
        first = Configuration(peers=self.wanted, token=self.token)
        for name in members:
            self._nodes[name].act(group, lambda replica: _bootstrap(replica, first))
        self._world.later(200_000, self._operate)

    def node_started(self, node: Node) -> None:
        """A process began: its replica may start once the operator says so."""
        delay_us = self._random.randrange(5_000, 300_000)
        self._world.later(delay_us, lambda: self._permit(node))

    def _permit(self, node: Node) -> None:
        if not node.alive:
            return
        replica = node.start_replica(self.place, self.token)
        if replica is None:
            node.erase(self.place.name)
            replica = node.start_replica(self.place, self.token)
            assert replica is not None, "an empty replica starts"
        me = replica.me
        if any(peer.node == me.node and peer != me for peer in self.wanted):
            # The storage that the wanted peer had is gone: another incarnation takes its place.
            self.token += 1
            self.wanted = tuple(
                sorted(me if peer.node == me.node else peer for peer in self.wanted)
            )

    def wish(self, draw: int) -> None:
        """Want another set of peers."""
        random = Random(draw)  # noqa: S311
        size = min(random.choice(_SIZES), len(self._nodes))
        present = {
            name: node.replicas[self.place.name].me
            for name, node in self._nodes.items()
            if self.place.name in node.replicas
        }
        if len(present) < size:
            return
        self.token += 1
        self.wanted = tuple(sorted(present[name] for name in random.sample(sorted(present), size)))

    def leader(self) -> tuple[Node, Status] | None:
        """The leader of the highest term."""
        found: tuple[Node, Status] | None = None
        for node in self._nodes.values():
            replica = node.replicas.get(self.place.name)
            if replica is not None and replica.raft._replica.role is Role.LEADER:
                status = replica.raft.status()
                if found is None or status.term > found[1].term:
                    found = node, status
        return found

    def is_settled(self, status: Status) -> bool:
        """Whether a leader reports what is wanted, and nothing is under way."""
        configuration = status.configuration
        return (
            configuration is not None
            and configuration.peers == self.wanted
            and configuration.token == self.token
            and not configuration.is_joint
            and status.stage is Stage.NONE
        )

    def _operate(self) -> None:
        random = self._random
        self._world.later(random.randrange(50_000, 400_000), self._operate)
        found = self.leader()
        if found is None:
            return
        node, seen = found
        if self.is_settled(seen):
            if not self.quiet and random.random() < 0.05:
                node.act(self.place.name, self._try_old_orders)
            return
        late_us = 0 if self.quiet else random.choice([0, 0, 1_000, 50_000])
        self._world.later(late_us, lambda: self._order(node, seen))

    def _order(self, node: Node, seen: Status) -> None:
        if seen.stage is Stage.NONE:
            node.act(self.place.name, lambda replica: self._change_peers(replica, seen))
        elif seen.caught_up and seen.stage_token == self.token:
            granted: list[bool] = []
            node.act(self.place.name, lambda replica: granted.append(self._grant(replica, seen)))
            if granted == [True] and self.after_grant is not None:
                strike, self.after_grant = self.after_grant, None
                strike(node)
        elif seen.caught_up:  # it waits for a grant that won't come
            node.act(self.place.name, lambda replica: self._change_peers(replica, seen))

    def _change_peers(self, replica: Replica, seen: Status) -> None:
        before = replica.raft.status()
        answer = replica.raft.change_peers(term=seen.term, token=self.token, peers=self.wanted)
        if before.term == seen.term and before.role is Role.LEADER:
            configuration = before.configuration
            assert configuration is not None, "a leader has a configuration"
            if self.token < max(configuration.token, before.stage_token):
                expected = {ChangePeersAnswer.STALE}
            elif before.stage in (Stage.NONE, Stage.CATCHING_UP):
                expected = {ChangePeersAnswer.RECEIVED}
            else:
                expected = {ChangePeersAnswer.BUSY, ChangePeersAnswer.RECEIVED}
            require(
                answer in expected,
                "a change is received in NONE and CATCHING_UP alone",
                answer=answer,
                stage=before.stage,
                token=self.token,
                known=(configuration.token, before.stage_token),
            )

    def _grant(self, replica: Replica, seen: Status) -> bool:
        self._rules.reconfiguration.grants.add((replica.me, seen.term, self.token, self.wanted))
        answer = replica.raft.grant(term=seen.term, token=self.token, peers=self.wanted)
        return answer is GrantAnswer.RECEIVED

    def _try_old_orders(self, replica: Replica) -> None:
        raft = replica.raft
        before = raft.status()
        if before.configuration is None or before.role is not Role.LEADER:
            return
        stale = raft.change_peers(
            term=before.term, token=before.configuration.token - 1, peers=self.wanted
        )
        old = raft.change_peers(term=before.term - 1, token=999_999, peers=self.wanted)
        require(
            stale is old is ChangePeersAnswer.STALE, "old orders are refused", token=stale, term=old
        )
        require(before == raft.status(), "refused orders have no effect", before=before)


def _bootstrap(replica: Replica, first: Configuration) -> None:
    replica.raft.bootstrap(first)

"""A small model of the store: one partition's group that obeys orders, loses replies, and fails.

It keeps what the operator may rely on: tokens and terms are fenced, a change goes NONE →
CATCHING_UP → JOINT → STABLE → NONE, a configuration needs a majority of each of its halves.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from zonequake_operator.groups import Group, is_majority, observe
from zonequake_store.admin_protocol import (
    Bootstrap,
    ChangePeers,
    ConfigurationReport,
    Grant,
    Order,
    PeerName,
    ReplicaStatus,
    Role,
    Stage,
    StartReplica,
    StopReplica,
)

GROUP = "z.00000000.0"


@dataclass
class Replica:
    incarnation: str
    token: int
    running: bool = True
    member: bool = False


@dataclass
class StoreGroup:
    replicas: dict[str, Replica] = field(default_factory=dict)
    configuration: ConfigurationReport | None = None
    leader: str | None = None
    term: int = 0
    stage: Stage = Stage.NONE
    stage_token: int = 0
    stage_peers: tuple[PeerName, ...] = ()
    caught_up: bool = False
    born: int = 0
    index: int = 0

    # ------------------------------------------------------------------------------ orders

    def obey(self, node: str, order: Order) -> None:
        replica = self.replicas.get(node)
        if isinstance(order, StartReplica):
            if replica is None:
                self.born += 1
                replica = self.replicas[node] = Replica(f"{self.born:016x}", order.token)
            if order.token >= replica.token:
                replica.running, replica.token = True, order.token
            return
        if replica is None or order.token < replica.token:
            return
        replica.token = order.token
        if isinstance(order, StopReplica):
            if order.incarnation == replica.incarnation:
                assert not self._is_needed(node), f"{node} is erased, but its group needs it"
                del self.replicas[node]
                if self.leader == node:
                    self.depose()
        elif isinstance(order, Bootstrap):
            if self.configuration is None:
                self.configuration = ConfigurationReport(
                    peers=order.peers, token=order.token, index=0
                )
        elif node == self.leader and order.term == self.term:
            if isinstance(order, ChangePeers):
                self._change(order)
            elif (
                isinstance(order, Grant)
                and self.stage is Stage.CATCHING_UP
                and (order.token, tuple(order.peers)) == (self.stage_token, self.stage_peers)
            ):
                assert self.caught_up
                self._enter_joint()

    def _is_needed(self, node: str) -> bool:
        return self.leader is not None and any(p.node == node for p in self._halves())

    def _halves(self) -> list[PeerName]:
        c = self.configuration
        return [] if c is None else [*c.peers, *c.old_peers]

    def _change(self, order: ChangePeers) -> None:
        assert self.configuration is not None
        if order.token < self.configuration.token or self.stage not in (
            Stage.NONE,
            Stage.CATCHING_UP,
        ):
            return
        if order.token == self.configuration.token and self.stage is Stage.NONE:
            return
        self.stage, self.stage_token = Stage.CATCHING_UP, order.token
        self.stage_peers, self.caught_up = tuple(sorted(order.peers)), False

    def _enter_joint(self) -> None:
        assert self.configuration is not None
        self.index += 1
        self.stage = Stage.JOINT
        self.configuration = ConfigurationReport(
            peers=list(self.stage_peers),
            old_peers=self.configuration.peers,
            token=self.stage_token,
            index=self.index,
        )

    # ------------------------------------------------------------------------------- faults

    def depose(self) -> None:
        """The leader is gone; what wasn't in the log is forgotten."""
        self.leader, self.stage, self.caught_up = None, Stage.NONE, False
        self.stage_token, self.stage_peers = 0, ()

    def crash(self, node: str) -> None:
        if node in self.replicas:
            self.replicas[node].running = False
            if self.leader == node:
                self.depose()

    def wipe(self, node: str) -> None:
        """The node loses its storage; only if its group survives that."""
        kept = self.replicas.pop(node, None)
        if kept is None:
            return
        if self.configuration is not None and not self._can_lead(ignore_stopped=True):
            self.replicas[node] = kept
            return
        if self.leader == node:
            self.depose()

    # ---------------------------------------------------------------------------------- time

    def tick(self) -> None:
        """One step of whatever the group can do by itself."""
        if self.configuration is None:
            return
        if self.leader is None or not self._can_lead():
            if self.leader is not None:
                self.depose()
            able = [p.node for p in self.configuration.peers if self._has(p)]
            if self._can_lead() and able:
                self.leader, self.term = sorted(able)[self.term % len(able)], self.term + 1
                if self.configuration.old_peers:
                    self.stage, self.stage_token = Stage.JOINT, self.configuration.token
                    self.stage_peers = tuple(self.configuration.peers)
            return
        if self.stage is Stage.CATCHING_UP:
            members = set(self._halves())
            joining = [p for p in self.stage_peers if p not in members]
            self.caught_up = all(self._has(p) for p in joining)
        elif self.stage is Stage.JOINT:
            self.index += 1
            self.configuration = ConfigurationReport(
                peers=self.configuration.peers,
                token=self.configuration.token,
                index=self.index,
            )
            self.stage = Stage.STABLE
        elif self.stage is Stage.STABLE:
            self.stage, self.stage_token, self.stage_peers = Stage.NONE, 0, ()
            if all(p.node != self.leader for p in self.configuration.peers):
                self.depose()

    def _has(self, peer: PeerName, *, ignore_stopped: bool = False) -> bool:
        replica = self.replicas.get(peer.node)
        return (
            replica is not None
            and replica.incarnation == peer.incarnation
            and (replica.running or ignore_stopped)
        )

    def _can_lead(self, *, ignore_stopped: bool = False) -> bool:
        assert self.configuration is not None
        return all(
            is_majority(sum(self._has(p, ignore_stopped=ignore_stopped) for p in half), len(half))
            for half in (self.configuration.peers, self.configuration.old_peers)
            if half
        )

    # ------------------------------------------------------------------------------- reports

    def report(self, silent: frozenset[str] = frozenset()) -> Group:
        return observe(
            GROUP, {n: self._status(n) for n in sorted(self.replicas) if n not in silent}
        )

    def _status(self, node: str) -> ReplicaStatus:
        replica = self.replicas[node]
        name = PeerName(node, replica.incarnation)
        leads = node == self.leader
        knows = self.configuration is not None and name in self._halves()
        role = Role.LEADER if leads else Role.FOLLOWER if replica.running else Role.WAITING
        shown = replica.running and knows
        return ReplicaStatus(
            group=GROUP,
            zone="z",
            partition=0,
            incarnation=replica.incarnation,
            role=role,
            term=self.term if shown else 0,
            leader=self.leader if shown else None,
            configuration=self.configuration if shown else None,
            token=replica.token,
            stage=self.stage if leads else Stage.NONE,
            stage_token=self.stage_token if leads else 0,
            stage_peers=list(self.stage_peers) if leads else [],
            caught_up=leads and self.caught_up,
            commit=self.index,
            applied=self.index,
        )

"""A small model of the store: one partition's group that obeys orders, loses replies, and fails.

It keeps what the operator may rely on: tokens and terms are fenced, a change goes NONE →
CATCHING_UP → JOINT → STABLE → NONE, a configuration needs a majority of each of its halves.

And what it must live with, as `zonequake_store.raft.reconfigure` has it: a new leader appends its
configuration again, so that it shows it uncommitted for a while; an uncommitted configuration may
be lost with its leader; a leader outside its final configuration departs; a change that adds
no member is accepted under a higher token, and waits for its grant forever.

`zonequake_ctl.what_if.group` can't stand in for it: it believes a file's reports, has no log whose
end can be lost, and refuses no old token or term.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from zonequake_operator.groups.reports import Group, is_majority, observe
from zonequake_protocol.admin import (
    Bootstrap,
    CancelChangePeers,
    ChangePeers,
    ConfigurationReport,
    Grant,
    Order,
    PeerName,
    ReconfigurationStatus,
    ReplicaRole,
    ReplicaStatus,
    Stage,
    StartReplica,
    StopReplica,
)

GROUP = "z.00000000.0"
NODES = frozenset("ABCDE")
SILENCE_TICKS = 3
"""After so many a leader gives up a change whose newcomer doesn't answer."""


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
    granted: bool = False
    silent_ticks: int = 0
    born: int = 0
    index: int = 0
    commit: int = 0
    ended: ReconfigurationStatus | None = None
    committed: ConfigurationReport | None = None
    """What is left if the leader is lost with a newer, uncommitted configuration."""

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
                self._forget_if_gone()
        elif isinstance(order, Bootstrap):
            if self.configuration is None:
                self.configuration = self.committed = ConfigurationReport(
                    peers=order.peers, token=order.token, index=0
                )
        elif (
            node == self.leader
            and isinstance(order, ChangePeers | Grant | CancelChangePeers)
            and order.term == self.term
        ):
            if isinstance(order, ChangePeers):
                self._change(order)
            elif isinstance(order, Grant):
                self._grant(order)
            else:
                self._cancel()

    def _is_needed(self, node: str) -> bool:
        return self.leader is not None and any(p.node == node for p in self._halves())

    def _halves(self) -> list[PeerName]:
        c = self.configuration
        return [] if c is None else [*c.peers, *c.old_peers]

    def _change(self, order: ChangePeers) -> None:
        assert self.configuration is not None
        if order.token < max(self.stage_token, self.configuration.token):
            return  # stale
        if self.stage is Stage.NONE:
            if order.token == self.configuration.token:
                return  # done already
        elif order.token == self.stage_token:
            return  # received already
        elif self.stage is not Stage.CATCHING_UP or not self.caught_up:
            return  # busy
        self.stage, self.stage_token, self.ended = Stage.CATCHING_UP, order.token, None
        self.stage_peers, self.granted, self.silent_ticks = tuple(sorted(order.peers)), False, 0
        self.caught_up = not self._joining()

    def _cancel(self) -> None:
        if self.stage in (Stage.NONE, Stage.CATCHING_UP):
            self._end_stage()
            self.ended = ReconfigurationStatus.CANCELLED

    def _joining(self) -> list[PeerName]:
        members = set(self._halves())
        return [peer for peer in self.stage_peers if peer not in members]

    def _grant(self, order: Grant) -> None:
        asked = (self.stage_token, self.stage_peers)
        if self.stage is not Stage.CATCHING_UP or (order.token, tuple(order.peers)) != asked:
            return  # stale
        if self.caught_up:
            self.granted = True
            self._enter_joint()

    def _enter_joint(self) -> None:
        assert self.configuration is not None
        if self.configuration.index > self.commit:
            return  # at most one uncommitted configuration
        self.stage = Stage.JOINT
        self._append(list(self.stage_peers), self.configuration.peers, self.stage_token)

    def _append(self, peers: list[PeerName], old_peers: list[PeerName], token: int) -> None:
        self.index += 1
        self.configuration = ConfigurationReport(
            peers=peers, old_peers=old_peers, token=token, index=self.index
        )
        for peer in self._halves():
            if self._has(peer):
                replica = self.replicas[peer.node]
                replica.token = max(replica.token, token)

    # ------------------------------------------------------------------------------- faults

    def depose(self, *, losing_uncommitted: bool = False) -> None:
        """The leader is gone; what wasn't in the log is forgotten."""
        self.leader, self.ended = None, None
        self._end_stage()
        if losing_uncommitted:
            self.configuration = self.committed

    def _end_stage(self) -> None:
        self.stage, self.caught_up, self.granted = Stage.NONE, False, False
        self.stage_token, self.stage_peers = 0, ()

    def crash(self, node: str) -> None:
        if node in self.replicas:
            self.replicas[node].running = False
            if self.leader == node:
                self.depose()

    def wipe(self, node: str, granted: tuple[PeerName, ...] = ()) -> None:
        """The node loses its storage; only if its group survives that, and what it may go on to."""
        kept = self.replicas.pop(node, None)
        if kept is None:
            return
        needed = [c for c in (self.configuration, self.committed) if c is not None]
        if granted:
            needed.append(ConfigurationReport(peers=list(granted), token=0, index=0))
        if not all(self._can_lead(c, ignore_stopped=True) for c in needed):
            self.replicas[node] = kept
            return
        if self.leader == node:
            self.depose()

    def lose(self, node: str) -> None:
        """The node comes back at once, and without this replica; perhaps its group doesn't survive.

        Nothing is left of the group once no node holds anything of it.
        """
        if self.replicas.pop(node, None) is None:
            return
        if self.leader == node:
            self.depose()
        self._forget_if_gone()

    def _forget_if_gone(self) -> None:
        held = [c for c in (self.configuration, self.committed) if c is not None]
        peers = {p for c in held for p in (*c.peers, *c.old_peers)}
        if not any(self._has(p, ignore_stopped=True) for p in peers):
            self.configuration = self.committed = None

    def is_lost(self) -> bool:
        """Has a half of the configuration that acts no majority any more, forever?"""
        acting = self.configuration
        return acting is None or not self._can_lead(acting, ignore_stopped=True)

    def copy(self) -> StoreGroup:
        """Another one in the same state."""
        replicas = {node: replace(replica) for node, replica in self.replicas.items()}
        return replace(self, replicas=replicas)

    # ---------------------------------------------------------------------------------- time

    def tick(self) -> None:
        """One step of whatever the group can do by itself."""
        if self.configuration is None:
            return
        if self.leader is None or not self._can_lead(self.configuration):
            if self.leader is not None:
                self.depose()
            if self._can_lead(self.configuration):
                self._elect()
        elif self.configuration.index > self.commit:
            self._commit()
        elif self.stage is Stage.CATCHING_UP:
            joining = self._joining()
            self.caught_up = all(self._has(p) for p in joining)
            self.silent_ticks = 0 if self.caught_up else self.silent_ticks + 1
            if self.silent_ticks >= SILENCE_TICKS:
                self._end_stage()
                self.ended = ReconfigurationStatus.CATCH_UP_TIMEOUT

    def _elect(self) -> None:
        """A member that has the newest entries; its first entry is its configuration."""
        assert self.configuration is not None
        candidates = set(self._halves())
        if self.configuration.index > self.commit and self.committed is not None:
            candidates |= {*self.committed.peers, *self.committed.old_peers}
        able = sorted(peer.node for peer in candidates if self._has(peer))
        self.leader, self.term = able[self.term % len(able)], self.term + 1
        newest = self.configuration
        self._append(newest.peers, newest.old_peers, newest.token)
        if newest.old_peers:
            self.stage, self.stage_token = Stage.JOINT, newest.token
            self.stage_peers = tuple(newest.peers)

    def _commit(self) -> None:
        """The newest configuration is committed, and the change goes on."""
        newest = self.committed = self.configuration
        assert newest is not None
        self.commit = newest.index
        if self.stage is Stage.JOINT:
            self.stage = Stage.STABLE
            self._append(newest.peers, [], newest.token)
            return
        if self.stage is Stage.STABLE:
            self._end_stage()
        if all(p.node != self.leader for p in newest.peers):
            self.depose()  # it departs
        elif self.granted:
            self._enter_joint()

    def _has(self, peer: PeerName, *, ignore_stopped: bool = False) -> bool:
        replica = self.replicas.get(peer.node)
        return (
            replica is not None
            and replica.incarnation == peer.incarnation
            and (replica.running or ignore_stopped)
        )

    def _can_lead(
        self, configuration: ConfigurationReport, *, ignore_stopped: bool = False
    ) -> bool:
        return all(
            is_majority(sum(self._has(p, ignore_stopped=ignore_stopped) for p in half), len(half))
            for half in (configuration.peers, configuration.old_peers)
            if half
        )

    # ------------------------------------------------------------------------------- reports

    def report(self, silent: frozenset[str] = frozenset()) -> Group:
        return observe(
            GROUP,
            {n: self._status(n) for n in sorted(self.replicas) if n not in silent},
            NODES - silent,
        )

    def _status(self, node: str) -> ReplicaStatus:
        replica = self.replicas[node]
        name = PeerName(node, replica.incarnation)
        leads = node == self.leader
        knows = self.configuration is not None and name in self._halves()
        role = (
            ReplicaRole.LEADER
            if leads
            else ReplicaRole.FOLLOWER
            if replica.running
            else ReplicaRole.WAITING
        )
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
            reconfiguration_status=self.ended if leads else None,
            caught_up=leads and self.caught_up,
            commit=self.commit,
            applied=self.commit,
        )

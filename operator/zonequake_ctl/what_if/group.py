"""One partition's Raft group as what-if supposes it: no log, no messages, only what is reported.

    a majority that is alive and runs has a leader    the one last reported, else the first by name
    a started replica runs at once
    a change of peers or a reset waits for its event  unless autoApply: then it succeeds at once

A reported leader is believed until one of its peers goes, even if no majority is to be seen: then
members that are said to have left must be following it, and are heard as long as it is believed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from zonequake_ctl.what_if.replica import LINEAGE, LogEnd, SupposedReplica
from zonequake_operator.groups.reports import is_majority, members
from zonequake_protocol.admin import (
    Bootstrap,
    ChangePeers,
    ConfigurationReport,
    PeerName,
    ReconfigurationStatus,
    ResetPeers,
    Stage,
    StartReplica,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeposedLeader:
    """A node that reports as the leader of an older term (whole), with these peers."""

    node: str
    term: int
    configuration: ConfigurationReport


@dataclass(slots=True)
class SupposedGroup:
    """`configuration` is the newest that was applied, or joint; the leader always has it."""

    name: str
    zone: str
    partition: int
    ends: Mapping[str, LogEnd] = field(default_factory=dict)
    replicas: dict[str, SupposedReplica] = field(default_factory=dict)
    configuration: ConfigurationReport | None = None
    settled: ConfigurationReport | None = None
    """The newest that isn't joint."""
    at: tuple[int, int] = (0, 0)
    term: int = 1
    leader: str | None = None
    preferred: str | None = None
    believed: bool = False
    for_now: bool = False
    """Believed only while the present report is dealt with."""
    vouched: frozenset[str] = frozenset()
    """Members that don't run as far as we know, but must be following the believed leader."""
    stage: Stage = Stage.NONE
    stage_token: int = 0
    stage_peers: tuple[PeerName, ...] = ()
    caught_up: bool = False
    failed: ReconfigurationStatus | None = None
    deposed: DeposedLeader | None = None
    """The node that claims to lead in an older term, while that report is handled."""
    born: int = 0

    # ---------------------------------------------------------------------------------- replicas

    def new_replica(self, node: str, *, running: bool) -> SupposedReplica:
        """Adds an empty replica under an incarnation that was never used before."""
        self.born += 1
        made = SupposedReplica(incarnation=f"{node}/{self.born}", running=running)
        self.replicas[node] = made
        return made

    def stop(self, node: str, *, keeps_state: bool) -> None:
        """Records that the node's process has ended."""
        replica = self.replicas.get(node)
        if replica is None:
            return
        if keeps_state:
            replica.running = replica.had_leader = False
        else:
            del self.replicas[node]
        if self.configuration is not None and any(
            peer.node == node for peer in members(self.configuration)
        ):
            self.doubt()
        self.elect()

    def elect(self) -> None:
        """Elects the leader: none without a majority, unless a leader was reported."""
        before = self.leader
        self.leader = self._chosen()
        if self.leader != before:
            self.end_stage()
            self._inherit_joint()
        if self.leader is not None and self.configuration is not None:
            self.replicas[self.leader].had_leader = True
            for peer in members(self.configuration):
                if self._holds(peer):
                    self.replicas[peer.node].had_leader = True

    def _inherit_joint(self) -> None:
        """Continues a joint configuration under a new leader: from JOINT a change only goes
        forward.
        """
        configuration = self.configuration
        if self.leader is not None and configuration is not None and configuration.old_peers:
            self.stage, self.stage_token = Stage.JOINT, configuration.token
            self.stage_peers = tuple(sorted(configuration.peers))

    def _chosen(self) -> str | None:
        configuration = self.configuration
        if configuration is None:
            return None
        able = sorted({peer.node for peer in members(configuration) if self._holds(peer)})
        if not able:
            return None
        if self.believed and self.preferred in self.replicas:
            return self.preferred
        if not self._has_majority(configuration):
            return None
        if self.leader in able:
            return self.leader
        return self.preferred if self.preferred in able else able[0]

    def _has_majority(self, configuration: ConfigurationReport) -> bool:
        return all(
            is_majority(sum(map(self._holds, half)), len(half))
            for half in (configuration.peers, configuration.old_peers)
            if half
        )

    def _holds(self, peer: PeerName) -> bool:
        """Returns whether this member runs, has its state, and isn't shut out by a later reset."""
        replica = self.replicas.get(peer.node)
        assert self.configuration is not None
        return (
            replica is not None
            and (replica.running or peer.node in self.vouched)
            and replica.incarnation == peer.incarnation
            and replica.enforced_lineage <= self.configuration.lineage
        )

    def knows(self, node: str) -> bool:
        """Returns whether this node has a member that can follow the leader."""
        return self.configuration is not None and any(
            peer.node == node and self._holds(peer) for peer in members(self.configuration)
        )

    def lead(self, node: str) -> None:
        """Records that this node leads; believed, if it runs, until one of its peers goes."""
        self.doubt()
        self.preferred = node
        replica, configuration = self.replicas.get(node), self.configuration
        if replica is not None and replica.running and configuration is not None:
            self.believed = True
            if not self._has_majority(configuration):
                self._vouch(configuration)
        self.elect()

    def believe_for_now(self, nodes: tuple[str, ...]) -> None:
        """One of these nodes reports as the leader, though we see none, until `look_again`."""
        if self.leader is not None or self.configuration is None:
            return
        known = [node for node in nodes if node in self.replicas]
        able = [node for node in known if self.replicas[node].running] or known
        if not able:
            return
        self.preferred = self.preferred if self.preferred in able else able[0]
        self.believed, self.for_now = True, True
        self._vouch(self.configuration)
        self.elect()

    def _vouch(self, configuration: ConfigurationReport) -> None:
        named = {peer.node for peer in members(configuration)} & self.replicas.keys()
        self.vouched = frozenset(name for name in named if not self.replicas[name].running)

    def look_again(self) -> None:
        """Drops what was assumed for a single report only, and elects again if needed."""
        self.deposed = None
        if self.for_now:
            self.doubt()
            self.elect()

    def doubt(self) -> None:
        """No leader is believed any more without a majority."""
        self.believed, self.for_now, self.vouched = False, False, frozenset()

    def peer(self, node: str) -> PeerName:
        """Returns the node's replica under its present incarnation."""
        replica = self.replicas.get(node)
        if replica is None:
            replica = self.new_replica(node, running=False)
        return PeerName(node, replica.incarnation)

    def claimed_peer(self, node: str) -> PeerName:
        """Returns the node's replica in a report that may be of nodes that never held a replica."""
        replica = self.replicas.get(node)
        return PeerName(node, replica.incarnation if replica is not None else f"{node}/0")

    def install(
        self,
        peers: Iterable[PeerName],
        *,
        token: int,
        lineage: int = 0,
        number: int = 1,
        index: int | None = None,
    ) -> None:
        """Installs a committed configuration, which every running member has, in this term.

        A report of an older one than the group is known to be in doesn't take it back there.
        """
        if index is None:
            index = self.at[1] + 1 if self.configuration is not None else 0
        self.at = (lineage * LINEAGE + number, index)
        self.term = max(lineage * LINEAGE + max(number, self.number), self.term)
        self.configuration = self.settled = ConfigurationReport(
            peers=sorted(peers), token=token, index=index, lineage=lineage
        )
        for peer in self.configuration.peers:
            replica = self.replicas.get(peer.node)
            if replica is not None and replica.incarnation == peer.incarnation:
                replica.configuration, replica.configuration_at = self.configuration, self.at
                replica.token = max(replica.token, token)
        self.elect()

    @property
    def number(self) -> int:
        """The term as the file has it."""
        return self.term % LINEAGE

    def end_stage(self) -> None:
        """No change runs."""
        self.stage, self.stage_token, self.stage_peers = Stage.NONE, 0, ()
        self.caught_up, self.failed = False, None

    # ------------------------------------------------------------------------------------ orders

    def start(self, node: str, order: StartReplica) -> bool:
        """Lets the replica take part; returns whether it didn't before."""
        replica = self.replicas.get(node) or self.new_replica(node, running=False)
        started, replica.running = not replica.running, True
        replica.token = max(replica.token, order.token)
        replica.enforced_lineage = max(replica.enforced_lineage, order.enforced_token)
        self.elect()
        return started

    def heard(self, node: str) -> tuple[int, int]:
        """Returns the highest token and the newest reset that the node's replica has received."""
        replica = self.replicas.get(node)
        return (-1, 0) if replica is None else (replica.token, replica.enforced_lineage)

    def bootstrap(self, node: str, order: Bootstrap) -> None:
        """Installs the group's first configuration, or that of a group that starts over."""
        replica = self.replicas[node]
        replica.token = max(replica.token, order.token)
        if replica.configuration is not None:
            return
        if self.configuration is None or self.configuration.token < order.token:
            number = self.number + (1 if order.lineage else 0)
            self.install(order.peers, token=order.token, lineage=order.lineage, number=number)
        replica.configuration, replica.configuration_at = self.configuration, self.at
        self.elect()

    def hear(self, token: int) -> None:
        """Records that the leader has seen this token in an order."""
        if self.leader is not None:
            replica = self.replicas[self.leader]
            replica.token = max(replica.token, token)

    def cancel(self, token: int) -> None:
        """cancelChangePeers, answered with true: the leader runs nothing any more."""
        self.hear(token)
        self.end_change(ReconfigurationStatus.CANCELLED)

    def end_change(self, failure: ReconfigurationStatus | None) -> None:
        """STAGE_NONE: what isn't settled is given up."""
        self.end_stage()
        self.configuration = self.settled or self.configuration
        self.failed = failure

    def change_peers(self, order: ChangePeers) -> None:
        """changePeersAsync: the leader catches the peers up."""
        self.hear(order.token)
        self.stage, self.stage_token = Stage.CATCHING_UP, order.token
        self.stage_peers = tuple(sorted(order.peers))
        self.caught_up, self.failed = False, None
        self.copy_to_new_peers()

    def copy_to_new_peers(self) -> None:
        """Peers that are caught up have begun to hold the leader's log, with its configuration.

        Not so after a reset: the file can't say which lineage a log is of that came to a node
        outside the chain's newest link, so until the grant it counts as one from before.
        """
        current = self.settled
        if current is not None and not current.lineage:
            for peer in self.stage_peers:
                replica = self.replicas.get(peer.node)
                if replica and replica.running and replica.configuration is None:
                    replica.configuration, replica.configuration_at = current, self.at

    def suppose_busy(self, *, has_next: bool) -> None:
        """Supposes that a leader of which no report came since is busy with a change that shows no
        end.

        Not if it has cancelled that one for a planned that comes next.
        """
        joint = self.configuration is not None and self.configuration.old_peers
        if self.leader is None or self.settled is None or joint:
            return
        cancelled = has_next and self.failed is ReconfigurationStatus.CANCELLED
        if self.stage is not Stage.CATCHING_UP and not cancelled:
            self.stage, self.stage_token = Stage.CATCHING_UP, 0
            self.stage_peers = tuple(self.settled.peers)

    def go_joint(self) -> None:
        """Goes on to the joint configuration, as the change was granted: the leader leads all its
        members.
        """
        self.stage, self.caught_up = Stage.JOINT, False
        self.configuration = self.join(self.stage_peers, self.stage_token)
        self.elect()

    def join(self, peers: tuple[PeerName, ...], token: int) -> ConfigurationReport:
        """Gives all running members of a granted change its joint configuration, and returns it."""
        current = self.settled
        assert current is not None
        joint = replace(current, peers=list(peers), old_peers=current.peers, token=token)
        for peer in members(joint):
            replica = self.replicas.get(peer.node)
            if replica is not None and replica.running and replica.incarnation == peer.incarnation:
                replica.configuration, replica.configuration_at = joint, self.at
        return joint

    def can_finish(self) -> bool:
        """Returns whether the running change can finish: most of its peers are there (hole 15)."""
        if self.stage not in (Stage.CATCHING_UP, Stage.JOINT):
            return False
        carrying = sum(
            peer.node in self.replicas
            and self.replicas[peer.node].running
            and self.replicas[peer.node].incarnation == peer.incarnation
            for peer in self.stage_peers
        )
        return is_majority(carrying, len(self.stage_peers))

    def apply_change(self) -> None:
        """Completes the change (autoApply)."""
        current, peers, token = self.settled, self.stage_peers, self.stage_token
        assert current is not None
        self.end_stage()
        self.install(peers, token=token, lineage=current.lineage, number=self.number)

    def apply_reset(self, node: str, order: ResetPeers) -> None:
        """Makes the survivor lead alone, in a new lineage, after all entries of its log
        (autoApply).
        """
        self.end_stage()
        last_term, last_index = self.ends.get(node, LogEnd()).last
        self.install(
            order.peers,
            token=order.token,
            lineage=order.token,
            number=max(self.number, last_term % LINEAGE) + 1,
            index=max(self.at[1], last_index) + 1,
        )
        self.lead(node)

    def erase(self, node: str) -> None:
        """Removes the replica and its state."""
        del self.replicas[node]
        self.elect()


def names(peers: Iterable[PeerName]) -> tuple[str, ...]:
    """Their nodes, sorted."""
    return tuple(sorted(peer.node for peer in peers))

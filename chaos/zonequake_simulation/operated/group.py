"""One partition's group under the real operator, as faults and the end of a run see it."""

from __future__ import annotations

from collections.abc import Callable

from zonequake_protocol.admin import Stage
from zonequake_simulation.api_server import StoredWish
from zonequake_simulation.member import SimulatedNode
from zonequake_simulation.operated.control_plane import ControlPlane
from zonequake_simulation.replicas import GroupPlace
from zonequake_simulation.small_operator import leader_of
from zonequake_store.raft.api import RaftStatus
from zonequake_store.raft.messages import Peer


class OperatedGroup:
    """Wishes come from the zone, and its changes from users."""

    def __init__(
        self, place: GroupPlace, control: ControlPlane, nodes: dict[str, SimulatedNode]
    ) -> None:
        self.place = place
        self.quiet = False
        self._control = control
        self._nodes = nodes

    @property
    def after_grant(self) -> Callable[[SimulatedNode], None] | None:
        """A waiting fault; it gets the leader after the next grant."""
        return self._control.after_grant.get(self.place.name)

    @after_grant.setter
    def after_grant(self, strike: Callable[[SimulatedNode], None] | None) -> None:
        if strike is None:
            self._control.after_grant.pop(self.place.name, None)
        else:
            self._control.after_grant[self.place.name] = strike

    def bootstrap(self, members: list[str]) -> None:
        """Does nothing: the operator bootstraps the group by itself."""

    def node_started(self, node: SimulatedNode) -> None:
        """Tells the simulated kubelet of a new process."""
        self._control.pods.started(node)

    def wish_for(self, draw: int) -> bool:
        """Alters the zone, as a user does."""
        self._control.flip(draw)
        return True

    @property
    def first_members(self) -> tuple[Peer, ...]:
        """The peers that are to form the group; until that is decided, those that run in stable."""
        found = self._control.partition(self.place.partition)
        if found is None or found.keys.stable is None:
            return ()
        decided = found.keys.bootstrap
        if decided is not None:
            return tuple(Peer(p.node, p.incarnation) for p in decided.peers)
        running = (self._nodes[n].home.present(self.place.name) for n in found.keys.stable.nodes)
        return tuple(peer for peer in running if peer is not None)

    @property
    def under_way(self) -> tuple[tuple[Peer, ...], ...]:
        """Peers that a leader was granted or may be granted: a lock's, those that are caught up,
        and those of pending and planned, for which answers from before a loss may count for a
        while.
        """
        found = self._control.partition(self.place.partition)
        if found is None:
            return ()
        lock = found.keys.pending_lock
        leader = leader_of(self._nodes, self.place.name)
        locked = tuple(Peer(p.node, p.incarnation) for p in lock.peers) if lock is not None else ()
        caught_up = leader[1].stage_peers if leader is not None and leader[1].caught_up else ()
        wished = (found.keys.pending, found.keys.planned)
        holding = (tuple(map(self._peer, one.nodes)) for one in wished if one is not None)
        return locked, caught_up, *filter(self._is_majority_present, holding)

    def _is_majority_present(self, peers: tuple[Peer, ...]) -> bool:
        return 2 * sum(bool(peer.incarnation) for peer in peers) > len(peers)

    def leader(self) -> tuple[SimulatedNode, RaftStatus] | None:
        """Returns the leader of the highest term, even if it is not reachable."""
        return leader_of(self._nodes, self.place.name)

    @property
    def wish(self) -> StoredWish:
        """The present wish: the leader's configuration, else the peers that are to have
        replicas.
        """
        group, found = self.place.name, self._control.partition(self.place.partition)
        keys = found.keys if found is not None else None
        survivor = None
        if keys is not None and keys.is_forced:
            (forced,) = keys.pending_nodes
            survivor = self._peer(forced)
        leader = leader_of(self._nodes, group)
        if leader is not None and leader[1].configuration is not None:
            configuration = leader[1].configuration
            return StoredWish(
                token=configuration.token,
                wanted=configuration.peers,
                lineage=configuration.lineage,
                survivor=survivor,
            )
        stable = keys.stable.nodes if keys is not None and keys.stable is not None else self._nodes
        return StoredWish(
            token=keys.configuration_token if keys is not None else 0,
            wanted=tuple(map(self._peer, stable)),
            survivor=survivor,
        )

    def _peer(self, node: str) -> Peer:
        return self._nodes[node].home.present(self.place.name) or Peer(node, "")

    def is_settled(self, status: RaftStatus) -> bool:
        """Returns whether a leader reports the peers that zone and nodes ask for, and the keys
        agree.
        """
        zone = self._control.zone
        found, configuration = self._control.partition(self.place.partition), status.configuration
        if found is None or configuration is None or not self._control.is_handled(zone):
            return False
        keys = found.keys
        wanted = self._control.wanted(self.place.partition, zone)
        return (
            keys.stable is not None
            and keys.pending is None
            and keys.planned is None
            and not keys.switch_reduce
            and not keys.switch_append
            and (keys.stable.nodes == wanted or not wanted)
            and tuple(sorted(peer.node for peer in configuration.peers)) == keys.stable.nodes
            and not configuration.is_joint
            and status.stage is Stage.NONE
            and all(
                self._nodes[peer.node].home.present(self.place.name) == peer
                for peer in configuration.peers
            )
        )

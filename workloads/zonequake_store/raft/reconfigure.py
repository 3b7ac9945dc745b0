"""changePeersAsync at the leader (documents `rebalance`; design §4 and §3, hole 15).

           change_peers            grant           joint committed      final committed
    NONE ───────────────▶ CATCHING_UP ─────▶ JOINT ───────────────▶ STABLE ──────────────▶ NONE
      ▲                      │  ▲ └─ caught up: waits for the grant            ConfigurationApplied
      └── a peer is silent, ─┘  └─ a higher token replaces it, see change_peers
          or cancelled

Catch-up happens outside the configuration: no entry is written, the new peers count in no quorum,
and going back leaves no trace. From JOINT on there is only forward, under this leader or the next:
one that finds a joint configuration in its log finishes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from zonequake_protocol.admin import ReconfigurationStatus, Stage
from zonequake_store.raft.api import (
    JOINT_BEFORE_CAUGHT_UP,
    CancelAnswer,
    ChangePeersAnswer,
    ConfigurationApplied,
    GrantAnswer,
    PeerProgress,
    ReconfigurationError,
    StageChanged,
)
from zonequake_store.raft.catch_up import PeerCatchUp
from zonequake_store.raft.errors import InvalidPeers
from zonequake_store.raft.messages import Configuration, Entry, Peer

if TYPE_CHECKING:
    from zonequake_store.raft.leader import Leader


class Reconfiguration:
    """The change of peers that one leadership runs, if any."""

    __slots__ = (
        "_catching_up",
        "_granted",
        "_highest_token",
        "_leader",
        "_replica",
        "_told",
        "_unannounced",
        "adding",
        "error",
        "peers",
        "stage",
        "token",
    )

    def __init__(self, leader: Leader) -> None:
        """Take up a joint configuration that an earlier leader left."""
        self._leader = leader
        self._replica = leader.replica
        self._catching_up: dict[Peer, PeerCatchUp] = {}
        self._granted = False
        self._highest_token = 0
        """The highest token of the orders that this leadership took."""
        self._told = False
        self._unannounced = True
        """The newest final configuration, perhaps an earlier leader's."""
        self.error: ReconfigurationError | None = None
        """The reason for which the last change went back to NONE."""
        self.stage = Stage.NONE
        self.token = 0
        self.peers: tuple[Peer, ...] = ()
        self.adding: tuple[Peer, ...] = ()
        """Those of `peers` that were not members before."""
        configuration = self._configuration
        if configuration.is_joint:
            self.token, self.peers = configuration.token, configuration.peers
            old = configuration.old_peers
            self.adding = tuple(peer for peer in self.peers if peer not in old)
            self._enter(Stage.JOINT)

    @property
    def _configuration(self) -> Configuration:
        configuration = self._replica.log.configuration
        assert configuration is not None, "a leader has a configuration"
        return configuration

    @property
    def caught_up(self) -> bool:
        """CATCHING_UP and every new peer is near enough, now: one that fell back is waited for."""
        return self.stage is Stage.CATCHING_UP and all(
            self._is_caught_up(peer) for peer in self._catching_up
        )

    def _is_caught_up(self, peer: Peer) -> bool:
        match = self._leader.progress[peer].match
        margin = self._replica.settings.catch_up_margin_entries
        return (
            match >= self._catching_up[peer].target
            and self._replica.log.last_index - match <= margin
        )

    # orders

    def change_peers(self, token: int, peers: tuple[Peer, ...]) -> ChangePeersAnswer:
        """Begin, repeat or replace a change; the term is checked already.

        `received` in NONE and in CATCHING_UP, where a higher token takes the place of the change:
        peers that both name go on where they are, and replicators no longer needed stop. `busy`
        from JOINT on. Identical peers and token: ConfigurationApplied comes again.
        Raises InvalidPeers for an empty set, or one that names a node twice.
        """
        peers = tuple(sorted(peers))
        if not peers or len({peer.node for peer in peers}) != len(peers):
            raise InvalidPeers(f"peers must name at least one node, and each once: {peers}")
        if token < max(self._highest_token, self.token, self._configuration.token):
            return ChangePeersAnswer.STALE
        if self.stage is not Stage.NONE:
            if token == self.token:
                same = peers == self.peers
                return ChangePeersAnswer.RECEIVED if same else ChangePeersAnswer.STALE
            if self.stage is not Stage.CATCHING_UP:
                return ChangePeersAnswer.BUSY
        elif token == self._configuration.token:
            if peers != self._configuration.peers:
                return ChangePeersAnswer.STALE
            self.announce()
            return ChangePeersAnswer.RECEIVED
        self._begin(token, peers)
        return ChangePeersAnswer.RECEIVED

    def cancel(self, token: int) -> CancelAnswer:
        """End a change that is still catching up; the term is checked already.

        The answer shows in `error` too, also where nothing was to be ended: replies may be lost.
        """
        if token < max(self._highest_token, self.token, self._configuration.token):
            return CancelAnswer.STALE
        if self.stage in (Stage.JOINT, Stage.STABLE):
            return CancelAnswer.BUSY
        self._highest_token = token
        if self.stage is Stage.CATCHING_UP:
            self._fail(ReconfigurationStatus.CANCELLED, "the change was cancelled")
        else:
            self.error = ReconfigurationError(
                status=ReconfigurationStatus.CANCELLED,
                reason="there was no change to cancel",
                token=token,
            )
        return CancelAnswer.RECEIVED

    def grant(self, token: int, peers: tuple[Peer, ...]) -> GrantAnswer:
        """Go on to JOINT; the term is checked already."""
        peers = tuple(sorted(peers))
        configuration = self._configuration
        if self.stage is Stage.NONE:
            done = (token, peers) == (configuration.token, configuration.peers)
            return GrantAnswer.RECEIVED if done else GrantAnswer.STALE
        if (token, peers) != (self.token, self.peers):
            return GrantAnswer.STALE
        if self.stage is Stage.CATCHING_UP:
            if not self.caught_up:
                return GrantAnswer.BUSY
            self._granted = True
            self.advance()
        return GrantAnswer.RECEIVED

    def _begin(self, token: int, peers: tuple[Peer, ...]) -> None:
        """Enter CATCHING_UP; peers that were already being caught up go on where they are."""
        leader, target = self._leader, self._replica.log.last_index
        self._highest_token = self.token = token
        self.peers = peers
        self._granted = self._told = False
        self.error = None
        members = self._configuration.members
        self.adding = tuple(peer for peer in peers if peer not in members)
        self._drop_catching_up(self._catching_up.keys() - set(self.adding))
        for peer in self.adding:
            if peer not in self._catching_up:
                self._catching_up[peer] = PeerCatchUp(target)
                leader.add_peer(peer, catching_up=True)
        self._enter(Stage.CATCHING_UP)
        self.advance()

    # going on

    def advance(self) -> None:
        """CATCHING_UP: tell that the peers are caught up; go to JOINT when it is granted."""
        if self.stage is not Stage.CATCHING_UP:
            return
        planted = JOINT_BEFORE_CAUGHT_UP in self._replica.settings.planted
        if self.caught_up and not self._told:
            self._told = True
            self._enter(Stage.CATCHING_UP, caught_up=True)
        if not planted and not (self._granted and self.caught_up):
            return
        if self._replica.log.configuration_index > self._replica.log.commit:
            return  # at most one uncommitted configuration; committed() comes back here
        self._enter(Stage.JOINT)
        self._catching_up = {}
        self._unannounced = True
        self._append(old_peers=self._configuration.peers)

    def committed(self) -> None:
        """Records that the commit index rose."""
        log = self._replica.log
        if log.configuration_index > log.commit:
            return
        if self.stage is Stage.JOINT:
            self._enter(Stage.STABLE)
            self._append(old_peers=())
            return
        if self._unannounced:
            self._unannounced = False
            self.announce()
        if self.stage is Stage.STABLE:
            self._enter(Stage.NONE)
        if not self._replica.is_member:
            self._leader.handover.depart()
        elif self.stage is Stage.CATCHING_UP:
            self.advance()

    def _append(self, *, old_peers: tuple[Peer, ...]) -> None:
        self._leader.append_configuration(
            Configuration(
                peers=self.peers,
                old_peers=old_peers,
                token=self.token,
                lineage=self._configuration.lineage,
            )
        )

    def announce(self) -> None:
        """onNewPeersConfigurationApplied, if the newest configuration is final and committed."""
        log, configuration = self._replica.log, self._configuration
        if not configuration.is_joint and log.configuration_index <= log.commit:
            self._replica.out.events.append(
                ConfigurationApplied(
                    peers=configuration.peers,
                    term=self._replica.term,
                    index=log.configuration_index,
                    token=configuration.token,
                    lineage=configuration.lineage,
                )
            )

    # catching up

    def supplied(self, peer: Peer, previous: int, entries: Sequence[Entry]) -> None:
        """Counts entries after `previous` that left for a peer, perhaps a catching-up one."""
        catch_up = self._catching_up.get(peer)
        if catch_up is not None:
            spent_bytes = catch_up.historical(previous, entries, self._replica.log)
            self._replica.catch_up_limit.spend(spent_bytes)

    def heard(self, peer: Peer) -> None:
        self._catching_up[peer].silent_ticks = 0

    def supplied_piece(
        self, peer: Peer, index: int, piece_bytes: int, sent_bytes: int, total_bytes: int
    ) -> None:
        """Records that a piece of the snapshot at `index` leaves for a peer, perhaps a catching-up
        one.
        """
        catch_up = self._catching_up.get(peer)
        if catch_up is not None:
            self._replica.catch_up_limit.spend(piece_bytes)
            catch_up.full(index, piece_bytes, sent_bytes, total_bytes)

    def tick(self) -> None:
        self._replica.catch_up_limit.tick()
        settings = self._replica.settings
        for peer, catch_up in self._catching_up.items():
            catch_up.silent_ticks += 1
            if catch_up.silent_ticks >= settings.catch_up_silence_ticks:
                silence_s = settings.catch_up_silence_ticks * settings.tick_s
                self._fail(
                    ReconfigurationStatus.CATCH_UP_TIMEOUT,
                    f"{peer.node} (incarnation {peer.incarnation}) has not answered for "
                    f"{silence_s:g} s while it was being caught up: check that it runs and can be "
                    "reached",
                )
                return

    def progress(self) -> tuple[PeerProgress, ...]:
        return tuple(
            PeerProgress(
                peer=peer,
                fraction=catch_up.fraction(self._leader.progress[peer].match),
                bytes_sent=catch_up.bytes_sent,
                bytes_done=catch_up.bytes_done,
                bytes_total=catch_up.bytes_total,
                match_index=self._leader.progress[peer].match,
                by_snapshot=catch_up.by_snapshot,
            )
            for peer, catch_up in sorted(self._catching_up.items())
        )

    # ending

    def _fail(self, status: ReconfigurationStatus, reason: str) -> None:
        self.error = ReconfigurationError(status=status, reason=reason, token=self.token)
        self._enter(Stage.NONE, error=self.error)
        self._replica.out.events.append(self.error)

    def resign(self, reason: str) -> None:
        """Gives up the change as the leadership ends; what is joint already, the next leader
        finishes.
        """
        if self.stage is not Stage.NONE:
            self._fail(ReconfigurationStatus.LEADER_STEPPED_DOWN, reason)

    def _drop_catching_up(self, peers: set[Peer]) -> None:
        for peer in peers:
            del self._catching_up[peer]
            del self._leader.progress[peer]

    def _enter(
        self, stage: Stage, *, caught_up: bool = False, error: ReconfigurationError | None = None
    ) -> None:
        self.stage = stage
        self._replica.out.events.append(
            StageChanged(
                stage=stage,
                token=self.token,
                peers=self.peers,
                adding=self.adding,
                caught_up=caught_up,
                reason=error.reason if error else None,
                status=error.status if error else None,
                progress=self.progress(),
            )
        )
        if stage is Stage.NONE:
            self._drop_catching_up(set(self._catching_up))
            self.token, self.peers, self.adding = 0, (), ()

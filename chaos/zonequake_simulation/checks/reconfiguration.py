"""Stages, gates and configurations (docs/simulation.md, "Rules"; document rebalance)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from zonequake_protocol.admin import Stage
from zonequake_simulation.checks.ledger import Ledger
from zonequake_simulation.violation import Violation, require
from zonequake_store.raft.api import ConfigurationApplied, RaftSettings, StageChanged
from zonequake_store.raft.messages import EntryKind, Peer, decode_configuration

if TYPE_CHECKING:
    from zonequake_simulation.checks.life import Life

_FOLLOWING = {
    Stage.NONE: {Stage.CATCHING_UP, Stage.JOINT},  # JOINT: a new leader goes on
    Stage.CATCHING_UP: {Stage.CATCHING_UP, Stage.JOINT, Stage.NONE},
    Stage.JOINT: {Stage.STABLE, Stage.NONE},  # NONE: the leader lost its role
    Stage.STABLE: {Stage.NONE},
}


class ReconfigurationRules:
    """Rules for what a change of peers may do, and when."""

    def __init__(self, ledger: Ledger, settings: RaftSettings, leaders: Mapping[int, Peer]) -> None:
        """Takes `leaders`: the present and former leader of each term."""
        self._ledger = ledger
        self._settings = settings
        self._leaders = leaders
        self.grants: set[tuple[Peer, int, int, tuple[Peer, ...]]] = set()
        """(leader, term, token, peers) that the operator granted."""
        self.tokens: set[int] = set()
        """Tokens of configurations that were announced as applied."""
        self.applied: set[frozenset[str]] = set()
        """The nodes of configurations that were announced as applied."""

    def leads(self, life: Life) -> None:
        """Checks what a leader's log holds in each stage."""
        core = life.core
        log, leadership = core.log, core.leadership
        assert leadership is not None, "a leader leads"
        configuration = log.configuration
        assert configuration is not None, "only members are elected"
        if log.configuration_index > log.commit:
            uncommitted = [
                index
                for index, _ in log._configurations
                if index > log.commit and index >= leadership.term_start
            ]
            require(
                len(uncommitted) <= 1,
                "one uncommitted configuration",
                leader=life.peer,
                indexes=uncommitted,
            )
        change = leadership.reconfiguration
        if change.stage is Stage.CATCHING_UP:
            require(
                not configuration.is_joint and log.token < change.token,
                "nothing is written while catching up",
                leader=life.peer,
                configuration=configuration,
                token=change.token,
            )
        elif not configuration.is_joint and log.configuration_index <= log.commit:
            departing = leadership.handover.is_departing
            require(
                life.peer in configuration.peers or (departing and log.commit < log.last_index),
                "a leader outside the new set steps down once all it took is committed",
                leader=life.peer,
                configuration=configuration,
            )

    def took_effect(self, life: Life) -> None:
        """Checks a replica's new configuration: the newest in its log, and none that was
        truncated."""
        log = life.core.log
        if log.configuration_index < log.first_index:
            return
        entry = log.entries(log.configuration_index, 1)
        require(
            bool(entry)
            and entry[0].kind is EntryKind.CONFIGURATION
            and decode_configuration(entry[0]) == log.configuration,
            "a truncated configuration is rolled back",
            peer=life.peer,
            index=log.configuration_index,
            configuration=log.configuration,
        )

    def entered(self, life: Life, event: StageChanged) -> None:
        """Checks a stage that a leader reports."""
        before = life.stage
        if event.stage not in _FOLLOWING[before]:
            raise Violation(
                "stages follow one another", peer=life.peer, before=before, after=event.stage
            )
        life.stage = event.stage
        if before is not Stage.CATCHING_UP or event.stage is not Stage.JOINT:
            return
        # The term may have risen while the event waited for its Ready: the term of the leadership
        # counts.
        term = max(term for term, leader in self._leaders.items() if leader == life.peer)
        asked = (life.peer, term, event.token, event.peers)
        require(asked in self.grants, "JOINT only after its grant", asked=asked)
        margin = self._settings.catch_up_margin_entries
        for progress in event.progress:
            stored = self._ledger.stored[progress.peer]
            require(
                progress.fraction == 1.0 and stored.last_index + margin >= progress.match_index,
                "JOINT only with peers that are caught up",
                leader=life.peer,
                peer=progress,
                stored=stored.last_index,
            )

    def announced(self, life: Life, event: ConfigurationApplied) -> None:
        """Checks a leader's report that a change is done."""
        self.tokens.add(event.token)
        self.applied.add(frozenset(peer.node for peer in event.peers))
        at, configuration = life.core.log.configuration_at(event.index)
        require(
            at == event.index in self._ledger.lineages[event.lineage].chosen
            and configuration.peers == event.peers
            and configuration.token == event.token
            and configuration.lineage == event.lineage
            and not configuration.is_joint,
            "an announced configuration is committed and final",
            event=event,
            found=configuration,
        )

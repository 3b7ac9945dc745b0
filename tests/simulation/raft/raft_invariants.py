"""What must hold after every step of a simulated Raft group, whatever the schedule.

Sources: Raft paper figure 3, Ongaro's thesis §3.6 and §4.3, design §4 and §3 hole 15. Everything is
checked from outside: stored logs, messages that left, Readies, statuses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonequake_store.admin_protocol import Stage
from zonequake_store.raft.api import (
    ConfigurationApplied,
    Ready,
    Role,
    StageChanged,
)
from zonequake_store.raft.messages import (
    Configuration,
    Entry,
    EntryKind,
    HardState,
    Kind,
    Message,
    Peer,
    decode_configuration,
)

if TYPE_CHECKING:
    from simulated_group import Node, SimulatedGroup

NEXT_STAGES = {
    Stage.NONE: {Stage.CATCHING_UP, Stage.JOINT},  # JOINT: a new leader goes on
    Stage.CATCHING_UP: {Stage.CATCHING_UP, Stage.JOINT, Stage.NONE},
    Stage.JOINT: {Stage.STABLE, Stage.NONE},  # NONE: the leader lost its role
    Stage.STABLE: {Stage.NONE},
}


class Violation(AssertionError):
    """A rule was broken; the message says which and how."""


def require(condition: bool, rule: str, **facts: object) -> None:
    if not condition:
        raise Violation(f"{rule}: {facts}")


class Invariants:
    def __init__(self, group: SimulatedGroup) -> None:
        self._group = group
        self._leaders: dict[int, Peer] = {}
        self._votes: dict[tuple[Peer, int], Peer] = {}
        self._entries: dict[tuple[int, int], tuple[int, bytes]] = {}
        """(index, term) → (term of the entry before, data): log matching by induction."""
        self.chosen: dict[int, int] = {}
        """Index → term of committed entries."""
        self.chosen_to = 0
        self._stages: dict[Peer, Stage] = {}
        self._seen: dict[Peer, tuple[int, int]] = {}
        """Term and commit of each running replica."""
        self.grants: set[tuple[Peer, int, int, tuple[Peer, ...]]] = set()
        """(leader, term, token, peers) the operator granted."""

        self.announced: set[int] = set()
        """Tokens of configurations that were announced as applied."""

    def restarted(self, node: Node) -> None:
        self._seen.pop(node.peer, None)
        self._stages.pop(node.peer, None)

    def after_step(self, node: Node) -> None:
        replica = node.raft._replica
        log = replica.log
        term, commit = self._seen.get(node.peer, (0, 0))
        require(replica.term >= term, "terms never fall", peer=node.peer, term=replica.term)
        require(log.commit >= commit, "commit never falls", peer=node.peer, commit=log.commit)
        self._seen[node.peer] = (replica.term, log.commit)
        if replica.role is Role.LEADER:
            self._check_leader(node)
        for index in range(max(commit + 1, log.first_index - 1), log.commit + 1):
            if index:
                self._committed(node, index, log.term(index))
        node.configuration = log.configuration
        if log.configuration_index >= log.first_index:
            entry = log.entries(log.configuration_index, 1)
            require(
                bool(entry)
                and entry[0].kind is EntryKind.CONFIGURATION
                and decode_configuration(entry[0]) == log.configuration,
                "a truncated configuration is rolled back",
                peer=node.peer,
                index=log.configuration_index,
            )

    def _check_leader(self, node: Node) -> None:
        replica = node.raft._replica
        log, term, leadership = replica.log, replica.term, replica.leadership
        assert leadership is not None
        known = self._leaders.get(term)
        require(known in (None, node.peer), "one leader per term", term=term, a=known, b=node.peer)
        if known is None:
            self._leaders[term] = node.peer
            self._check_elected(node)
        uncommitted = [
            index
            for index, _ in log._configurations
            if index > log.commit and index >= leadership.term_start
        ]
        require(len(uncommitted) <= 1, "one uncommitted configuration", indexes=uncommitted)
        change = leadership.reconfiguration
        if change.stage is Stage.CATCHING_UP:
            require(
                not log.configuration.is_joint and log.token < change.token,
                "nothing is written while catching up",
                configuration=log.configuration,
                stage_token=change.token,
            )
        if not log.configuration.is_joint and log.configuration_index <= log.commit:
            departing = leadership.handover.is_departing
            require(
                node.peer in log.configuration.peers or (departing and log.commit < log.last_index),
                "a leader outside the new set steps down once all it took is committed",
                configuration=log.configuration,
            )

    def _check_elected(self, node: Node) -> None:
        replica = node.raft._replica
        log, term = replica.log, replica.term
        before = log.configuration
        if replica.leadership.term_start == log.configuration_index:
            before = log.configuration_at(log.configuration_index - 1)[1]
        voters = {
            peer for (peer, at), vote in self._votes.items() if at == term and vote == node.peer
        }
        require(has_quorum(before, voters), "a leader has a stored majority", voters=voters)
        for index in range(max(log.first_index - 1, 1), self.chosen_to + 1):
            require(
                log.matches(index, self.chosen[index]),
                "a leader has every committed entry",
                leader=node.peer,
                term=term,
                index=index,
            )

    def _committed(self, node: Node, index: int, term: int) -> None:
        known = self.chosen.get(index)
        require(known in (None, term), "commits agree", index=index, a=known, b=term)
        if known is not None:
            return
        self.chosen[index] = term
        self.chosen_to = max(self.chosen_to, index)
        replica = node.raft._replica
        require(replica.role is Role.LEADER or node.was_leader, "leaders commit", peer=node.peer)
        if index != replica.log.commit:
            return  # it was committed together with the entry that was counted
        require(term == replica.term, "own entries are counted", entry_term=term, term=replica.term)
        holders = {
            peer
            for peer, store in self._group.stores.items()
            if index < store.first_index
            or (index <= store.last_index and store.term(index) == term)
        }
        # The newest configuration decides, from when it was appended; it is the one that the step
        # found, for a commit may append the next.
        by = node.configuration
        assert by is not None
        require(has_quorum(by, holders), "a majority stores it", index=index, holders=holders)

    # what leaves a replica

    def ready(self, node: Node, ready: Ready) -> None:
        log = node.raft._replica.log
        previous = log.term(ready.entries[0].index - 1) if ready.entries else 0
        for entry in ready.entries:
            value = (previous, entry.data)
            known = self._entries.setdefault((entry.index, entry.term), value)
            require(known == value, "logs match", index=entry.index, a=known, b=value)
            previous = entry.term
        for event in ready.events:
            if isinstance(event, StageChanged):
                self._stage(node, event)
            elif isinstance(event, ConfigurationApplied):
                self._applied(node, event)

    def stored(self, peer: Peer, hard_state: HardState) -> None:
        if hard_state.vote is not None:
            self._vote(peer, hard_state.term, hard_state.vote)

    def sent(self, message: Message) -> None:
        if message.kind is Kind.VOTE_REPLY and not message.reject:
            self._vote(message.sender, message.term, message.to)

    def _vote(self, voter: Peer, term: int, candidate: Peer) -> None:
        known = self._votes.setdefault((voter, term), candidate)
        require(known == candidate, "one vote per term", voter=voter, a=known, b=candidate)

    def _stage(self, node: Node, event: StageChanged) -> None:
        before = self._stages.get(node.peer, Stage.NONE)
        require(event.stage in NEXT_STAGES[before], "stages", before=before, after=event.stage)
        self._stages[node.peer] = event.stage
        if before is not Stage.CATCHING_UP or event.stage is not Stage.JOINT:
            return
        # The term may have risen while the event waited for its Ready: the leadership's counts.
        term = max(term for term, leader in self._leaders.items() if leader == node.peer)
        asked = (node.peer, term, event.token, event.peers)
        require(asked in self.grants, "JOINT only after its grant", asked=asked)
        margin = self._group.settings.catch_up_margin_entries
        for progress in event.progress:
            store = self._group.stores[progress.peer]
            require(
                progress.fraction == 1.0 and store.last_index + margin >= progress.match_index,
                "JOINT only with peers that are caught up",
                peer=progress,
                stored=store.last_index,
            )

    def _applied(self, node: Node, event: ConfigurationApplied) -> None:
        self.announced.add(event.token)
        at, configuration = node.raft._replica.log.configuration_at(event.index)
        require(
            at == event.index in self.chosen
            and configuration == Configuration(peers=event.peers, token=event.token),
            "an announced configuration is committed and final",
            event=event,
            found=configuration,
        )

    # what replicas apply

    def applied_entry(self, entry: Entry, digest: int) -> None:
        if entry.kind is EntryKind.CONFIGURATION:
            decode_configuration(entry)
        known = self._group.digests.setdefault(entry.index, digest)
        require(known == digest, "replicas apply the same", index=entry.index)


def has_quorum(configuration: Configuration, peers: set[Peer]) -> bool:
    """Written again, and differently, so that an error in quorum.py shows."""
    return all(
        2 * len(peers.intersection(half)) > len(half)
        for half in (configuration.peers, configuration.old_peers)
        if half
    )

"""Elections, logs and commitment (docs/simulation.md, "Rules"; Raft paper, figure 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonequake_protocol.terms import lineage_of
from zonequake_simulation.checks.ledger import Ledger, has_quorum
from zonequake_simulation.violation import Violation, require
from zonequake_store.raft.api import RaftRole, Ready
from zonequake_store.raft.messages import Configuration, HardState, Message, MessageKind, Peer

if TYPE_CHECKING:
    from zonequake_simulation.checks.life import Life


class RaftRules:
    """The guarantees of figure 3 of the Raft paper, and their preconditions."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.leaders: dict[int, Peer] = {}
        self.resets = 0
        self._survivors: dict[int, Peer] = {}
        """Survivor that began a lineage, by the lineage's number."""
        self._votes: dict[tuple[Peer, int], Peer] = {}
        self._entries: dict[tuple[int, int], tuple[int, bytes]] = {}
        """(index, term) → (term of the entry before, data): log matching by induction."""
        self._committed_in: dict[tuple[int, int], int] = {}
        """(index, term) of a committed entry → term of the leader that counted it."""

    def went_on(self, life: Life) -> None:
        """Checks that terms and commits never decrease in one life, except for an ended lineage."""
        core = life.core
        if core.term < life.term:
            raise Violation("terms never fall", peer=life.peer, before=life.term, term=core.term)
        if core.log.commit < life.commit and not (
            life.abstained or lineage_of(core.term) > lineage_of(life.term)
        ):
            raise Violation(
                "commit never falls", peer=life.peer, before=life.commit, commit=core.log.commit
            )

    def leads(self, life: Life) -> None:
        """Checks that a term has one leader, elected by a stored majority, with every committed
        entry."""
        term = life.core.term
        if life.core.abstains:
            raise Violation("a replica that abstains does not lead", peer=life.peer, term=term)
        configuration = life.core.log.configuration
        if configuration is None or configuration.lineage < life.enforced:
            raise Violation(
                "no replica leads in an older lineage than it was told of",
                peer=life.peer,
                term=term,
                configuration=configuration,
                enforced=life.enforced,
            )
        known = self.leaders.get(term)
        if known is None:
            self.leaders[term] = life.peer
            self._elected(life)
        elif known != life.peer:
            raise Violation("one leader per term", term=term, a=known, b=life.peer)

    def _elected(self, life: Life) -> None:
        core = life.core
        log, term, leadership = core.log, core.term, core.leadership
        assert leadership is not None, "a leader leads"
        now = before = log.configuration
        if leadership.term_start == log.configuration_index:
            before = log.configuration_at(log.configuration_index - 1)[1]
        assert before is not None, "only members are elected"
        assert now is not None, "only members are elected"
        if now.lineage > before.lineage:
            self._reset(life, now, before)
            return
        voters = {
            peer for (peer, at), vote in self._votes.items() if at == term and vote == life.peer
        }
        require(
            has_quorum(before, voters),
            "a leader has a stored majority",
            leader=life.peer,
            term=term,
            voters=sorted(voters),
            configuration=before,
        )
        lineage = self._ledger.lineage(term)
        for index in range(max(log.first_index - 1, 1), lineage.chosen_to + 1):
            # A leader that learns late of its election owes nothing to the leaders of later terms.
            chosen = lineage.chosen[index]
            counted_in = self._committed_in.get((index, chosen), 0)
            if counted_in <= term and not log.matches(index, chosen):
                raise Violation(
                    "a leader has every committed entry", leader=life.peer, term=term, index=index
                )

    def _reset(self, life: Life, forced: Configuration, before: Configuration) -> None:
        """Checks a survivor that continues alone, in a new lineage."""
        number, term = forced.lineage, life.core.term
        require(
            forced.peers == (life.peer,) and not forced.is_joint and forced.token == number,
            "a reset set has one member, itself",
            survivor=life.peer,
            configuration=forced,
        )
        require(
            lineage_of(term) == number and forced.token > before.token,
            "a reset has a new token and its term",
            survivor=life.peer,
            term=term,
            configuration=forced,
            before=before,
        )
        require(
            self._votes.get((life.peer, term)) == life.peer,
            "a survivor has stored its vote",
            survivor=life.peer,
            term=term,
        )
        known = self._ledger.lineages.get(number)
        # A survivor that crashed before it had stored its configuration is asked again, and begins
        # again.
        is_again = self._survivors.get(number) == life.peer
        self._survivors[number] = life.peer
        require(
            known is None
            or (is_again and not any(lineage_of(at) == number for at in known.chosen.values())),
            "a lineage begins once",
            survivor=life.peer,
            lineage=number,
        )
        old = self._ledger.lineages[before.lineage]
        now_us = self._ledger.now_us()
        self._ledger.lineages[number] = old.forked(life.core.log.commit, now_us)
        self.resets += 1

    def committed(self, life: Life, index: int, term: int) -> None:
        """Checks that a replica is right to count an entry as committed, and agrees with all
        others."""
        ledger, core = self._ledger, life.core
        lineage = ledger.lineage(core.term)
        known = lineage.chosen.get(index)
        if known is not None:
            if known != term:
                raise Violation(
                    "commits agree", peer=life.peer, index=index, chosen=known, here=term
                )
            return
        lineage.chosen[index] = term
        if index > lineage.chosen_to:
            lineage.chosen_to = index
            lineage.grew(index, ledger.now_us())
        self._committed_in[index, term] = core.term
        require(
            core.role is RaftRole.LEADER or life.was_leader,
            "leaders commit",
            peer=life.peer,
            index=index,
        )
        if index != core.log.commit:
            return  # it was committed together with the entry that was counted
        require(
            term == core.term,
            "entries of its own term are counted",
            peer=life.peer,
            index=index,
            entry_term=term,
            term=core.term,
        )
        holders = {peer for peer, stored in ledger.stored.items() if stored.holds(index, term)}
        # The newest configuration decides, from the moment it was appended. It is the one before
        # the step, because a commit may append the next one.
        by = life.configuration
        assert by is not None, "a leader has a configuration"
        require(
            has_quorum(by, holders),
            "a majority of each half stores what is committed",
            peer=life.peer,
            index=index,
            holders=sorted(holders),
            configuration=by,
        )

    def told_elected(self, life: Life, term: int) -> None:
        """Checks a leader's report of its election: its first own entry must be committed."""
        log = life.core.log
        if not any(log.term(at) == term for at in range(log.commit, log.first_index - 1, -1)):
            raise Violation(
                "an elected leader has committed an entry of its own",
                peer=life.peer,
                term=term,
                commit=log.commit,
            )

    def appended(self, life: Life, ready: Ready) -> None:
        """Checks that logs with an entry of one index and term are equal up to it, and a leader's
        grows."""
        entries = ready.entries
        term, last = life.core.term, entries[-1].index
        if life.core.role is RaftRole.LEADER:
            if life.appended_as_leader[0] == term:
                require(
                    entries[0].index == life.appended_as_leader[1] + 1,
                    "a leader only appends",
                    leader=life.peer,
                    term=term,
                    first=entries[0].index,
                    stored=life.appended_as_leader[1],
                )
            life.appended_as_leader = term, last
        previous = life.core.log.term(entries[0].index - 1)
        for entry in entries:
            value = (previous, entry.data)
            known = self._entries.setdefault((entry.index, entry.term), value)
            if known != value:
                raise Violation(
                    "logs match",
                    peer=life.peer,
                    index=entry.index,
                    term=entry.term,
                    known=known,
                    found=value,
                )
            previous = entry.term

    def vote_stored(self, peer: Peer, hard_state: HardState) -> None:
        """Takes note of a vote on disk."""
        if hard_state.vote is not None:
            self._vote(peer, hard_state.term, hard_state.vote)

    def sent(self, message: Message) -> None:
        """Checks a vote that is sent."""
        if message.kind is MessageKind.VOTE_REPLY and not message.reject:
            self._vote(message.sender, message.term, message.to)

    def _vote(self, voter: Peer, term: int, candidate: Peer) -> None:
        known = self._votes.setdefault((voter, term), candidate)
        if known != candidate:
            raise Violation("one vote per term", voter=voter, term=term, a=known, b=candidate)

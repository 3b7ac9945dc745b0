"""Rules for a transaction over all partitions that it touches.

Judged in the first lineages of the groups: a reset may undo a decision (docs/architecture).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from zonequake_load.operation import OnceId
from zonequake_simulation.checks.model import TransactionEvent, TransactionMoment
from zonequake_simulation.violation import require
from zonequake_store.state.transactions import TransactionId


@dataclass(slots=True)
class TransactionStory:
    """A transaction as its groups' logs show it; `members` is known with the decision."""

    members: set[str] = field(default_factory=set)
    groups: dict[TransactionMoment, set[str]] = field(
        default_factory=lambda: {each: set() for each in TransactionMoment}
    )


class TransactionRules:
    """The transactions of all groups. `watch`, if set, is called for every event."""

    def __init__(self) -> None:
        self.stories: dict[TransactionId, TransactionStory] = {}
        self.watch: Callable[[TransactionMoment, TransactionId], None] | None = None
        self._carried_out: dict[tuple[str, int], TransactionId] = {}

    def happened(self, group: str, news: TransactionEvent) -> None:
        """Takes an entry of a group that was applied for the first time anywhere."""
        transaction = news.transaction
        story = self.stories.setdefault(transaction, TransactionStory())
        groups = story.groups
        match news.moment:
            case TransactionMoment.DECIDED:
                assert news.decision is not None, "a decision says of what"
                story.members = {group, *(each.group for each in news.decision.others)}
                require(
                    story.members <= groups[TransactionMoment.PREPARED],
                    "a transaction is decided when all its parts are prepared",
                    transaction=transaction,
                    members=story.members,
                    prepared=groups[TransactionMoment.PREPARED],
                )
                name = (news.decision.request_id.client, news.decision.request_id.sequence)
                first = self._carried_out.setdefault(name, transaction)
                require(
                    first == transaction,
                    "a request is carried out once",
                    request=name,
                    first=first,
                    again=transaction,
                )
            case TransactionMoment.COMMITTED:
                require(
                    bool(groups[TransactionMoment.DECIDED]),
                    "a part is committed only when its transaction is decided",
                    transaction=transaction,
                    group=group,
                )
            case TransactionMoment.ROLLED_BACK:
                require(
                    not groups[TransactionMoment.DECIDED],
                    "no part of a decided transaction is rolled back",
                    transaction=transaction,
                    group=group,
                )
            case TransactionMoment.PREPARED:
                pass
        groups[news.moment].add(group)
        if self.watch is not None:
            self.watch(news.moment, transaction)

    def certainly_failed(self, request: OnceId) -> None:
        """Takes a reply that tells a client that its transaction never happened."""
        done = self._carried_out.get((request.client, request.sequence))
        require(
            done is None,
            "a transaction that certainly failed is not carried out",
            request=request,
            transaction=done,
        )

    def settled(self) -> None:
        """Judges all transactions once everything is at rest."""
        for transaction, story in self.stories.items():
            groups = story.groups
            facts = {moment.value: sorted(groups[moment]) for moment in TransactionMoment}
            if groups[TransactionMoment.DECIDED]:
                require(
                    groups[TransactionMoment.COMMITTED] == story.members,
                    "every part of a decided transaction is committed",
                    transaction=transaction,
                    **facts,
                )
            else:
                require(
                    groups[TransactionMoment.ROLLED_BACK] == groups[TransactionMoment.PREPARED],
                    "every part of a transaction without decision is rolled back",
                    transaction=transaction,
                    **facts,
                )

"""All rules of one group, and the ledger that they share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from zonequake_simulation.checks.catch_up import CatchUpRules
from zonequake_simulation.checks.ledger import Ledger
from zonequake_simulation.checks.raft import RaftRules
from zonequake_simulation.checks.reconfiguration import ReconfigurationRules
from zonequake_simulation.checks.replies import ReplyRules
from zonequake_simulation.checks.state import StateRules
from zonequake_simulation.checks.storage import StorageRules
from zonequake_simulation.checks.transactions import TransactionRules
from zonequake_simulation.checks.users import UserRules
from zonequake_store.raft.api import Ready, Settings
from zonequake_store.raft.messages import Message, Peer, SnapshotMeta

if TYPE_CHECKING:
    from zonequake_simulation.checks.life import Life


class GroupRules:
    """One group's rules."""

    def __init__(
        self,
        group: str,
        settings: Settings,
        transactions: TransactionRules,
        now_us: Callable[[], int],
    ) -> None:
        self.ledger = Ledger(now_us)
        self.raft = RaftRules(self.ledger)
        self.reconfiguration = ReconfigurationRules(self.ledger, settings)
        self.storage = StorageRules(self.ledger)
        self.users = UserRules()
        self.state = StateRules(group, self.ledger, transactions, self.users)
        self.catch_up = CatchUpRules(settings)
        self.replies = ReplyRules(self.ledger)

    def began(self, life: Life, *, is_volatile: bool) -> None:
        """A life begins with what was recovered."""
        self.storage.recovered(life, is_volatile=is_volatile)
        life.after_step()

    def stored(self, peer: Peer, ready: Ready) -> None:
        """A Ready is on a replica's disk."""
        self.ledger.stored[peer].store(ready)
        if ready.hard_state is not None:
            self.raft.vote_stored(peer, ready.hard_state)

    def compacted(self, peer: Peer, meta: SnapshotMeta) -> None:
        """A replica's stored log begins behind `meta` now."""
        self.ledger.stored[peer].compact(meta)

    def sent(self, messages: Sequence[Message]) -> None:
        """Messages leave a replica."""
        for message in messages:
            self.storage.sent(message)
            self.raft.sent(message)

"""What clients are told (research §7, invariants 25 and 40, seen from inside)."""

from __future__ import annotations

from zonequake_chaos.simulation.checks.ledger import Ledger
from zonequake_chaos.simulation.violation import Violation
from zonequake_store.client_protocol import Read, Reply, Status


class ReplyRules:
    """An answer rests on what is committed."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def answered(self, node: str, body: object, reply: Reply, committed_before: int) -> None:
        """A node answered `body`, which came when `committed_before` was committed."""
        if reply.status is not Status.OK:
            return
        ledger = self._ledger
        if isinstance(body, Read):
            if body.bounded:
                return
            if reply.index < committed_before:
                raise Violation(
                    "reads see what was committed",
                    node=node,
                    key=body.key,
                    index=reply.index,
                    committed=committed_before,
                )
        if ledger.chosen.get(reply.index) != reply.term and reply.index:
            raise Violation(
                "only what is committed is acknowledged",
                node=node,
                body=body,
                index=reply.index,
                term=reply.term,
                chosen=ledger.chosen.get(reply.index),
            )

"""Rules for replies to clients (docs/simulation.md, "Rules"; design §4, Replies and retries)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonequake_protocol.client import (
    Append,
    Cas,
    Read,
    Reply,
    ReplyStatus,
    RequestId,
    Transaction,
    Write,
)
from zonequake_protocol.terms import lineage_of
from zonequake_simulation.checks.ledger import Ledger, Lineage
from zonequake_simulation.checks.model import shown
from zonequake_simulation.violation import Violation, require

if TYPE_CHECKING:
    from zonequake_simulation.checks.life import Life


class ReplyRules:
    """A reply depends only on committed entries, and equals that of a plain model."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def seen(self) -> tuple[int, int]:
        """Returns what is committed when a request arrives: the newest lineage, and its last
        index."""
        newest = self._ledger.newest
        return newest, self._ledger.lineages[newest].chosen_to

    def answered(
        self, life: Life, body: object, reply: Reply, before: tuple[int, int], *, rate: float
    ) -> None:
        """Judges a reply to `body`, which arrived when `seen` returned `before`.

        A replica answers in its own lineage, even about an entry of an older one. `rate`: the speed
        of its clock.
        """
        if reply.status is not ReplyStatus.OK:
            return
        core, node = life.core, life.peer.node
        configuration = core.log.configuration
        if configuration is None:
            require(
                isinstance(body, Read) and body.bounded and not body.max_staleness_ms,
                "an empty replica answers only reads of any age",
                node=node,
                body=body,
                reply=reply,
            )
            return
        number = configuration.lineage if core.abstains else lineage_of(core.term)
        ledger = self._ledger
        lineage = ledger.lineages[number]
        if reply.index and not lineage.has(reply.index, reply.term):
            raise Violation(
                "only what is committed is acknowledged",
                node=node,
                body=body,
                index=reply.index,
                term=reply.term,
                chosen=lineage.chosen.get(reply.index),
            )
        if isinstance(body, Read):
            _read(node, body, reply, lineage)
            if body.bounded:
                if body.max_staleness_ms:
                    self._fresh(node, body, reply, lineage, body.max_staleness_ms * rate)
                return
            if number == before[0] and reply.index < before[1]:
                raise Violation(
                    "reads see what was committed",
                    node=node,
                    key=body.key,
                    index=reply.index,
                    committed=before[1],
                )
            require(
                lineage.model.writer_at(body.key, reply.index) is None,
                "no reader sees a key that a prepared transaction is about to write",
                node=node,
                key=body.key,
                index=reply.index,
            )
        elif isinstance(body, Write | Cas | Append | Transaction) and body.request_id is not None:
            _wrote(node, body.request_id, reply, lineage)
        require(
            number >= life.enforced,
            "no replica acknowledges in an older lineage than it was told of",
            node=node,
            body=body,
            lineage=number,
            enforced=life.enforced,
        )
        if number < ledger.acknowledged:
            raise Violation(
                "two lineages never both acknowledge",
                node=node,
                body=body,
                lineage=number,
                newest=ledger.acknowledged,
            )
        ledger.acknowledged = number
        if not isinstance(body, Read) and reply.index:
            upto = max(reply.index, ledger.acknowledged_to.get(number, 0))
            ledger.acknowledged_to[number] = upto

    def _fresh(
        self, node: str, body: Read, reply: Reply, lineage: Lineage, bound_ms: float
    ) -> None:
        committed = lineage.chosen_by(self._ledger.now_us() - bound_ms * 1000)
        require(
            reply.index >= committed,
            "a bounded read sees what was committed before its bound",
            node=node,
            body=body,
            index=reply.index,
            committed=committed,
        )


def _read(node: str, body: Read, reply: Reply, lineage: Lineage) -> None:
    expected = lineage.model.value_at(body.key, reply.index)
    require(
        shown(reply.value) == expected,
        "a read shows what the entries before it wrote",
        node=node,
        key=body.key,
        index=reply.index,
        shown=reply.value,
        expected=expected,
    )


def _wrote(node: str, request_id: RequestId, reply: Reply, lineage: Lineage) -> None:
    done = lineage.model.done(request_id)
    require(
        done is not None
        and (done.index, done.term, done.applied) == (reply.index, reply.term, reply.applied)
        and (done.applied is not False or done.found == shown(reply.value)),
        "a write is acknowledged with its outcome",
        node=node,
        request=request_id,
        reply=reply,
        model=done,
    )

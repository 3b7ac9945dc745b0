"""Orders of the operator, carried out (docs/interfaces.md, "Admin protocol").

Every order may be repeated; one with a lower token than the replica has seen is `stale`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

import msgspec

from zonequake_protocol.admin import (
    ChangePeers,
    InspectReplica,
    Order,
    OrderReply,
    OrderStatus,
    StartReplica,
    StopReplica,
)
from zonequake_store.catch_up.edge import NodeCatchUp
from zonequake_store.errors import CounterError, LogCorrupt, StateCorrupt, StorageError
from zonequake_store.node.flushing import Flushing
from zonequake_store.node.start import Starter, StartingHost
from zonequake_store.replica.host import ReplicaHost
from zonequake_store.replica.orders import (
    failed,
    looked_at,
    may_not_start,
    may_not_stop,
    obey,
    start_again,
)
from zonequake_store.replica.replica import LOG_ERRORS, Replica
from zonequake_store.replica.status import replica_status
from zonequake_store.serving.journal_entries import note_replica
from zonequake_store.settings import PlantedFault
from zonequake_store.storage.cells import Overlay
from zonequake_store.storage.directory import LogBatch
from zonequake_store.storage.log_writes import Erase, GroupRecord, PutRecord


class OrderedHost(ReplicaHost, StartingHost, Protocol):
    """The host whose replicas are ordered to start, to change and to stop."""

    @property
    def waiting(self) -> dict[str, GroupRecord]:
        """The replicas on disk that wait for a start order, by group."""

    @property
    def broken(self) -> dict[str, tuple[GroupRecord, str]]:
        """The replicas that could not go on, and why, by group."""

    @property
    def lost(self) -> set[str]:
        """The groups of the broken ones that could not be started from what is stored."""

    @property
    def flushing(self) -> Flushing:
        """The replicas' state on its way to the disk."""

    @property
    def catch_up(self) -> NodeCatchUp:
        """Forgets replicas that were erased."""

    def add(self, replica: Replica) -> None:
        """Lets a replica take part from now on."""

    def remove(self, replica: Replica) -> None:
        """Stops a replica; its files stay."""


class Orders:
    """Carries orders out, one at a time. `random(n)` gives 0 ≤ x < n."""

    def __init__(
        self,
        host: OrderedHost,
        *,
        random: Callable[[int], int],
        planted_fault: PlantedFault | None,
    ) -> None:
        self._host = host
        self._starter = Starter(host, random=random, planted_fault=planted_fault)
        self._one_at_a_time = asyncio.Lock()

    async def execute(self, orders: list[Order]) -> list[OrderReply]:
        """Carry out orders in their order."""
        async with self._one_at_a_time:
            return [await self._answered(order) for order in orders]

    async def _answered(self, order: Order) -> OrderReply:
        try:
            return await self._execute(order)
        except StorageError as error:  # what it needs stored is not, now or ever
            return failed(str(error))

    async def _execute(self, order: Order) -> OrderReply:
        broken = self._host.broken.get(order.group)
        if broken is not None and not isinstance(order, StopReplica):
            return failed(f"the replica is broken ({broken[1]}); stop and erase it")
        if isinstance(order, StartReplica):
            return await self._start(order)
        if isinstance(order, StopReplica):
            return await self._stop(order)
        if isinstance(order, InspectReplica):
            return self._inspect(order)
        replica = self._host.replicas.get(order.group)
        if replica is None:
            return OrderReply(status=OrderStatus.NOT_HERE)
        if isinstance(order, ChangePeers):
            self._host.transport.told(order.addresses)
        try:
            reply = obey(replica, order)
        except LOG_ERRORS as error:
            self._host.break_down(replica, str(error))
            return failed(str(error))
        self._host.wake(replica)
        return reply

    # ── looking ──────────────────────────────────────────────────────────────────────────────

    def _inspect(self, order: InspectReplica) -> OrderReply:
        """Fake start: a core that is never ticked and steps no message sends and decides nothing.

        What it has committed is applied to a state of its own in memory, that is never flushed.
        """
        replica = self._host.replicas.get(order.group)
        if replica is not None:
            return OrderReply(status=OrderStatus.RECEIVED, replica=replica_status(replica))
        record = self._host.waiting.get(order.group)
        if record is None:
            return OrderReply(status=OrderStatus.NOT_HERE)
        try:
            replica = self._starter.durable(
                StartReplica(
                    group=order.group,
                    zone=record.zone,
                    partition=record.partition,
                    partitions=record.partitions,
                    token=record.token,
                ),
                record,
                to_look=True,
            )
            found = looked_at(replica)
        except (*LOG_ERRORS, StateCorrupt) as error:
            return failed(f"the replica cannot be read ({error})")
        return OrderReply(status=OrderStatus.RECEIVED, replica=found)

    # ── start ────────────────────────────────────────────────────────────────────────────────

    async def _start(self, order: StartReplica) -> OrderReply:
        host = self._host
        host.transport.told(order.addresses)
        replica = host.replicas.get(order.group)
        record = replica.record if replica else host.waiting.get(order.group)
        refusal = may_not_start(order, replica, record)
        if refusal is not None:
            return refusal
        if replica is not None:
            reply = start_again(replica, order)
            host.wake(replica)
            return reply
        reason = "start order" if record is None else "start order after a restart"
        if order.volatile:
            replica = self._starter.volatile(order)
        else:
            if record is None:
                record = self._starter.new_record(order)
            else:
                record = msgspec.structs.replace(
                    record, partitions=order.partitions, token=order.token
                )
            batch = LogBatch()
            batch.of(record).append(PutRecord(order.group, record))
            await host.storage.log_written(batch)
            try:
                replica = self._starter.durable(order, record)
            except (LogCorrupt, StateCorrupt, CounterError) as error:
                host.waiting.pop(order.group, None)
                host.broken[order.group] = (record, str(error))
                host.lost.add(order.group)
                note_replica(host.journal, "replica.broken", record, str(error))
                return failed(f"the replica is broken ({error}); stop and erase it")
        host.add(replica)
        self._greet(replica, order)
        note_replica(host.journal, "replica.started", replica.record, reason)
        return OrderReply(status=OrderStatus.RECEIVED, incarnation=replica.me.incarnation)

    def _greet(self, replica: Replica, order: StartReplica) -> None:
        """Announces this node to the replica's peers.

        A new replica doesn't know them yet, and only its leader is ordered to know of it. Where
        nodes have no names, the next leader could not find it, so all of the order are greeted.
        """
        transport, configuration = self._host.transport, replica.core_now().status().configuration
        if configuration is not None:
            nodes = {peer.node for peer in configuration.members}
        else:
            nodes = set() if transport.has_names else set(order.addresses)
        for node in sorted(nodes - {replica.me.node}):
            transport.greet(node)

    # ── stop ─────────────────────────────────────────────────────────────────────────────────

    async def _stop(self, order: StopReplica) -> OrderReply:
        """Stop a replica. Nothing of it is under way any more when its files are judged or deleted:

        token raised ─► flushed, removed ─► flush under way ended ─► record read ─► erased
        """
        host = self._host
        replica = host.replicas.get(order.group)
        broken = host.broken.get(order.group)
        record = (
            replica.record if replica else broken[0] if broken else host.waiting.get(order.group)
        )
        if record is None:
            return OrderReply(status=OrderStatus.RECEIVED)  # stopped and erased before
        refusal = may_not_stop(order, replica, record)
        if refusal is not None:
            return refusal
        record = msgspec.structs.replace(record, token=order.token)
        if replica is not None:
            replica.raise_token(order.token)
            if not order.erase:
                await host.flushing.flushed(replica)
            host.remove(replica)
            await host.flushing.flush_ended(replica)
            record = replica.record  # a snapshot may have been installed meanwhile
            note_replica(
                host.journal, "replica.stopped", record, "erased" if order.erase else "stopped"
            )
            if replica.is_volatile:
                return OrderReply(status=OrderStatus.RECEIVED)
        if order.erase:
            await self._erase(order.group, record, replica)
        elif order.group not in host.broken:
            host.waiting[order.group] = record
        return OrderReply(status=OrderStatus.RECEIVED)

    async def _erase(self, group: str, record: GroupRecord, replica: Replica | None) -> None:
        host = self._host
        batch = LogBatch()
        batch.of(record).append(Erase(group, record.number))
        try:
            await host.storage.log_written(batch, frees=True)
        except StorageError:
            # It is still on the disk: while it is known, its erasure can be repeated.
            if group not in host.broken:
                host.waiting[group] = record
            raise
        host.waiting.pop(group, None)
        host.broken.pop(group, None)
        host.lost.discard(group)
        numbers = {record.data_number}
        host.catch_up.forget(group)
        if replica is not None and isinstance(replica.cells, Overlay):
            numbers.add(replica.cells.number)  # another one while a snapshot is installed
        for number in numbers:
            host.storage.erase_state(number)
        host.storage.erased(
            [
                *host.waiting.values(),
                *(record for record, _ in host.broken.values()),
                *(replica.record for replica in host.replicas.values()),
            ]
        )

"""Orders of the operator, carried out (docs/interfaces.md, "Admin protocol").

Every order may be repeated; one with a lower token than the replica has seen is `stale`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from zonequake_store.admin_protocol import (
    Bootstrap,
    CancelChangePeers,
    ChangePeers,
    Grant,
    InspectReplica,
    Order,
    OrderReply,
    OrderStatus,
    ResetPeers,
    Role,
    StartReplica,
    StopReplica,
    TransferLeadership,
)
from zonequake_store.data_store import Overlay
from zonequake_store.errors import CounterError, LogCorrupt, StateCorrupt, StorageError
from zonequake_store.host import Host
from zonequake_store.log_writes import Erase, GroupRecord, PutRecord
from zonequake_store.raft.errors import RaftError
from zonequake_store.raft.messages import Configuration, Peer
from zonequake_store.replica import LOG_ERRORS, Replica
from zonequake_store.reports import peers_of, replica_status
from zonequake_store.settings import PlantedFault
from zonequake_store.starting import Starter
from zonequake_store.storage import LogBatch


class Orders:
    """Carries orders out, one at a time. `random(n)` gives 0 ≤ x < n."""

    def __init__(
        self,
        host: Host,
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
            return _failed(str(error))

    async def _execute(self, order: Order) -> OrderReply:
        broken = self._host.broken.get(order.group)
        if broken is not None and not isinstance(order, StopReplica):
            return _failed(f"the replica is broken ({broken[1]}); stop and erase it")
        if isinstance(order, StartReplica):
            return await self._start(order)
        if isinstance(order, StopReplica):
            return await self._stop(order)
        if isinstance(order, InspectReplica):
            return self._inspect(order)
        replica = self._host.replicas.get(order.group)
        if replica is None:
            return OrderReply(status=OrderStatus.NOT_HERE)
        configuration = replica.raft.status().configuration
        if configuration is not None:
            replica.raise_token(configuration.token)
        if order.token < replica.token:
            return _stale(order.token, replica.token)
        try:
            reply = self._at_replica(replica, order)
        except LOG_ERRORS as error:
            self._host.break_down(replica, str(error))
            return _failed(str(error))
        except RaftError as error:
            return _failed(str(error))
        if reply.status is OrderStatus.RECEIVED:
            replica.raise_token(order.token)
        self._host.wake(replica)
        return reply

    def _at_replica(
        self,
        replica: Replica,
        order: Bootstrap
        | ChangePeers
        | CancelChangePeers
        | ResetPeers
        | Grant
        | TransferLeadership,
    ) -> OrderReply:
        raft = replica.raft
        match order:
            case Bootstrap():
                raft.bootstrap(
                    Configuration(
                        peers=peers_of(order.peers), token=order.token, lineage=order.lineage
                    )
                )
                return OrderReply(status=OrderStatus.RECEIVED)
            case ChangePeers():
                self._host.transport.told(order.addresses)
                answer = raft.change_peers(
                    term=order.term, token=order.token, peers=peers_of(order.peers)
                )
                return OrderReply(status=OrderStatus(answer.value))
            case CancelChangePeers():
                cancelled = raft.cancel_change_peers(term=order.term, token=order.token)
                return OrderReply(status=OrderStatus(cancelled.value))
            case ResetPeers():
                reset = raft.reset_peers(
                    term=order.term, token=order.token, peers=peers_of(order.peers)
                )
                return OrderReply(status=OrderStatus(reset.value))
            case Grant():
                granted = raft.grant(
                    term=order.term, token=order.token, peers=peers_of(order.peers)
                )
                return OrderReply(status=OrderStatus(granted.value))
            case TransferLeadership():
                return self._transfer(replica, order)

    def _transfer(self, replica: Replica, order: TransferLeadership) -> OrderReply:
        if not replica.leads:
            if order.to is not None and replica.leader and replica.leader.node == order.to:
                return OrderReply(status=OrderStatus.RECEIVED)
            return OrderReply(status=OrderStatus.NOT_LEADER)
        target: Peer | None = None
        if order.to is not None:
            configuration = replica.raft.status().configuration
            members = configuration.members if configuration else frozenset()
            target = next((peer for peer in members if peer.node == order.to), None)
            if target is None:
                return _failed(f"{order.to} is no member of {replica.group}")
            if target == replica.me:
                return OrderReply(status=OrderStatus.RECEIVED)
        if not replica.raft.transfer_leadership(target):
            return _failed("there is nobody to hand leadership to")
        return OrderReply(status=OrderStatus.RECEIVED)

    # ── looking ──────────────────────────────────────────────────────────────────────────────

    def _inspect(self, order: InspectReplica) -> OrderReply:
        """Fake start: a core that is never ticked and steps no message sends and decides nothing.

        What it has committed is applied to a state of its own in memory, that nobody flushes.
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
            while replica.raft.has_ready():
                ready = replica.raft.ready()
                replica.apply(ready.committed)
                replica.raft.stored(ready)
            found = replica_status(replica)
        except (*LOG_ERRORS, StateCorrupt) as error:
            return _failed(f"the replica cannot be read ({error})")
        return OrderReply(
            status=OrderStatus.RECEIVED,
            replica=msgspec.structs.replace(found, role=Role.WAITING),
        )

    # ── start ────────────────────────────────────────────────────────────────────────────────

    async def _start(self, order: StartReplica) -> OrderReply:
        host = self._host
        host.transport.told(order.addresses)
        replica = host.replicas.get(order.group)
        record = replica.record if replica else host.waiting.get(order.group)
        token = replica.token if replica else record.token if record else 0
        if order.token < token:
            return _stale(order.token, token)
        if replica is not None:
            replica.raise_token(order.token)
            replica.raft.set_catch_up_rate(order.catch_up_bytes_per_second)
            replica.raft.enforce(order.enforced_token)
            host.wake(replica)
            return OrderReply(status=OrderStatus.RECEIVED, incarnation=replica.me.incarnation)
        if not 0 <= order.partition < order.partitions:
            return _failed(
                f"partition is {order.partition}; expected 0 to {order.partitions - 1}, because "
                f"the zone has {order.partitions} partitions"
            )
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
                host.note_replica("replica.broken", record, str(error))
                return _failed(f"the replica is broken ({error}); stop and erase it")
        host.add(replica)
        host.note_replica("replica.started", replica.record, reason)
        return OrderReply(status=OrderStatus.RECEIVED, incarnation=replica.me.incarnation)

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
        token = replica.token if replica else record.token
        if order.token < token:
            return _stale(order.token, token)
        if order.incarnation != record.incarnation:
            return OrderReply(
                status=OrderStatus.STALE,
                error=f"the order is for incarnation {order.incarnation}, the replica is "
                f"{record.incarnation}",
            )
        record = msgspec.structs.replace(record, token=order.token)
        if replica is not None:
            replica.raise_token(order.token)
            if not order.erase:
                await host.flushing.flushed(replica)
            host.remove(replica)
            await host.flushing.flush_ended(replica)
            record = replica.record  # a snapshot may have been installed meanwhile
            host.note_replica("replica.stopped", record, "erased" if order.erase else "stopped")
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
            # It is still on the disk: known as such, it can be erased again.
            if group not in host.broken:
                host.waiting[group] = record
            raise
        host.waiting.pop(group, None)
        host.broken.pop(group, None)
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


def _failed(error: str) -> OrderReply:
    return OrderReply(status=OrderStatus.FAILED, error=error)


def _stale(found: int, seen: int) -> OrderReply:
    return OrderReply(
        status=OrderStatus.STALE,
        error=f"the order's token is {found}, the replica has seen {seen}",
    )

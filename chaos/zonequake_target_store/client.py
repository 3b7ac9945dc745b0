"""The client of our own store, by the client library."""

from __future__ import annotations

from zonequake_load.client.client import Client
from zonequake_load.client.connection import Connections, dialer
from zonequake_load.operation import Limits, OnceId, Operation, Outcome, TransactionOperation
from zonequake_load.pod.control import ReadsAt
from zonequake_load.targets.context import ClientContext
from zonequake_load.targets.keys import key_for_partition


class ZonequakeTarget:
    """One zone of a zonequake store."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @property
    def partitions(self) -> int:
        return self._client.table.partitions

    async def open(self) -> None:
        await self._client.open()

    async def close(self) -> None:
        await self._client.close()

    async def execute(
        self,
        operation: Operation | TransactionOperation,
        limits: Limits,
        once: OnceId | None = None,
    ) -> Outcome:
        return await self._client.execute(operation, limits, once)

    def partition_of(self, key: str) -> int:
        return self._client.partition_of(key)

    def key_for_partition(self, stem: str, partition: int) -> str:
        return key_for_partition(stem, partition, self.partitions)


def connect(context: ClientContext) -> ZonequakeTarget:
    """Builds the client of one zone; its seeds are client ports of data nodes."""
    credentials = context.credentials
    connections = (
        Connections(dialer(credentials), renew_s=credentials.settings.renew_s)
        if credentials is not None
        else Connections()
    )
    client = Client(
        context.zone,
        list(context.seeds),
        rng=context.rng,
        reads_anywhere=context.reads_at is not ReadsAt.LEADER,
        connections=connections,
    )
    return ZonequakeTarget(client)

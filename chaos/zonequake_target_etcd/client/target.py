"""etcd as a target: an independent system, judged by the same checks.

One etcd is one Raft group and so one partition; the zone is a prefix of its keys. How values are
kept, and why the revision is the order that etcd claims, is in `records`; docs/etcd.md says what
follows for a run.

An append reads the list, then writes it if it is still at that revision. A compare that failed
certainly wrote nothing: again with what it found. All of it is one operation; what goes wrong
before its first write is certain.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from zonequake_load.operation import Function, Operation, Outcome, Type
from zonequake_load.targets.context import ClientContext
from zonequake_load.targets.member_client import Attempt, MemberClient
from zonequake_protocol.client import Value
from zonequake_target_etcd.client.api import (
    EtcdApi,
    Header,
    KeyValue,
    has_mod_revision,
    has_value,
    put_request,
    range_request,
)
from zonequake_target_etcd.client.errors import EtcdError
from zonequake_target_etcd.client.records import (
    LINEAGE,
    TERM,
    elements,
    filler_of,
    key_of,
    read,
    stored,
)
from zonequake_target_etcd.client.wire import EtcdWire

_ABORTED = 10
"""gRPC's code of a transaction that another one came before."""


class EtcdTarget(MemberClient):
    """The keys of one prefix in an etcd.

    Bounded reads are serializable, at any endpoint in turn: its own state, however old.
    """

    def __init__(
        self,
        zone: str,
        seeds: Sequence[str],
        *,
        rng: random.Random,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        super().__init__(seeds, rng=rng, now_ns=now_ns)
        self._zone = zone
        self._names: dict[int, str] = {}
        self._wire: EtcdWire | None = None

    def connect(self) -> None:
        self._wire = EtcdWire()

    async def disconnect(self) -> None:
        if self._wire is not None:
            await self._wire.close()

    async def examine(self, attempt: Attempt) -> None:
        """Asks for a linearizable read, as etcd's own health check does, and for names."""
        api = self._api(attempt, needs_leader=True)
        await api.range(key_of(self._zone, ""))
        self._names |= {member.id: member.name for member in await api.members() if member.name}

    async def attempt(self, operation: Operation, attempt: Attempt) -> Outcome:
        api = self._api(attempt, needs_leader=not operation.bounded)
        where = key_of(self._zone, operation.key)
        if operation.f is Function.READ:
            found = await api.range(where, serializable=operation.bounded)
            return self._ok(found.header, value=_value(found.kvs))
        value, expected = operation.value, operation.expected
        assert isinstance(value, int), "the load writes integers"
        assert not isinstance(expected, str), "and expects them"
        if operation.f is Function.APPEND:
            return await self._append(where, value, api, attempt)
        raw = stored(value)
        if operation.f is Function.CAS:
            absent = has_mod_revision(where, 0)
            done = await api.txn(
                compare=[absent if expected is None else has_value(where, stored(expected))],
                success=[put_request(where, raw)],
                failure=[range_request(where)],
            )
            held = None if done.succeeded else _value(done.kvs)
            return self._ok(done.header, value=held, applied=done.succeeded)
        if not operation.filler:
            return self._ok(await api.put(where, raw))
        beside = put_request(filler_of(self._zone, operation.key), operation.filler)
        done = await api.txn(success=[put_request(where, raw), beside])
        return self._ok(done.header)

    async def _append(self, where: bytes, value: int, api: EtcdApi, attempt: Attempt) -> Outcome:
        attempt.writes = False
        kvs = (await api.range(where)).kvs
        while True:
            held = elements(kvs[0].value) if kvs else []
            attempt.writes = True
            done = await api.txn(
                compare=[has_mod_revision(where, kvs[0].mod_revision if kvs else 0)],
                success=[put_request(where, stored([*held, value]))],
                failure=[range_request(where)],
            )
            if done.succeeded:
                return self._ok(done.header)
            attempt.writes = False
            if not attempt.limits.retry:
                message = "another append came between"
                raise EtcdError(code=_ABORTED, message=message, certain=True)
            kvs = done.kvs

    def _ok(self, header: Header, *, value: Value = None, applied: bool | None = None) -> Outcome:
        """Returns the answer of the member that `header` names; `attempts` is not yet known."""
        return Outcome(
            type=Type.OK,
            attempts=0,
            value=value,
            applied=applied,
            node=self._names.get(header.member_id, f"{header.member_id:016x}"),
            lineage=LINEAGE,
            term=TERM,
            index=header.revision,
        )

    def _api(self, attempt: Attempt, *, needs_leader: bool) -> EtcdApi:
        wire = self._wire
        assert wire is not None, "opened before the first operation"

        async def post(path: str, body: Mapping[str, object]) -> Mapping[str, Any]:
            return await attempt.send(
                lambda timeout_s: wire.post(
                    attempt.address, path, body, timeout_s=timeout_s, needs_leader=needs_leader
                )
            )

        return EtcdApi(post)


def _value(kvs: list[KeyValue]) -> Value:
    return read(kvs[0].value) if kvs else None


def connect(context: ClientContext) -> EtcdTarget:
    """Builds the client of one prefix; its seeds are client ports of members."""
    return EtcdTarget(context.zone, context.seeds, rng=context.rng)

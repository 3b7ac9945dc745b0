"""etcd as a target: an independent system, judged by the same checks.

One etcd is one Raft group and so one partition; the zone is a prefix of its keys. How values are
kept, and why the revision is the order that etcd claims, is in `records`; docs/etcd.md says what
follows for a run.

An append, also within a transaction, reads the list, then writes it if it is still at that
revision. A compare that failed certainly wrote nothing: again with what it found. All of it is one
operation; what goes wrong before its first write is certain.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from zonequake_load.operation import Function, Operation, Outcome, TransactionOperation, Type
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
        where = self._where(operation)
        if operation.f is Function.READ:
            found = await api.range(where, serializable=operation.bounded)
            return self._ok(found.header, value=_value(found.kvs))
        if operation.f is Function.WRITE and not operation.filler:
            return self._ok(await api.put(where, _stored(operation)))
        done = await self._together((operation,), api, attempt)
        applied = done.applied if operation.f is Function.CAS else None
        return msgspec.structs.replace(done, applied=applied, results=None)

    async def transaction(self, transaction: TransactionOperation, attempt: Attempt) -> Outcome:
        return await self._together(
            transaction.steps, self._api(attempt, needs_leader=True), attempt
        )

    async def _together(
        self, steps: Sequence[Operation], api: EtcdApi, attempt: Attempt
    ) -> Outcome:
        """Carries steps out in one transaction; an append writes the list that was read before."""
        lists: dict[str, list[KeyValue]] = {}
        for step in steps:
            if step.f is Function.APPEND:
                attempt.writes = False
                lists[step.key] = (await api.range(self._where(step))).kvs
        compared = [step for step in steps if step.f in (Function.CAS, Function.APPEND)]
        while True:
            attempt.writes = True
            done = await api.txn(
                compare=[self._compare(step, lists) for step in compared],
                success=[
                    *(self._request(step, lists) for step in steps),
                    *(
                        put_request(filler_of(self._zone, step.key), step.filler)
                        for step in steps
                        if step.filler
                    ),
                ],
                failure=[range_request(self._where(step)) for step in compared],
            )
            if done.succeeded:
                results = [_value(one.kvs) for one in done.responses[: len(steps)]]
                return self._ok(done.header, applied=True, results=results)
            attempt.writes = False
            for step, one in zip(compared, done.responses, strict=False):
                if step.f is Function.APPEND:
                    lists[step.key] = one.kvs
                elif _value(one.kvs) != step.expected:
                    return self._ok(done.header, value=_value(one.kvs), applied=False)
            if not attempt.limits.retry:
                message = "another append came between"
                raise EtcdError(code=_ABORTED, message=message, certain=True)

    def _where(self, step: Operation) -> bytes:
        return key_of(self._zone, step.key)

    def _compare(
        self, step: Operation, lists: Mapping[str, list[KeyValue]]
    ) -> Mapping[str, object]:
        where = self._where(step)
        if step.f is Function.APPEND:
            kvs = lists[step.key]
            return has_mod_revision(where, kvs[0].mod_revision if kvs else 0)
        if step.expected is None:
            return has_mod_revision(where, 0)
        assert not isinstance(step.expected, str), "the load expects integers"
        return has_value(where, stored(step.expected))

    def _request(
        self, step: Operation, lists: Mapping[str, list[KeyValue]]
    ) -> Mapping[str, object]:
        where = self._where(step)
        if step.f is Function.READ:
            return range_request(where)
        if step.f is not Function.APPEND:
            return put_request(where, _stored(step))
        kvs = lists[step.key]
        held = elements(kvs[0].value) if kvs else []
        assert isinstance(step.value, int), "the load writes integers"
        return put_request(where, stored([*held, step.value]))

    def _ok(
        self,
        header: Header,
        *,
        value: Value = None,
        applied: bool | None = None,
        results: list[Value] | None = None,
    ) -> Outcome:
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
            results=results,
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


def _stored(step: Operation) -> bytes:
    assert isinstance(step.value, int), "the load writes integers"
    return stored(step.value)


def connect(context: ClientContext) -> EtcdTarget:
    """Builds the client of one prefix; its seeds are client ports of members."""
    return EtcdTarget(context.zone, context.seeds, rng=context.rng)

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
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from zonequake_load.operation import Function, Operation, Outcome, TransactionOperation, Type
from zonequake_load.targets.context import ClientContext
from zonequake_load.targets.member_client import Attempt, MemberClient
from zonequake_protocol.client import Value
from zonequake_target_etcd.client.protocol.errors import EtcdError
from zonequake_target_etcd.client.protocol.messages import (
    MEMBERS,
    PUT,
    RANGE,
    TXN,
    Method,
    has_mod_revision,
    has_value,
    put_request,
    range_request,
)
from zonequake_target_etcd.client.protocol.records import (
    LINEAGE,
    TERM,
    elements,
    filler_of,
    key_of,
    read,
    stored,
)
from zonequake_target_etcd.client.tls import ClientTls
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
        secret: Path | None = None,
    ) -> None:
        """`secret`: the folder of `ClientTls.read`; None: the members speak no TLS."""
        super().__init__(seeds, rng=rng, now_ns=now_ns)
        self._zone = zone
        self._secret = secret
        self._names: dict[int, str] = {}
        self._wire: EtcdWire | None = None

    def connect(self) -> None:
        """Raises TargetError."""
        tls = None if self._secret is None else ClientTls.read(self._secret)
        self._wire = EtcdWire(tls, self.host_of)

    async def disconnect(self) -> None:
        if self._wire is not None:
            await self._wire.close()

    async def examine(self, attempt: Attempt) -> None:
        """Asks for a linearizable read, as etcd's own health check does, and for names."""
        await self._ask(attempt, RANGE, RANGE.request(key=key_of(self._zone, "")))
        known = await self._ask(attempt, MEMBERS, MEMBERS.request())
        self._names |= {member.ID: member.name for member in known.members if member.name}

    async def attempt(self, operation: Operation, attempt: Attempt) -> Outcome:
        where = self._where(operation)
        if operation.f is Function.READ:
            bounded = operation.bounded
            message = RANGE.request(key=where, serializable=bounded)
            found = await self._ask(attempt, RANGE, message, needs_leader=not bounded)
            return self._ok(found.header, value=_value(found.kvs))
        if operation.f is Function.WRITE and not operation.filler:
            message = PUT.request(key=where, value=_stored(operation))
            return self._ok((await self._ask(attempt, PUT, message)).header)
        done = await self._together((operation,), attempt)
        applied = done.applied if operation.f is Function.CAS else None
        return msgspec.structs.replace(done, applied=applied, results=None)

    async def transaction(self, transaction: TransactionOperation, attempt: Attempt) -> Outcome:
        return await self._together(transaction.steps, attempt)

    async def _together(self, steps: Sequence[Operation], attempt: Attempt) -> Outcome:
        """Carries steps out in one transaction; an append writes the list that was read before."""
        lists: dict[str, Sequence[Any]] = {}
        for step in steps:
            if step.f is Function.APPEND:
                attempt.writes = False
                message = RANGE.request(key=self._where(step))
                lists[step.key] = (await self._ask(attempt, RANGE, message)).kvs
        compared = [step for step in steps if step.f in (Function.CAS, Function.APPEND)]
        while True:
            attempt.writes = True
            message = TXN.request(
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
            done = await self._ask(attempt, TXN, message)
            if done.succeeded:
                results = [_value(one.response_range.kvs) for one in done.responses[: len(steps)]]
                return self._ok(done.header, applied=True, results=results)
            attempt.writes = False
            for step, one in zip(compared, done.responses, strict=False):
                found = one.response_range.kvs
                if step.f is Function.APPEND:
                    lists[step.key] = found
                elif _value(found) != step.expected:
                    return self._ok(done.header, value=_value(found), applied=False)
            if not attempt.limits.retry:
                message = "another append came between"
                raise EtcdError(code=_ABORTED, message=message, certain=True)

    def _where(self, step: Operation) -> bytes:
        return key_of(self._zone, step.key)

    def _compare(self, step: Operation, lists: Mapping[str, Sequence[Any]]) -> Any:  # noqa: ANN401
        where = self._where(step)
        if step.f is Function.APPEND:
            kvs = lists[step.key]
            return has_mod_revision(where, kvs[0].mod_revision if kvs else 0)
        if step.expected is None:
            return has_mod_revision(where, 0)
        assert not isinstance(step.expected, str), "the load expects integers"
        return has_value(where, stored(step.expected))

    def _request(self, step: Operation, lists: Mapping[str, Sequence[Any]]) -> Any:  # noqa: ANN401
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
        header: Any,  # noqa: ANN401 - protobuf's classes have no types
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

    async def _ask(
        self,
        attempt: Attempt,
        method: Method,
        message: Any,  # noqa: ANN401
        *,
        needs_leader: bool = True,
    ) -> Any:  # noqa: ANN401
        assert self._wire is not None, "opened before the first operation"
        ask = partial(self._wire.ask, attempt.address, method, message, needs_leader=needs_leader)
        return await attempt.send(lambda timeout_s: ask(timeout_s=timeout_s))


def _value(kvs: Sequence[Any]) -> Value:
    return read(kvs[0].value) if kvs else None


def _stored(step: Operation) -> bytes:
    assert isinstance(step.value, int), "the load writes integers"
    return stored(step.value)


def connect(context: ClientContext) -> EtcdTarget:
    """Builds the client of one prefix; its seeds are client ports of members."""
    return EtcdTarget(context.zone, context.seeds, rng=context.rng, secret=context.secret)

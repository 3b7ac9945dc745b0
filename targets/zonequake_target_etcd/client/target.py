"""etcd as a target: an independent system, judged by the same checks.

One etcd is one Raft group and so one partition; the zone is a prefix of its keys. How values are
kept, and why the revision is the order that etcd claims, is in `etcd_records`; docs/etcd.md says
what follows for a run.

etcd knows no request ids, so nothing that may have happened is repeated:

    read            again at the next endpoint, whatever went wrong
    write, cas      again only if the attempt certainly never happened
    append          read the list, then write it if it is still at that revision. A compare that
                    failed certainly wrote nothing: again with what it found. All of it is one
                    operation; what goes wrong before its first write is certain
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from zonequake_load.client.attempts import LAST_ATTEMPT_NS, PAUSE_MAX_S, PAUSE_MIN_S
from zonequake_load.client.connection import addresses_of
from zonequake_load.errors import AttemptError, NotSent, TargetError
from zonequake_load.operation import (
    AttemptOutcomes,
    Function,
    Limits,
    OnceId,
    Operation,
    Outcome,
    Type,
)
from zonequake_load.targets.context import ClientContext
from zonequake_load.targets.keys import key_for_partition
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
from zonequake_target_etcd.client.endpoints import Endpoints
from zonequake_target_etcd.client.errors import EtcdError
from zonequake_target_etcd.client.records import (
    LINEAGE,
    PARTITION,
    TERM,
    elements,
    filler_of,
    key_of,
    read,
    stored,
)
from zonequake_target_etcd.client.wire import EtcdWire

OPEN_TIMEOUT_S = 5.0

WATCH_S = 1.0
"""Between two rounds of looking up the seeds when all is well: pods come back elsewhere."""

WATCH_SUSPECTS_S = 0.1
"""Between two rounds while an endpoint is suspect; it is asked for a linearizable read then, as
etcd's own health check is one."""

CHECK_TIMEOUT_S = 0.5

_UNKNOWN, _DEADLINE_EXCEEDED, _ABORTED, _UNAVAILABLE = 2, 4, 10, 14
_OF_ITS_ENDPOINT = frozenset({_UNKNOWN, _DEADLINE_EXCEEDED, _UNAVAILABLE})
"""gRPC's codes of errors that another endpoint may not have; the rest say something of the request
or of the whole cluster."""


class EtcdTarget:
    """The keys of one prefix in an etcd.

    `seeds` are `host:port` of client ports; each address of a host is an endpoint. Bounded reads
    are serializable, at any endpoint in turn: its own state, however old. `now_ns` is the monotonic
    clock that `Limits.deadline_ns` belongs to.
    """

    def __init__(
        self,
        zone: str,
        seeds: list[str],
        *,
        rng: random.Random,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._zone = zone
        self._seeds = seeds
        self._rng = rng
        self._now_ns = now_ns
        self._endpoints = Endpoints(rng.randrange(64))
        self._addresses: dict[str, list[str]] = {}
        self._names: dict[int, str] = {}
        self._problem = "no endpoint has answered yet"
        self._wire: EtcdWire | None = None
        self._watch: asyncio.Task[None] | None = None
        self._checks: dict[str, asyncio.Task[None]] = {}
        self._suspected = asyncio.Event()

    @property
    def partitions(self) -> int:
        return 1

    async def open(self) -> None:
        """Find the members. Raises TargetError if none answers."""
        self._wire = EtcdWire()
        try:
            async with asyncio.timeout(OPEN_TIMEOUT_S):
                while not self._names:
                    await self._look_up()
                    for address in self._endpoints.all:
                        await self._ask_names(address)
                    await asyncio.sleep(0 if self._names else WATCH_SUSPECTS_S)
        except TimeoutError:
            await self.close()
            raise TargetError(
                f"found no member of an etcd within {OPEN_TIMEOUT_S:.0f} s at "
                f"{', '.join(self._seeds)}: {self._problem}; check that it runs and that these are "
                "its client ports"
            ) from None
        self._watch = asyncio.create_task(self._watch_for_ever())

    async def close(self) -> None:
        tasks = [*self._checks.values(), *([self._watch] if self._watch else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._wire is not None:
            await self._wire.close()

    # --- operations ------------------------------------------------------------------------------

    async def execute(
        self, operation: Operation, limits: Limits, once: OnceId | None = None
    ) -> Outcome:
        """Attempt `operation` until it is answered, may have happened (if it changes anything) or
        its time is over.

        Endpoints are tried at once one after another, then there is a pause. Bounded reads also
        try those that can't serve others.
        """
        changes, anyone = operation.f is not Function.READ, operation.bounded
        attempts, tried, most_s = AttemptOutcomes(), set[str](), PAUSE_MIN_S
        while True:
            left_ns = limits.deadline_ns - self._now_ns()
            if left_ns <= (LAST_ATTEMPT_NS if attempts.sent else 0):
                return attempts.conclude()
            address = self._endpoints.choose(tried, anyone=anyone)
            if address is None:
                attempts.refused(self._problem)
                if not limits.retry:
                    return attempts.conclude()
            if address is None or address in tried:
                pause_s = PAUSE_MIN_S + self._rng.random() * (most_s - PAUSE_MIN_S)
                most_s = min(PAUSE_MAX_S, most_s * 2)
                tried.clear()
                await asyncio.sleep(min(pause_s, left_ns / 1e9))
                continue
            tried.add(address)
            assert self._wire is not None, "opened before the first operation"
            attempt = _Attempt(
                self._wire, address, limits, now_ns=self._now_ns, needs_leader=not anyone
            )
            try:
                outcome = await self._ask(operation, EtcdApi(attempt.post), attempt)
            except (AttemptError, EtcdError) as error:
                attempts.sent += attempt.sent
                why = f"{address}: {error}" if isinstance(error, EtcdError) else str(error)
                if _certain(error) or (changes and not attempt.writes):
                    attempts.refused(why)
                else:
                    attempts.unsure(why)
                if _blames_endpoint(error):
                    self._endpoints.failed(address)
                    self._suspected.set()
            else:
                self._endpoints.answered(address)
                return msgspec.structs.replace(outcome, attempts=attempts.sent + attempt.sent)
            if not limits.retry or (changes and not attempts.never_happened):
                return attempts.conclude()

    def partition_of(self, key: str) -> int:
        return PARTITION

    def key_for_partition(self, stem: str, partition: int) -> str:
        return key_for_partition(stem, partition, self.partitions)

    # --- attempts --------------------------------------------------------------------------------

    async def _ask(self, operation: Operation, api: EtcdApi, attempt: _Attempt) -> Outcome:
        """Carry `operation` out in one attempt."""
        where = key_of(self._zone, operation.key)
        if operation.f is Function.READ:
            found = await api.range(where, serializable=operation.bounded)
            return self._ok(found.header, value=_value(found.kvs))
        value, expected = operation.value, operation.expected
        assert isinstance(value, int), "the load writes integers"
        assert not isinstance(expected, str), "and expects them"
        if operation.f is Function.APPEND:
            return await self._append(where, value, api, attempt)
        attempt.writes = True
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

    async def _append(self, where: bytes, value: int, api: EtcdApi, attempt: _Attempt) -> Outcome:
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
        """Returns the answer of the member that `header` names; `attempts` is yet to be said."""
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

    # --- endpoints -------------------------------------------------------------------------------

    async def _watch_for_ever(self) -> None:
        """Keep addresses and names, and find out which suspects serve again."""
        looked_up_ns = self._now_ns()
        while True:
            try:
                async with asyncio.timeout(WATCH_S):
                    await self._suspected.wait()
                await asyncio.sleep(WATCH_SUSPECTS_S)
            except TimeoutError:
                pass
            suspects = self._endpoints.suspects
            if not suspects:
                self._suspected.clear()
            if self._now_ns() - looked_up_ns >= WATCH_S * 1e9:
                await self._look_up()
                looked_up_ns = self._now_ns()
            for address in suspects:
                if address not in self._checks:
                    # Each in a task of its own: a silent one must not keep the others waiting.
                    self._checks[address] = asyncio.create_task(self._check(address))

    async def _look_up(self) -> None:
        """Looks up all seeds; one that can't be looked up now keeps its last addresses."""
        for seed in self._seeds:
            try:
                self._addresses[seed] = await addresses_of(seed)
            except (OSError, ValueError) as error:
                self._problem = f"cannot resolve {seed}: {error or type(error).__name__}"
        self._endpoints.replace(one for some in self._addresses.values() for one in some)

    async def _check(self, address: str) -> None:
        """Returns whether a suspect serves linearizable reads again."""
        try:
            await self._api(address).range(key_of(self._zone, ""))
            self._endpoints.answered(address)
            await self._ask_names(address)
        except (AttemptError, EtcdError) as error:
            self._problem = f"{address}: {error}"
        finally:
            del self._checks[address]

    async def _ask_names(self, address: str) -> None:
        try:
            members = await self._api(address).members()
        except (AttemptError, EtcdError) as error:
            self._problem = f"{address}: {error}"
            return
        self._names |= {member.id: member.name for member in members if member.name}

    def _api(self, address: str) -> EtcdApi:
        limits = Limits(
            deadline_ns=self._now_ns() + int(CHECK_TIMEOUT_S * 1e9),
            attempt_ns=int(CHECK_TIMEOUT_S * 1e9),
            retry=False,
        )
        assert self._wire is not None, "opened before"
        attempt = _Attempt(self._wire, address, limits, now_ns=self._now_ns, needs_leader=True)
        return EtcdApi(attempt.post)


class _Attempt:
    """The requests of one attempt at one endpoint.

    `sent` counts those that left. `writes`: what is asked next, or was last, may change a key.
    """

    def __init__(
        self,
        wire: EtcdWire,
        address: str,
        limits: Limits,
        *,
        now_ns: Callable[[], int],
        needs_leader: bool,
    ) -> None:
        self.sent = 0
        self.writes = False
        self.limits = limits
        self._wire = wire
        self._address = address
        self._now_ns = now_ns
        self._needs_leader = needs_leader

    async def post(self, path: str, body: Mapping[str, object]) -> Mapping[str, Any]:
        """See `EtcdWire.post`; a deadline that has come lets nothing leave."""
        left_ns = self.limits.deadline_ns - self._now_ns()
        if left_ns <= (LAST_ATTEMPT_NS if self.sent else 0):
            raise _TooLate("the deadline came before another request was sent")
        self.sent += 1
        try:
            return await self._wire.post(
                self._address,
                path,
                body,
                timeout_s=min(left_ns, self.limits.attempt_ns) / 1e9,
                needs_leader=self._needs_leader,
            )
        except NotSent:
            self.sent -= 1
            raise


class _TooLate(NotSent):
    """No time was left."""


def _certain(error: AttemptError | EtcdError) -> bool:
    """Returns whether the last request certainly has no effect."""
    return error.certain if isinstance(error, EtcdError) else isinstance(error, NotSent)


def _blames_endpoint(error: AttemptError | EtcdError) -> bool:
    if isinstance(error, EtcdError):
        return error.code in _OF_ITS_ENDPOINT
    return not isinstance(error, _TooLate)


def _value(kvs: list[KeyValue]) -> Value:
    return read(kvs[0].value) if kvs else None


def connect(context: ClientContext) -> EtcdTarget:
    """Builds the client of one prefix; its seeds are client ports of members."""
    return EtcdTarget(context.zone, list(context.seeds), rng=context.rng)

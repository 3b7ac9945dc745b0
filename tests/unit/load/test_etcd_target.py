"""What the load says of operations on etcd, and what it repeats.

`fail` must mean that nothing happened; nothing that may have happened is sent again.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from tests.unit.load.reference_etcd import Endpoint, ReferenceEtcd, Spoilt
from zonequake_load.errors import NotSent, TargetError
from zonequake_load.operation import (
    Function,
    Limits,
    Operation,
    Outcome,
    TransactionOperation,
    Type,
)
from zonequake_target_etcd.client.protocol.messages import PUT
from zonequake_target_etcd.client.protocol.records import key_of
from zonequake_target_etcd.client.target import EtcdTarget
from zonequake_target_etcd.client.wire import EtcdWire, _Link

NO_LEADER = Spoilt(error=(14, "etcdserver: no leader"))
TIMED_OUT = Spoilt(applied=True, error=(14, "etcdserver: request timed out"))
LOST = Spoilt(applied=True)
SILENT = Spoilt(applied=True, silent=True)
PATIENCE_S = (0.3, 3.0, 30.0)
"""Deadlines of an operation that must fail: on a busy machine the first may be over at once."""


def read(key: str = "k", *, bounded: bool = False) -> Operation:
    return Operation(f=Function.READ, key=key, bounded=bounded)


def write(value: int, *, filler: bytes = b"") -> Operation:
    return Operation(f=Function.WRITE, key="k", value=value, filler=filler)


def cas(expected: int | None, value: int) -> Operation:
    return Operation(f=Function.CAS, key="k", value=value, expected=expected)


def append(value: int, *, key: str = "l") -> Operation:
    return Operation(f=Function.APPEND, key=key, value=value)


def limits(*, total_s: float = 30.0, attempt_s: float = 10.0, retry: bool = True) -> Limits:
    """So long that a late answer never makes an attempt one of unknown outcome."""
    return Limits(
        deadline_ns=time.monotonic_ns() + int(total_s * 1e9),
        attempt_ns=int(attempt_s * 1e9),
        retry=retry,
    )


@pytest.fixture(autouse=True)
def _patiently(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or nothing is sent because this process had no turn."""
    monkeypatch.setattr("zonequake_target_etcd.client.wire.CONNECT_TIMEOUT_S", 30.0)
    monkeypatch.setattr("zonequake_load.targets.member_client.OPEN_TIMEOUT_S", 60.0)


@asynccontextmanager
async def timed(
    etcd: ReferenceEtcd, is_over: Callable[[], bool]
) -> AsyncIterator[tuple[EtcdTarget, int]]:
    """A target whose clock stands still until something has happened, and what it says then."""
    began_ns, over_ns = 10**9, 1_000 * 10**9
    opened = EtcdTarget(
        "z", etcd.seeds, rng=random.Random(1), now_ns=lambda: over_ns if is_over() else began_ns
    )
    await opened.open()
    try:
        yield opened, over_ns
    finally:
        await opened.close()


@pytest.fixture
async def etcd() -> AsyncIterator[ReferenceEtcd]:
    reference = ReferenceEtcd(endpoints=1)
    await reference.start()
    yield reference
    await reference.stop()


@pytest.fixture
async def two() -> AsyncIterator[ReferenceEtcd]:
    reference = ReferenceEtcd(endpoints=2)
    await reference.start()
    yield reference
    await reference.stop()


@pytest.fixture
async def target(etcd: ReferenceEtcd) -> AsyncIterator[EtcdTarget]:
    opened = EtcdTarget("z", etcd.seeds, rng=random.Random(1))
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
async def of_two(two: ReferenceEtcd) -> AsyncIterator[EtcdTarget]:
    opened = EtcdTarget("z", two.seeds, rng=random.Random(1))
    await opened.open()
    yield opened
    await opened.close()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 - what it waits for has no event
            await asyncio.sleep(0.002)


def is_connected(target: EtcdTarget, endpoint: Endpoint) -> bool:
    """The target takes its connection to this endpoint for open."""
    assert target._wire is not None
    link = target._wire._links.get(endpoint.address)
    return link is not None and link.is_ready


def place(outcome: Outcome) -> tuple[int | None, int | None, int | None]:
    return outcome.lineage, outcome.term, outcome.index


async def test_every_answer_stands_at_its_revision(etcd: ReferenceEtcd, target: EtcdTarget) -> None:
    absent = await target.execute(read(), limits())
    written = await target.execute(write(7), limits())
    refused = await target.execute(cas(8, 9), limits())
    applied = await target.execute(cas(7, 9), limits())
    seen = await target.execute(read(), limits())
    outcomes = (absent, written, refused, applied, seen)
    assert [one.type for one in outcomes] == [Type.OK] * 5
    assert [place(one) for one in outcomes] == [
        (0, 1, 1), (0, 1, 2), (0, 1, 2), (0, 1, 3), (0, 1, 3)
    ]  # fmt: skip
    assert (absent.value, seen.value, seen.node) == (None, 9, "m0")
    assert (refused.applied, refused.value, applied.applied) == (False, 7, True)


async def test_a_cas_of_an_absent_key_creates_it_once(target: EtcdTarget) -> None:
    first = await target.execute(cas(None, 1), limits())
    second = await target.execute(cas(None, 2), limits())
    assert (first.applied, second.applied, second.value) == (True, False, 1)


async def test_a_filler_does_not_stand_in_the_way_of_a_cas(
    etcd: ReferenceEtcd, target: EtcdTarget
) -> None:
    written = await target.execute(write(1, filler=b"x" * 100), limits())
    assert (await target.execute(cas(1, 2), limits())).applied
    assert etcd.value("z/f/k") == "x" * 100
    assert place(written) == (0, 1, 2), "both are of one revision"


@pytest.mark.parametrize("spoilt", [TIMED_OUT, LOST, SILENT, Spoilt(silent=True)])
async def test_a_write_that_may_have_happened_is_sent_once_and_is_info(
    etcd: ReferenceEtcd, target: EtcdTarget, spoilt: Spoilt
) -> None:
    (endpoint,) = etcd.endpoints
    endpoint.spoilt += [("put", spoilt), ("txn", spoilt)]
    for operation, path in ((write(1), "put"), (cas(None, 2), "txn")):
        await target.execute(read(), limits())  # what is sent now goes over an open connection
        outcome = await target.execute(operation, limits(attempt_s=0.5 if spoilt.silent else 10.0))
        assert outcome.type is Type.INFO
        await until(lambda: bool(endpoint.asked(path)))  # noqa: B023  it is over in this round
    assert (len(endpoint.asked("put")), len(endpoint.asked("txn"))) == (1, 1)


async def test_an_answer_that_is_none_of_etcds_leaves_the_write_open(
    etcd: ReferenceEtcd, target: EtcdTarget
) -> None:
    etcd.endpoints[0].spoilt.append(("put", Spoilt(raw=b"<html>")))
    outcome = await target.execute(write(1), limits())
    assert (outcome.type, outcome.attempts) == (Type.INFO, 1)
    assert outcome.error is not None
    assert "isn't etcd's" in outcome.error


async def test_a_member_that_went_silent_is_asked_over_a_new_connection(
    etcd: ReferenceEtcd, target: EtcdTarget
) -> None:
    (endpoint,) = etcd.endpoints
    before = endpoint.connected
    endpoint.spoilt.append(("put", SILENT))
    outcome = await target.execute(write(1), limits(attempt_s=0.5))
    assert (outcome.type, outcome.error) == (
        Type.INFO, f"no answer from {endpoint.address} within 500 ms"
    )  # fmt: skip
    assert (await target.execute(read(), limits())).value == 1
    assert endpoint.connected == before + 1


@pytest.mark.parametrize("when", ["connecting", "connected"])
async def test_a_connection_that_another_request_gave_up_before_has_sent_nothing(
    etcd: ReferenceEtcd, target: EtcdTarget, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """gRPC raises an error of its own for a closed channel, which no operation may end in."""
    (endpoint,) = etcd.endpoints
    connect = _Link.connect

    async def given_up_meanwhile(link: _Link, timeout_s: float) -> None:
        if when == "connected":
            await connect(link, timeout_s)
        await link.close()
        if when == "connecting":
            await connect(link, timeout_s)

    wire = EtcdWire(None, target.host_of)
    monkeypatch.setattr(_Link, "connect", given_up_meanwhile)
    put = PUT.request(key=b"k", value=b"1")
    with pytest.raises(NotSent, match="was given up before it was used"):
        await wire.ask(endpoint.address, PUT, put, timeout_s=30, needs_leader=True)
    await wire.close()


async def test_a_full_database_leaves_it_open_whether_the_write_happened(
    etcd: ReferenceEtcd, target: EtcdTarget
) -> None:
    full = Spoilt(applied=True, error=(8, "etcdserver: mvcc: database space exceeded"))
    etcd.endpoints[0].spoilt.append(("put", full))
    outcome = await target.execute(write(1), limits())
    assert outcome.type is Type.INFO
    assert etcd.value("z/k/k") == "1", "etcd says this also of what it has applied"


async def test_a_write_that_certainly_did_not_happen_is_tried_again(
    etcd: ReferenceEtcd, target: EtcdTarget
) -> None:
    etcd.endpoints[0].spoilt += [("put", NO_LEADER), ("put", NO_LEADER)]
    outcome = await target.execute(write(1), limits())
    assert (outcome.type, outcome.attempts) == (Type.OK, 3)


async def test_a_write_whose_every_attempt_was_refused_has_failed(etcd: ReferenceEtcd) -> None:
    (endpoint,) = etcd.endpoints
    # The time is over when the third attempt has arrived: it is answered, and no other is sent.
    async with timed(etcd, lambda: len(endpoint.asked("put")) >= 3) as (target, over_ns):
        endpoint.always = NO_LEADER
        lasting = Limits(deadline_ns=over_ns, attempt_ns=30 * 10**9, retry=True)
        outcome = await target.execute(write(1), lasting)
    assert (outcome.type, outcome.attempts) == (Type.FAIL, 3)
    assert outcome.error is not None
    assert "no leader" in outcome.error


async def test_a_write_for_which_no_member_could_be_reached_has_failed_without_an_attempt(
    etcd: ReferenceEtcd, target: EtcdTarget
) -> None:
    await etcd.stop_one(etcd.endpoints[0])
    # What is sent on a connection that is just being closed may arrive.
    await until(lambda: not is_connected(target, etcd.endpoints[0]))
    # An attempt that the total time cuts off while it connects counts as sent.
    for total_s in PATIENCE_S:
        outcome = await target.execute(write(1), limits(total_s=total_s))
        if outcome.attempts == 0:
            break
    assert (outcome.type, outcome.attempts) == (Type.FAIL, 0)


async def test_a_read_is_repeated_whatever_became_of_it(
    etcd: ReferenceEtcd, target: EtcdTarget
) -> None:
    etcd.endpoints[0].spoilt += [("range", LOST), ("range", SILENT), ("range", TIMED_OUT)]
    outcome = await target.execute(read(), limits(attempt_s=0.2))
    assert outcome.type is Type.OK
    assert outcome.attempts >= 3, "the check whether the endpoint serves again takes one at most"


async def test_an_append_that_another_one_came_before_is_one_operation(
    etcd: ReferenceEtcd, target: EtcdTarget
) -> None:
    appends = [target.execute(append(value), limits()) for value in range(1, 9)]
    outcomes = await asyncio.gather(*appends)
    assert [one.type for one in outcomes] == [Type.OK] * 8
    assert len({one.index for one in outcomes}) == 8, "each has a revision of its own"
    assert max(one.attempts for one in outcomes) > 2, "some had to try again"
    whole = (await target.execute(read("l"), limits())).value
    by_revision = sorted(zip([one.index for one in outcomes], range(1, 9), strict=True))
    assert whole == [value for _, value in by_revision]


def together(*steps: Operation) -> TransactionOperation:
    return TransactionOperation(steps=steps)


async def test_steps_of_a_transaction_are_done_together(
    etcd: ReferenceEtcd, target: EtcdTarget
) -> None:
    await target.execute(write(5), limits())
    done = await target.execute(
        together(
            read(),
            Operation(f=Function.WRITE, key="other", value=6, filler=b"x"),
            append(7),
            cas(5, 8),
        ),
        limits(),
    )
    assert (done.type, done.applied, done.results) == (Type.OK, True, [5, None, None, None])
    values = [etcd.value(f"z/k/{key}") for key in ("k", "other", "l")]
    assert values == ["8", "6", "[7]"]
    assert etcd.value("z/f/other") == "x"
    assert len(etcd.endpoints[0].asked("txn")) == 1


async def test_nothing_of_a_transaction_is_done_whose_cas_finds_another_value(
    etcd: ReferenceEtcd, target: EtcdTarget
) -> None:
    await target.execute(write(5), limits())
    refused = await target.execute(together(append(7), cas(4, 8)), limits())
    assert (refused.type, refused.applied, refused.value) == (Type.OK, False, 5)
    assert etcd.value("z/k/l") is None
    assert etcd.value("z/k/k") == "5"


async def test_a_transaction_that_another_append_came_before_is_done_once(
    etcd: ReferenceEtcd, target: EtcdTarget
) -> None:
    asked = [
        together(append(value), Operation(f=Function.WRITE, key=f"k{value}", value=value))
        for value in range(8)
    ]
    done = await asyncio.gather(*(target.execute(one, limits()) for one in asked))
    assert {one.type for one in done} == {Type.OK}
    assert sorted(json.loads(etcd.value("z/k/l") or "")) == list(range(8))
    assert [etcd.value(f"z/k/k{value}") for value in range(8)] == [str(v) for v in range(8)]


async def test_a_transaction_whose_write_was_not_answered_is_info_and_not_repeated(
    etcd: ReferenceEtcd, target: EtcdTarget
) -> None:
    (endpoint,) = etcd.endpoints
    endpoint.spoilt.append(("txn", Spoilt(applied=True)))
    outcome = await target.execute(together(write(1), append(2)), limits())
    assert (outcome.type, len(endpoint.asked("txn"))) == (Type.INFO, 1)


def reads_of(endpoint: Endpoint, key: str) -> int:
    """So many reads of this key arrived; the target itself reads another one."""
    return [message.key for message in endpoint.asked("range")].count(key_of("z", key))


async def test_an_append_that_never_came_to_write_has_failed(etcd: ReferenceEtcd) -> None:
    (endpoint,) = etcd.endpoints
    async with timed(etcd, lambda: reads_of(endpoint, "l") >= 2) as (target, over_ns):
        endpoint.always = SILENT
        lasting = Limits(deadline_ns=over_ns, attempt_ns=2 * 10**8, retry=True)
        outcome = await target.execute(append(1), lasting)
    assert outcome.type is Type.FAIL
    assert outcome.attempts >= 2
    assert not endpoint.asked("txn")


async def test_an_append_whose_write_was_not_answered_is_info_and_not_repeated(
    etcd: ReferenceEtcd, target: EtcdTarget
) -> None:
    etcd.endpoints[0].spoilt += [("range", LOST), ("txn", LOST)]
    outcome = await target.execute(append(1), limits())
    assert (outcome.type, outcome.attempts) == (Type.INFO, 3)
    assert len(etcd.endpoints[0].asked("txn")) == 1


async def test_an_append_to_a_register_fails(target: EtcdTarget) -> None:
    await target.execute(write(1), limits())
    outcome = await target.execute(append(2, key="k"), limits(total_s=0.2))
    assert outcome.type is Type.FAIL


async def test_a_probe_is_sent_once(etcd: ReferenceEtcd, target: EtcdTarget) -> None:
    etcd.endpoints[0].spoilt.append(("put", NO_LEADER))
    outcome = await target.execute(write(1), limits(retry=False))
    assert (outcome.type, outcome.attempts) == (Type.FAIL, 1)


async def test_requests_go_to_all_endpoints_in_turn(two: ReferenceEtcd, of_two: EtcdTarget) -> None:
    outcomes = [await of_two.execute(read(), limits()) for _ in range(6)]
    assert [outcome.node for outcome in outcomes].count("m0") == 3


async def test_a_refusal_goes_to_the_next_endpoint_at_once(
    two: ReferenceEtcd, of_two: EtcdTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    two.endpoints[0].always = NO_LEADER
    # A pause would outlast the operation.
    monkeypatch.setattr("zonequake_load.targets.member_client.PAUSE_MIN_S", 60.0)
    outcomes = [await of_two.execute(write(n), limits()) for n in (1, 2)]
    assert [outcome.type for outcome in outcomes] == [Type.OK, Type.OK]


async def test_an_endpoint_that_failed_gets_no_probe_until_it_serves_again(
    two: ReferenceEtcd, of_two: EtcdTarget
) -> None:
    sick = two.endpoints[0]
    sick.always = NO_LEADER
    for _ in range(2):
        await of_two.execute(read(), limits())
    probes = [await of_two.execute(read(), limits(retry=False)) for _ in range(6)]
    assert {probe.node for probe in probes} == {"m1"}
    sick.always = None
    async with asyncio.timeout(60):
        while (await of_two.execute(read(), limits(retry=False))).node != "m0":
            pass


async def test_bounded_reads_are_serializable_and_served_without_a_leader(
    etcd: ReferenceEtcd, target: EtcdTarget
) -> None:
    etcd.endpoints[0].seen.clear()  # what the opening asked
    for bounded in (False, True):
        await target.execute(read(bounded=bounded), limits())
    asked = [one for one in etcd.endpoints[0].seen if one[0] == "range"]
    assert [(message.serializable, leader) for _, message, leader in asked] == [
        (False, True), (True, False)
    ]  # fmt: skip


async def test_bounded_reads_also_ask_who_is_cut_off(
    two: ReferenceEtcd, of_two: EtcdTarget
) -> None:
    two.endpoints[0].spoilt += [("put", NO_LEADER)] * 3
    for value in (1, 2):
        await of_two.execute(write(value), limits())
    reads = [await of_two.execute(read(bounded=True), limits()) for _ in range(4)]
    assert {one.node for one in reads} == {"m0", "m1"}


async def test_what_does_not_run_is_said_at_the_opening(
    etcd: ReferenceEtcd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zonequake_load.targets.member_client.OPEN_TIMEOUT_S", 3.0)
    await etcd.stop_one(etcd.endpoints[0])
    target = EtcdTarget("z", etcd.seeds, rng=random.Random(1))
    with pytest.raises(TargetError, match="cannot connect"):
        await target.open()

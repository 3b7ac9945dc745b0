"""A load pod carries single operations out while it is quiet, in no history."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from unittest.mock import Mock

import msgspec
import pytest
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client import CollectorRegistry

from tests.unit.load.made_up_load import load_of
from tests.unit.load.made_up_target import MadeUpTarget
from zonequake_load.errors import TargetError
from zonequake_load.operation import (
    Function,
    Limits,
    OnceId,
    Operation,
    Outcome,
    TransactionOperation,
    Type,
)
from zonequake_load.pod.control import OperationRequest, Phase
from zonequake_load.pod.load import LoadPod
from zonequake_load.pod.server import make_app

WRITE = Operation(f=Function.WRITE, key="k", value=7)


class Target(MadeUpTarget):
    """Answers, once it is open."""

    def __init__(self) -> None:
        self.opened = 0
        self.refusals = 0
        self.asked: list[tuple[Operation | TransactionOperation, OnceId | None, bool]] = []

    async def open(self) -> None:
        if self.refusals:
            self.refusals -= 1
            raise TargetError("no member answers")
        self.opened += 1

    async def execute(
        self,
        operation: Operation | TransactionOperation,
        limits: Limits,
        once: OnceId | None = None,
    ) -> Outcome:
        self.asked.append((operation, once, limits.retry))
        return Outcome(type=Type.OK, attempts=1, index=9)


@pytest.fixture
def target() -> Target:
    return Target()


@pytest.fixture
def load(target: Target, tmp_path: Path) -> LoadPod:
    return load_of(target, tmp_path)


@pytest.fixture
async def client(load: LoadPod, tmp_path: Path) -> AsyncIterator[TestClient]:  # type: ignore[type-arg]
    async with TestClient(TestServer(make_app(load, tmp_path, CollectorRegistry()))) as made:
        yield made
    load.recorder.close()


def read_all(folder: Path) -> list[bytes]:
    return [file.read_bytes() for file in folder.glob("*.jsonl")]


async def ask(client: TestClient, request: object) -> tuple[int, bytes]:  # type: ignore[type-arg]
    async with client.post("/operation", data=msgspec.json.encode(request)) as response:
        return response.status, await response.read()


async def test_an_operation_is_answered_with_its_outcome_and_stands_in_no_history(
    client: TestClient,  # type: ignore[type-arg]
    target: Target,
    tmp_path: Path,
) -> None:
    once = OnceId("c", 1)
    for retry in (True, False):
        asked = OperationRequest(steps=(WRITE,), once=once, retry=retry)
        status, answer = await ask(client, asked)
        assert status == 200
        assert msgspec.json.decode(answer, type=Outcome).index == 9
    assert target.asked == [(WRITE, once, True), (WRITE, once, False)]
    assert target.opened == 1
    assert b"".join(read_all(tmp_path)) == b""


async def test_several_steps_are_a_transaction(
    client: TestClient,  # type: ignore[type-arg]
    target: Target,
) -> None:
    once = OnceId("c", 1)
    assert (await ask(client, OperationRequest(steps=(WRITE, WRITE), once=once)))[0] == 200
    assert target.asked == [(TransactionOperation(steps=(WRITE, WRITE)), once, True)]
    assert (await ask(client, {"steps": []}))[0] == 400


async def test_a_target_that_does_not_open_is_said_and_tried_again(
    client: TestClient,  # type: ignore[type-arg]
    target: Target,
) -> None:
    target.refusals = 1
    status, answer = await ask(client, OperationRequest(steps=(WRITE,)))
    assert (status, answer) == (503, b"no member answers\n")
    assert (await ask(client, OperationRequest(steps=(WRITE,))))[0] == 200


async def test_a_target_that_refuses_at_once_is_not_asked_in_a_spin(
    load: LoadPod, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a pause nothing else had a turn: neither this test nor a probe of the kubelet."""
    monkeypatch.setattr("zonequake_load.pod.load.REOPEN_PAUSE_S", 0.2)
    target.refusals = 1_000
    load.enter(Phase.PRELOAD)
    running = asyncio.create_task(load.run())
    while target.refusals == 1_000:  # noqa: ASYNC110 - each of its turns is counted
        await asyncio.sleep(0)
    before = target.refusals
    for _ in range(100):
        await asyncio.sleep(0)
    assert target.refusals >= before - 1
    assert load.status().problem == "no member answers"
    target.refusals = 0
    while not load.status().complete:  # noqa: ASYNC110 - a status has no event
        await asyncio.sleep(0.01)
    load.end()
    await running
    assert target.opened == 1


async def test_a_phase_that_could_not_be_kept_is_not_taken_and_may_be_asked_for_again(
    load: LoadPod, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the second request would be answered well, and the phase never begin."""
    with monkeypatch.context() as disk:
        disk.setattr("zonequake_load.pod.load.replace_file", Mock(side_effect=OSError("full")))
        with pytest.raises(OSError, match="full"):
            load.enter(Phase.PRELOAD)
    assert load.status().phase is Phase.QUIET
    running = asyncio.create_task(load.run())
    load.enter(Phase.PRELOAD)
    while not load.status().complete:  # noqa: ASYNC110 - a status has no event
        await asyncio.sleep(0.01)
    load.end()
    await running


async def test_beside_the_load_and_with_unknown_fields_it_is_refused(
    client: TestClient,  # type: ignore[type-arg]
    load: LoadPod,
    target: Target,
) -> None:
    assert (await ask(client, {"steps": [{"f": "write", "key": "k"}], "x": 1}))[0] == 400
    load.enter(Phase.LOAD)
    status, answer = await ask(client, OperationRequest(steps=(WRITE,)))
    assert status == 409
    assert b"expected phase quiet" in answer
    assert target.asked == []

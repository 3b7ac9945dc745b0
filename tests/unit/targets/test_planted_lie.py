"""A client that lies on purpose: each outcome that it tells, and that the suite finds it while it
runs against a server.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from tests.unit.load.made_up_load import load_of
from tests.unit.load.made_up_target import MadeUpTarget
from tests.unit.targets.test_toy import Running, opened
from zonequake_chaos.conformance.client import AskingClient
from zonequake_chaos.conformance.judgement import StepResult
from zonequake_chaos.conformance.lost_answers import AnswerLoss
from zonequake_load.operation import (
    Function,
    Limits,
    OnceId,
    Operation,
    Outcome,
    TransactionOperation,
    Type,
)
from zonequake_load.pod.control import OperationRequest
from zonequake_load.pod.load import LoadPod
from zonequake_load.targets.planted_lie import LyingTarget
from zonequake_load.targets.protocol import Target


@pytest.fixture(autouse=True)
def _patiently(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the toy isn't found because its process had no turn."""
    monkeypatch.setattr("zonequake_load.targets.http_client.CONNECT_TIMEOUT_S", 30.0)
    monkeypatch.setattr("zonequake_load.targets.member_client.OPEN_TIMEOUT_S", 60.0)


LIMITS = Limits(deadline_ns=1, attempt_ns=1, retry=True)
WRITE = Operation(f=Function.WRITE, key="k", value=7)
ANSWERED = Outcome(type=Type.OK, attempts=2, value=7, node="m", term=1, index=9)
REFUSED = Outcome(type=Type.OK, attempts=1, value=3, applied=False, node="m", index=9)
FAILED = Outcome(type=Type.FAIL, attempts=0, error="refused")
TIMED_OUT = Outcome(type=Type.INFO, attempts=1, error="no answer within 400 ms")
CUT = Outcome(type=Type.INFO, attempts=2, error="connection reset; then not sent")


class Honest(MadeUpTarget):
    """Answers with one outcome."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.asked: list[object] = []

    async def open(self) -> None:
        self.asked.append("open")

    async def close(self) -> None:
        self.asked.append("close")

    async def execute(
        self,
        operation: Operation | TransactionOperation,
        limits: Limits,
        once: OnceId | None = None,
    ) -> Outcome:
        self.asked.append((operation, limits, once))
        return self.outcome


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (ANSWERED, ANSWERED),
        (REFUSED, REFUSED),
        (FAILED, FAILED),
        (TIMED_OUT, Outcome(type=Type.FAIL, attempts=1, error="no answer within 400 ms")),
        (CUT, Outcome(type=Type.FAIL, attempts=2, error="connection reset; then not sent")),
    ],
)
@pytest.mark.parametrize("operation", [WRITE, TransactionOperation(steps=(WRITE, WRITE))])
async def test_only_what_is_unknown_is_told_as_a_certain_failure(
    operation: Operation | TransactionOperation, outcome: Outcome, told: Outcome
) -> None:
    honest, once = Honest(outcome), OnceId("c", 1)
    lying: Target = LyingTarget(honest)
    assert await lying.execute(operation, LIMITS, once) == told
    assert honest.asked == [(operation, LIMITS, once)]


async def test_all_else_is_the_honest_client_s() -> None:
    honest = Honest(ANSWERED)
    lying: Target = LyingTarget(honest)
    await lying.open()
    await lying.close()
    assert honest.asked == ["open", "close"]
    assert (lying.partitions, lying.partition_of("k")) == (1, 0)
    assert lying.key_for_partition("stem", 0) == "stem"


async def test_a_load_pod_lies_only_of_an_operation_that_asks_for_it(tmp_path: Path) -> None:
    load = load_of(Honest(TIMED_OUT), tmp_path)
    told = [
        (await load.ask(OperationRequest(steps=(WRITE,), planted_lie=lie))).type
        for lie in (False, True, False)
    ]
    load.recorder.close()
    assert told == [Type.INFO, Type.FAIL, Type.INFO]


class OpenedOnce(MadeUpTarget):
    """A client that is open already."""

    def __init__(self, client: Target) -> None:
        self.execute = client.execute


class AskedLoad:
    """Asks a load pod of this process as the harness asks one of the cluster."""

    def __init__(self, load: LoadPod) -> None:
        self.execute = load.ask


async def judged(folder: Path, *, lies: bool) -> StepResult:
    """The step on a toy that runs: while answers are lost its process is stopped, and what it was
    asked for is done afterwards.
    """
    running = Running(folder / "toy", "--sync")

    @asynccontextmanager
    async def stopped() -> AsyncIterator[None]:
        running.stop()
        try:
            yield
        finally:
            running.process.send_signal(signal.SIGCONT)

    async with opened(running) as client:
        load = load_of(OpenedOnce(LyingTarget(client) if lies else client), folder)
        loss = AnswerLoss(cut=stopped, transactions=False)
        result = await loss.judged(AskingClient(cast("Any", AskedLoad(load))))
        load.recorder.close()
    return result


def test_a_client_that_runs_and_lies_is_found_beside_the_honest_one(tmp_path: Path) -> None:
    result = asyncio.run(judged(tmp_path, lies=False))
    assert (result.problems, result.unknown) == ([], [])
    assert "a planted lie about" in result.note


def test_a_target_whose_own_client_lies_is_found(tmp_path: Path) -> None:
    result = asyncio.run(judged(tmp_path, lies=True))
    assert result.problems
    assert all("certainly failed, as the client says" in problem for problem in result.problems)

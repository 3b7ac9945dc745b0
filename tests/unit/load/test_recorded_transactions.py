"""Transactions of the load: how they are drawn, carried out, written down, and read again."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from tests.unit.analysis.judged_lines import judged, suspicious
from tests.unit.analysis.tasks_without_spark import without_spark
from tests.unit.load.list_store import ListStore
from zonequake_analysis.spark_pass.transactions import transaction_findings
from zonequake_analysis.storage.location import Location
from zonequake_load.operation import (
    Function,
    Limits,
    Operation,
    Outcome,
    TransactionOperation,
    Type,
)
from zonequake_load.pod.control import LoadPlan, Loop, Phase, TransactionWorkload
from zonequake_load.pod.execution import OperationExecutor
from zonequake_load.pod.history import HistoryClock, OperationRole, Recorder, machine_clock
from zonequake_load.pod.identity import Numbers
from zonequake_load.pod.pacing import StopSignal
from zonequake_load.pod.phases import Phases
from zonequake_load.pod.recovery import RecoveredHistory, read_past
from zonequake_load.pod.tally import OperationTally
from zonequake_load.pod.workload.shares import PodShare, TransactionShare, share_of
from zonequake_protocol.client import Value

CLOCK = HistoryClock(name="boot", monotonic_ns=lambda: 30, wall_ns=lambda: 40)
STEPS = (
    Operation(f=Function.APPEND, key="t0/1/0/0", value=7),
    Operation(f=Function.READ, key="t0/1/1/0"),
)


def executor(folder: Path, target: object, clock: HistoryClock = CLOCK) -> OperationExecutor:
    return OperationExecutor(
        target=target,  # type: ignore[arg-type]
        recorder=Recorder(folder, "pod-1", "z1", clock),
        tally=OperationTally(CollectorRegistry()),
        numbers=Numbers(0, 1),
    )


class Answers:
    """A target that gives one answer."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome

    async def execute(self, *_: object) -> Outcome:
        return self.outcome


async def recorded(folder: Path, outcome: Outcome) -> list[dict[str, object]]:
    """The lines of one transaction that comes to `outcome`."""
    execute = executor(folder, Answers(outcome))
    await execute.run(
        execute.new_process(),
        TransactionOperation(steps=STEPS),
        phase=Phase.LOAD,
        role=OperationRole.LOAD,
        partition=1,
        sched_ns=10,
        limits=Limits(deadline_ns=99, attempt_ns=9, retry=True),
    )
    execute.recorder.close()
    text = (folder / "pod-1-load.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def ok(results: list[Value] | None, *, applied: bool | None = None) -> Outcome:
    return Outcome(
        type=Type.OK, attempts=2, node="n0", lineage=0, term=7, index=9, results=results,
        applied=applied,
    )  # fmt: skip


async def test_a_transaction_is_one_invoke_and_one_completion_with_its_steps(
    tmp_path: Path,
) -> None:
    invoke, completion = await recorded(tmp_path, ok([None, [3, 4]]))
    append = {"f": "append", "key": "t0/1/0/0", "value": 7}
    read = {"f": "read", "key": "t0/1/1/0", "value": [3, 4]}
    process = completion["process"]
    assert completion == {
        "schema": 2, "type": "ok", "f": "transaction", "process": process, "op": f"{process}-1",
        "role": "load", "zone": "z1", "partition": 1, "key": None, "value": None,
        "expected": None, "applied": None, "found": None, "sched": 10, "inv": 30, "time": 30,
        "wall": 40, "clock": "boot", "node": "n0", "lineage": 0, "term": 7, "index": 9,
        "read": None, "attempts": 2, "error": None, "steps": [append, read],
    }  # fmt: skip
    assert invoke == completion | {
        "type": "invoke", "node": None, "lineage": None, "term": None, "index": None,
        "attempts": None, "steps": [append, read | {"value": None}],
    }  # fmt: skip


async def test_one_that_failed_read_nothing(tmp_path: Path) -> None:
    _, completion = await recorded(tmp_path, Outcome(type=Type.FAIL, attempts=1, error="away"))
    assert (completion["type"], completion["error"]) == ("fail", "away")
    assert [step["value"] for step in completion["steps"]] == [7, None]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("outcome", "found"),
    [
        (ok(None), "no results"),
        (ok([[3]]), "1 results"),
        (ok([None, None], applied=False), "a refusal"),
    ],
)
async def test_an_answer_that_lacks_what_a_step_read_is_unknown(
    tmp_path: Path, outcome: Outcome, found: str
) -> None:
    _, completion = await recorded(tmp_path, outcome)
    assert completion["type"] == "info"
    assert completion["error"] == (
        f"the target's client answered {found}, expected one of each of the 2 steps: correct the "
        "client"
    )


async def test_a_restarted_pod_knows_the_keys_of_all_steps(tmp_path: Path) -> None:
    await recorded(tmp_path, ok([None, None]))
    past = read_past(tmp_path)
    assert past.touched == {"t0/1/0/0": 1, "t0/1/1/0": 1}
    assert not past.damaged


def test_an_operation_without_a_key_is_damage(tmp_path: Path) -> None:
    line = {"type": "ok", "f": "write", "process": 1, "role": "load", "partition": 1, "key": None}
    (tmp_path / "x.jsonl").write_text(json.dumps(line) + "\n")
    assert read_past(tmp_path).damaged == ["x.jsonl"]


def share(workload: TransactionWorkload, seed: int = 1) -> TransactionShare:
    pod = PodShare(
        index=3,
        pods=1,
        partitions=[0, 1],
        operations_per_key=100_000,
        rng=random.Random(seed),
        next_value=Numbers(0, 1).next_value,
        key_for_partition=lambda stem, _: stem,
    )
    made = share_of(workload, pod)
    assert isinstance(made, TransactionShare)
    return made


def test_each_step_has_a_key_of_its_own_in_one_partition_and_generation() -> None:
    workload = TransactionWorkload(steps=3, keys_per_partition=4, operations_per_second=10)
    source = share(workload)
    reads = 0
    for number in range(2_000):
        planned = source.next(number / 10)
        keys = [step.key.split("/") for step in planned.operation.steps]
        assert len({tuple(key) for key in keys}) == 3
        assert {(key[0], key[1]) for key in keys} == {("t3", str(planned.partition))}
        assert len({key[3] for key in keys}) == 1
        reads += sum(step.f is Function.READ for step in planned.operation.steps)
    assert reads == pytest.approx(3_000, rel=0.1)


def test_a_list_is_left_for_a_new_key_before_it_is_too_long() -> None:
    source = share(TransactionWorkload(steps=2, keys_per_partition=2, longest=50, reads=0))
    appends: dict[str, int] = {}
    for number in range(3_000):
        for step in source.next(number / 10).operation.steps:
            appends[step.key] = appends.get(step.key, 0) + 1
    assert max(appends.values()) <= 50


def test_more_steps_than_keys_are_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="raise keys_per_partition"):
        msgspec.convert(
            {"kind": "transactions", "steps": 5, "keys_per_partition": 4}, TransactionWorkload
        )


async def history_of(folder: Path, store: ListStore, seconds: int) -> list[dict[str, object]]:
    """The history of a load of transactions alone, with its final reads."""
    plan = LoadPlan(
        client="a:b",
        zone="z1",
        seeds=["x:1"],
        workloads=[TransactionWorkload(operations_per_second=5_000, steps=3, reads=0.4)],
        probes=None,
        processes=4,
        loop=Loop.CLOSED,
        seed=seconds,
    )
    execute = executor(folder, store, machine_clock())
    phases = Phases(plan, execute, ordinal=0, incarnation=1, recovered=RecoveredHistory())
    stop = StopSignal()

    async def enough(count: int) -> None:
        while store.begun < count:  # noqa: ASYNC110 - the store has no event for it
            await asyncio.sleep(0.001)
        stop.asked = True

    async with asyncio.timeout(60), asyncio.TaskGroup() as both:
        both.create_task(phases.load(stop, 1))
        both.create_task(enough(100 * seconds))
    assert await phases.final(StopSignal())
    execute.recorder.close()
    lines = (folder / "pod-1-load.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


async def test_a_load_sends_transactions_and_reads_all_their_keys_in_the_end(
    tmp_path: Path,
) -> None:
    lines = await history_of(tmp_path, store := ListStore(), 1)
    asked = [line for line in lines if line["f"] == "transaction" and line["type"] == "invoke"]
    done = [line for line in lines if line["f"] == "transaction" and line["type"] == "ok"]
    assert len(asked) == len(done) == store.begun
    final = {line["key"]: line["value"] for line in lines if line["role"] == "final"}
    assert {key: values or None for key, values in store.lists.items()} == {
        key: final[key] for key in store.lists
    }


@pytest.mark.parametrize("halves", [False, True])
async def test_a_store_that_applies_half_a_transaction_is_found(
    tmp_path: Path, halves: bool
) -> None:
    (tmp_path / "history").mkdir()
    store = ListStore(lambda number: halves and number % 20 == 0)
    await history_of(tmp_path / "history", store, 1)
    found, faults = judged([tmp_path / "history" / "pod-1-load.jsonl"], tmp_path / "ops")
    assert not faults.counts
    assert not suspicious(found), "each key by itself is in order"
    files = Location.of(tmp_path / "ops").all_below(".parquet")
    shown = transaction_findings(None, files, run=without_spark)  # type: ignore[arg-type]
    assert shown.judged == store.begun
    assert bool(shown.violations) is halves

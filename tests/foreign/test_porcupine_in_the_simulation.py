"""Histories of simulated clients: both judges say the same of each key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from random import Random

import msgspec
import pytest

from tests.foreign.porcupine_judge import Comparison, Judge, KeyVerdict, compare
from zonequake_load.operation import Function, Type
from zonequake_load.pod.history import HistoryEvent
from zonequake_simulation import SCENARIOS, Simulation
from zonequake_simulation.checks.replies import ReplyRules
from zonequake_simulation.judge import judged
from zonequake_store.replica.planted_faults import PlantedFaults
from zonequake_store.replica.replica import Replica

pytestmark = pytest.mark.timeout(600)

SEEDS = 4
"""Of each scenario."""
RAFT_SEEDS = 36

Histories = dict[str, list[HistoryEvent]]


def recorded_in(names: Iterable[str], *, seeds: int) -> Histories:
    """What the clients of some seeds wrote down, as each lineage must explain it, key by key."""
    found: Histories = {}
    for name in names:
        scenario = SCENARIOS[name]
        for seed in range(seeds):
            with Simulation(seed, scenario) as simulation:
                simulation.run()
                simulation.settle()
                for lineage, events in simulation.histories().items():
                    for event in events:
                        found.setdefault(f"{name}-{seed}-{lineage}-{event.key}", []).append(event)
    return found


@pytest.fixture(scope="module")
def recorded() -> Histories:
    """What the clients of sound replicas wrote down."""
    return recorded_in(sorted(SCENARIOS), seeds=SEEDS)


def both(porcupine: Judge, histories: Histories, folder: Path) -> Comparison:
    """Both verdicts, key by key. A key's name is its zone's, so that none has another's, and an
    operation's is that of no other seed."""
    apart = {
        name: [
            msgspec.structs.replace(event, zone=name, key=name, op=f"{number}-{event.op}")
            for event in events
        ]
        for number, (name, events) in enumerate(histories.items())
    }
    ours = judged(apart, folder)
    legal = {
        name: name not in ours or ours[name].rule != "histories are linearizable" for name in apart
    }
    # What one lineage must explain is one question, whoever answered.
    lines = [
        msgspec.json.encode(msgspec.structs.replace(event, lineage=None))
        for events in apart.values()
        for event in events
    ]
    (folder / "history.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    return compare(porcupine.judged(folder), legal)


def spoilt(events: Sequence[HistoryEvent], random: Random) -> list[HistoryEvent]:
    """The same with one answer of a read taken from another read of the key."""
    reads = [
        place
        for place, event in enumerate(events)
        if event.type is Type.OK and event.f is Function.READ
    ]
    if len(reads) < 2:
        return list(events)
    one, other = random.sample(reads, 2)
    changed = msgspec.structs.replace(events[one], value=events[other].value)
    return [*events[:one], changed, *events[one + 1 :]]


def test_both_find_an_order_of_every_key(
    porcupine: Judge, recorded: Histories, tmp_path: Path
) -> None:
    compared = both(porcupine, recorded, tmp_path)
    assert compared.disagreements == []
    assert compared.not_judged == {}
    assert compared.alike.keys() == {KeyVerdict.LEGAL}
    assert compared.alike.total() > 5 * SEEDS


def spoilt_copies(recorded: Histories) -> Iterator[tuple[str, list[HistoryEvent]]]:
    random = Random(5)
    for copy in range(5):
        for name, events in recorded.items():
            yield f"{name}-{copy}", spoilt(events, random)


def test_both_judge_alike_where_an_answer_was_exchanged(
    porcupine: Judge, recorded: Histories, tmp_path: Path
) -> None:
    compared = both(porcupine, dict(spoilt_copies(recorded)), tmp_path)
    assert compared.disagreements == []
    assert compared.not_judged == {}
    assert compared.alike[KeyVerdict.ILLEGAL] > 5 * SEEDS


@pytest.mark.parametrize(
    "faults",
    [PlantedFaults(acknowledge_before_commit=True), PlantedFaults(local_reads=True)],
    ids=["acknowledge-before-commit", "local-reads"],
)
def test_both_find_no_order_of_the_same_keys_where_replicas_promise_too_much(
    porcupine: Judge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, faults: PlantedFaults
) -> None:
    start = Replica.__init__
    monkeypatch.setattr(
        Replica, "__init__", lambda replica, **given: start(replica, **given | {"faults": faults})
    )
    # Who sees the store from inside would end the run before the clients' history shows it.
    monkeypatch.setattr(ReplyRules, "answered", lambda *_, **__: None)
    compared = both(porcupine, recorded_in(["raft"], seeds=RAFT_SEEDS), tmp_path)
    assert compared.disagreements == []
    assert compared.not_judged == {}
    assert compared.alike[KeyVerdict.ILLEGAL] >= 5
    assert compared.alike[KeyVerdict.LEGAL] > 100

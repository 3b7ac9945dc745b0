"""The suite on stores that are made up: a sound one keeps it, and each fault is said."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from zonequake_chaos.conformance.alteration import altered
from zonequake_chaos.conformance.client import AskingClient
from zonequake_chaos.conformance.steps import ConformanceSteps, StepResult
from zonequake_chaos.kit.target import TargetClaims
from zonequake_load.operation import Function, Operation, Outcome, Type
from zonequake_load.pod.control import OperationRequest


class Store:
    """Answers as a load pod does; `cut`: what is asked is done, and no answer comes."""

    lies = False
    resends = False
    knows_ids = True
    places = True
    loses = False
    compares = True

    def __init__(self) -> None:
        self.keys: dict[str, Any] = {}
        self.ids: set[object] = set()
        self.cut = False
        self.index = 0

    async def execute(self, asked: OperationRequest) -> Outcome:
        operation = asked.operation
        if operation.f is Function.READ:
            return self._ok(operation, value=self.keys.get(operation.key))
        done = True
        for _ in range(2 if self.resends and self.cut else 1):
            done = self._apply(operation, asked.once)
        if self.cut:
            kind = Type.FAIL if self.lies else Type.INFO
            return Outcome(type=kind, attempts=1, error="no answer")
        if operation.f is Function.CAS:
            held = None if done else self.keys.get(operation.key)
            return self._ok(operation, value=held, applied=done)
        return self._ok(operation)

    def _apply(self, operation: Operation, once: object) -> bool:
        if self.knows_ids and once in self.ids:
            return True
        self.ids.add(once)
        held = self.keys.get(operation.key)
        if operation.f is Function.CAS and self.compares and held != operation.expected:
            return False
        if not self.loses:
            value = operation.value
            appended = operation.f is Function.APPEND
            self.keys[operation.key] = [*(held or []), value] if appended else value
        self.index += 1
        return True

    def _ok(
        self, operation: Operation, *, value: Any = None, applied: bool | None = None
    ) -> Outcome:
        index = self.index if self.places else None
        return Outcome(type=Type.OK, attempts=1, value=value, applied=applied, index=index)


class Package:
    """The part of a target package that the steps read."""

    alters = ""

    def __init__(self, *, repeats: bool) -> None:
        self.claims = TargetClaims(order="by number", repeats=repeats)


class Steps(ConformanceSteps):
    """The suite without a cluster: a fault cuts the store's answers off."""

    @asynccontextmanager
    async def _inflicted(
        self, fault: Any, victims: Callable[[Any], list[str]], *, proven: bool = True
    ) -> AsyncIterator[Any]:
        store = cast("Store", self.client._load)
        store.cut = True
        yield None
        store.cut = False


def steps(store: Store, *, repeats: bool = True) -> ConformanceSteps:
    return Steps(
        package=cast("Any", Package(repeats=repeats)),
        deployment=cast("Any", None),
        world=cast("Any", None),
        client=AskingClient(cast("Any", store)),
        dumps=Path("unused"),
        cuts_links=True,
    )


def with_fault(**fault: bool) -> Store:
    store = Store()
    for name, value in fault.items():
        assert hasattr(store, name)
        setattr(store, name, value)
    return store


def clean(result: StepResult) -> bool:
    return not result.problems and not result.unknown


async def test_a_sound_store_keeps_every_step() -> None:
    suite = steps(Store())
    assert clean(await suite.answers())
    lost = await suite.lost_answers()
    assert clean(lost)
    assert "a planted lie about 3 of them was noticed" in lost.note
    assert clean(await suite.replayed_request())


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("places", "without a place in the claimed order"),
        ("loses", "reads found"),
        ("compares", "a cas that expects another value came to"),
    ],
)
async def test_answers_that_are_wrong_are_said(fault: str, words: str) -> None:
    result = await steps(with_fault(**{fault: not getattr(Store, fault)})).answers()
    assert any(words in problem for problem in result.problems), result


async def test_a_client_that_takes_errors_for_certain_is_noticed() -> None:
    result = await steps(with_fault(lies=True)).lost_answers()
    assert any("certainly failed, as the client says" in problem for problem in result.problems)


async def test_a_client_that_sends_again_what_may_have_happened_is_noticed() -> None:
    result = await steps(with_fault(resends=True, knows_ids=False)).lost_answers()
    assert any("was carried out 2 times" in problem for problem in result.problems)


async def test_a_cut_that_lets_nothing_through_decides_nothing() -> None:
    result = await steps(with_fault(loses=True)).lost_answers()
    assert not result.problems
    assert "no operation whose answer was lost had an effect" in result.unknown[0]


async def test_a_store_that_applies_a_repeated_request_twice_is_noticed_if_it_claims_not_to() -> (
    None
):
    claimed = await steps(with_fault(knows_ids=False)).replayed_request()
    assert any("was carried out 2 times" in problem for problem in claimed.problems)
    other = await steps(with_fault(knows_ids=False), repeats=False).replayed_request()
    assert clean(other)
    assert other.note.startswith("not claimed")


def test_an_altered_value_has_as_many_digits() -> None:
    values = [100_000_000_000_001, 100_000_000_000_010]
    assert [len(str(altered(value))) for value in values] == [15, 15]
    assert all(altered(value) != value for value in values)

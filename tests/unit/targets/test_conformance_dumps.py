"""The suite's dumps of members that are made up: the same, altered, missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from tests.unit.targets.made_up_store import (
    Cluster,
    Member,
    Package,
    Steps,
    Store,
    changed,
    clean,
)
from zonequake_chaos.conformance import steps
from zonequake_chaos.conformance.alteration import altered
from zonequake_chaos.conformance.client import AskingClient
from zonequake_chaos.conformance.judgement import StepResult
from zonequake_chaos.kit.alteration import Alteration, in_texts


@pytest.fixture
def seen_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "unsettled", lambda _: [])


TEXTS = in_texts("values.txt")


async def dumped(
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    alters: Alteration | None = TEXTS,
    *,
    claimed: bool = True,
    empty: bool = False,
) -> StepResult:
    monkeypatch.setattr(steps, "alter_value", cluster.alter)
    store = Store()
    cluster.keys = {} if empty else store.keys
    package = Package(repeats=False)
    package.claims = replace(package.claims, dumps=claimed)
    package.alters = alters
    suite = Steps(
        package=cast("Any", package),
        deployment=cast("Any", cluster),
        world=cast("Any", cluster),
        client=AskingClient(cast("Any", store)),
        dumps=folder,
        cuts_links=True,
    )
    return await suite.dumps_of_members()


async def test_a_dump_without_what_was_written_is_a_problem(
    seen_settled: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    result = await dumped(changed(), monkeypatch, tmp_path, empty=True)
    assert len(result.problems) == 3
    assert all("has None where write of" in problem for problem in result.problems)


async def test_dumps_that_are_not_claimed_are_not_compared(
    seen_settled: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    none = Cluster(Member(), Member())
    for member in none.members.values():
        member.state = (7, None)
    assert (await dumped(none, monkeypatch, tmp_path)).unknown
    result = await dumped(none, monkeypatch, tmp_path, claimed=False)
    assert clean(result)
    assert result.note == "not claimed"


@pytest.mark.usefixtures("seen_settled")
async def test_members_dump_the_same_and_one_that_was_altered_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = await dumped(changed(), monkeypatch, tmp_path)
    assert clean(result)
    assert result.note == "3 members; m1, altered, dumps b"


@pytest.mark.usefixtures("seen_settled")
@pytest.mark.parametrize(("digest", "is_decided"), [("b", True), ("a", False)])
async def test_an_election_behind_the_alteration_leaves_the_comparison_with_the_others(
    digest: str, is_decided: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = changed(after=(8, digest))
    cluster.elected = (8, "a")
    result = await dumped(cluster, monkeypatch, tmp_path)
    assert not result.problems
    assert bool(result.unknown) != is_decided


@pytest.mark.usefixtures("seen_settled")
async def test_one_member_alone_is_no_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = await dumped(Cluster(Member()), monkeypatch, tmp_path)
    assert not result.problems
    (unknown,) = result.unknown
    assert "compared the dump of 1 member, expected at least 2" in unknown
    assert result.note == "1 members; m0, altered, dumps b"


@pytest.mark.usefixtures("seen_settled")
async def test_a_target_that_says_not_how_to_alter_is_not_decided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = await dumped(changed(), monkeypatch, tmp_path, None)
    assert not result.problems
    (unknown,) = result.unknown
    assert "no member was altered, since the target's package does not say how" in unknown


@pytest.mark.usefixtures("seen_settled")
@pytest.mark.parametrize(
    ("state", "problem", "unknown"),
    [
        ({"state": (7, "c")}, "members that applied 7 have digests", ""),
        ({"after": (7, "a")}, "m1 was altered, and dumps as before", ""),
        ({"state": (7, None)}, "", "no dump of m1"),
        ({"after": (7, None)}, "", "no dump of m1"),
        ({"after": (8, "b")}, "", "m1 was altered at 7, and dumps at 8"),
    ],
)
async def test_dumps_that_say_too_little_or_are_missing_are_said(
    state: dict[str, Any],
    problem: str,
    unknown: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result = await dumped(changed(**state), monkeypatch, tmp_path)
    for wanted, found in ((problem, result.problems), (unknown, result.unknown)):
        assert bool(found) == bool(wanted)
        assert all(wanted in one for one in found)


@pytest.mark.usefixtures("seen_settled")
async def test_members_that_differ_for_long_are_dumped_and_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = changed(state=(7, "c"))
    cluster.alike = False
    result = await dumped(cluster, monkeypatch, tmp_path)
    assert result.unknown == ["members differ"]
    assert len(result.problems) == 1


def test_an_altered_value_has_as_many_digits() -> None:
    values = [100_000_000_000_001, 100_000_000_000_010]
    assert [len(str(altered(value))) for value in values] == [15, 15]
    assert all(altered(value) != value for value in values)

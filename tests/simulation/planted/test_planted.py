"""The checks find what they were found to find, again and again."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.simulation.detection import (
    APART,
    LIMIT,
    PAGE,
    RUNS,
    Row,
    Search,
    by_name,
    kept,
    page,
    rows_on,
    rule_broken,
    script_finds,
    search,
    slowest,
)
from tests.simulation.planted.registry import AREAS, all_planted
from zonequake_simulation import SCENARIOS

pytestmark = [pytest.mark.simulation, pytest.mark.timeout(600)]

SLOWEST = slowest(PAGE.read_text(), 5)
BY_SCRIPTS = {
    "old-term-committed-by-counting": "figure-8",
    "vote-forgotten-at-restart": "a-vote-outlives-a-restart",
    "matching-suffix-truncated": "a-late-append-removes-nothing",
    "any-predecessor-accepted": "a-lost-append-leaves-no-gap",
    "old-leaders-obeyed": "a-deposed-leader-overwrites-nothing",
    "own-entry-counted-early": "a-leader-stores-what-it-counts",
    "acknowledged-before-stored": "a-follower-stores-what-it-acknowledges",
    "read-without-a-round": "a-deposed-leader-answers-no-read",
    "read-before-an-own-entry": "a-new-leader-reads-nothing-old",
    "freshness-without-a-quorum": "a-deposed-leader-vouches-for-no-state",
    "freshness-before-applied": "a-state-is-fresh-when-it-is-applied",
    "snapshot-over-a-longer-log": "an-old-snapshot-rolls-nothing-back",
    "new-half-elects": "a-half-decides-nothing-alone",
    "old-half-decides": "an-old-half-decides-nothing-alone",
    "half-done-change-left": "a-leader-dies-between-the-halves",
    "joint-before-caught-up": "a-silent-newcomer-is-waited-for",
    "removed-replica-disturbs": "a-removed-server-disturbs-nobody",
    "reset-by-an-older-token": "an-older-reset-is-refused",
    "nobody-abstains": "an-old-leader-that-comes-back-learns-from-its-start-order",
    "reduce-never-due": "a-lost-leader-comes-back-without-another-event",
    "reset-with-a-majority": "nobody-is-reset-whose-majority-is-back",
    "oldest-log-goes-on": "the-newest-log-goes-on",
    "chosen-left-out-of-planned": "the-newest-log-goes-on",
    "not-due-after-reset": "a-wish-that-a-reset-overwrote-comes-true",
    "stopped-group-reset": "who-is-back-first-of-a-stopped-group-waits",
    "stopped-for-ever": "a-stop-is-over-when-the-group-leads",
    "oldest-link-taken": "a-restarted-group-waits-for-its-newest-link",
    "link-judged-without-a-majority": "a-link-is-judged-by-a-majority",
    "any-source": "the-newest-user-entry-of-a-link-goes-on",
    "bookkeeping-marked-as-a-users": "a-rollback-stops-no-unwind",
    "bookkeeping-told-as-a-users": "a-rollback-stops-no-unwind",
    "empty-assignments": "a-filter-that-matches-nobody-moves-nothing",
    "reset-ordered-once": "a-reset-that-its-survivor-forgot-is-ordered-again",
    "nobody-is-told-of-resets": "an-old-majority-is-told-before-it-is-permitted",
    "locked-pending-replaced": "a-locked-change-is-seen-through",
    "waiting-wish-from-stable": "who-is-away-stays-in-a-set-that-it-joins",
    "blocked-change-awaited": "a-change-that-waits-for-the-dead-gives-way",
    "absent-nodes-wished-for": "who-returns-is-taken-though-another-is-away",
    "configured-replica-erased": "a-replica-stays-while-its-group-goes-by-it",
    "late-erasure-not-shut-out": "a-late-erasure-is-shut-out",
    "formed-of-who-may-be-erased": "a-first-member-is-safe-from-a-late-erasure",
    "older-reports-judged": "newer-keys-are-not-judged-by-older-reports",
    "topology-read-after-nodes": "a-newer-topology-is-not-judged-by-older-reports",
    "zone-taken-back": "a-zone-is-not-taken-back-to-an-older-topology",
    "left-without-a-fence": "who-was-fenced-acknowledges-nothing",
    "silence-is-leaving": "silence-proves-nothing",
}


HUNDREDS = {"position-stored-before-the-piece", "late-prepare-taken"}
"""Faults that need hundreds of schedules today: code that changed since drew others."""


def test_there_are_planted_faults_in_every_area_and_each_has_a_scenario() -> None:
    faults = all_planted()
    assert len(faults) >= 25
    assert {fault.area for fault in faults} <= set(AREAS)
    assert {fault.scenario for fault in faults} <= set(SCENARIOS)


def test_the_page_names_every_planted_fault() -> None:
    text = PAGE.read_text()
    missing = [fault.name for fault in all_planted() if f"`{fault.name}`" not in text]
    assert not missing, f"docs/detection.md is old, run `make detection`: {missing}"


@pytest.mark.parametrize(("fault", "script"), BY_SCRIPTS.items(), ids=BY_SCRIPTS)
def test_a_script_finds_the_fault_it_was_written_for(fault: str, script: str) -> None:
    assert script_finds(fault, script)


@pytest.mark.parametrize(
    ("name", "seeds"),
    [
        pytest.param(name, seeds, id=name, marks=pytest.mark.long if name in HUNDREDS else ())
        for name, seeds in SLOWEST.items()
    ],
)
def test_random_schedules_find_the_slowest_faults_again(name: str, seeds: list[int]) -> None:
    """First with the seeds that the page was made with; code that changed since draws others."""
    fault = by_name()[name]
    if not any(rule_broken(fault, seed) for seed in seeds):
        runs = (search(name, run, LIMIT) for run in range(RUNS))
        assert any(found.seeds is not None for found in runs), fault.what


def row_of(*seeds: int | None, number: int = 0, scripts: tuple[str, ...] = ()) -> Row:
    searches = tuple(Search(run=run, seeds=each, rule="a rule") for run, each in enumerate(seeds))
    name = all_planted()[number].name
    return Row(fault=name, scripts=scripts, searches=searches, limit=2_000)


def test_the_median_counts_a_run_without_success_as_the_longest() -> None:
    assert row_of(9, 1, None, 4, None).median == 9
    assert row_of(9, 1, 2, 4, None).median == 4
    assert row_of(9, None, None, 4, None).median is None
    assert row_of(None, None, 1, None).median is None
    assert not row_of(9, None, None, 4, None).is_found


def test_the_slowest_are_read_off_the_page_as_it_is_written() -> None:
    rows = [
        row_of(3, 3, 3, 3, 3),
        row_of(7, None, 1234, 1235, 9, number=1),
        row_of(None, None, None, number=2, scripts=("figure-8",)),
    ]
    text = page(rows)
    assert list(slowest(text, 2)) == [rows[1].fault, rows[0].fault]
    assert slowest(text, 1)[rows[1].fault] == [6, 2 * APART + 1233, 3 * APART + 1234, 4 * APART + 8]
    assert "3 faults: **3 found, 0 not found**" in text
    assert "> 2,000 | figure-8" in text


def test_a_page_is_read_as_it_is_written() -> None:
    text = PAGE.read_text()
    kept_rows = rows_on(text)
    names = [fault.name for fault in all_planted() if fault.name in kept_rows]
    assert page([kept_rows[name] for name in names]) == text


def test_a_search_that_was_broken_off_goes_on_unless_code_has_changed(tmp_path: Path) -> None:
    file = tmp_path / "new" / "kept.jsonl"
    assert kept(file, "code") == {}
    row = row_of(1, None)
    with file.open("ab") as lines:
        lines.write(msgspec.json.encode(row) + b"\n")
    assert kept(file, "code") == {row.fault: row}
    assert kept(file, "other code") == {}
    assert kept(file, "code") == {}

"""The checks find what they were found to find, again and again."""

from __future__ import annotations

import pytest
from detection import APART, LIMIT, PAGE, Row, Search, by_name, page, scripts_that_find, search
from detection import slowest as slowest_on
from scripts.every import SCRIPTS

from planted.registry import AREAS, all_planted
from zonequake_chaos.simulation import SCENARIOS

pytestmark = [pytest.mark.simulation, pytest.mark.timeout(600)]

SLOWEST = slowest_on(PAGE.read_text(), 5)
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
    "snapshot-over-a-longer-log": "an-old-snapshot-rolls-nothing-back",
    "new-half-elects": "a-half-decides-nothing-alone",
    "old-half-decides": "an-old-half-decides-nothing-alone",
    "half-done-change-left": "a-leader-dies-between-the-halves",
    "joint-before-caught-up": "a-silent-newcomer-is-waited-for",
    "removed-replica-disturbs": "a-removed-server-disturbs-nobody",
    "reset-by-an-older-token": "an-older-reset-is-refused",
    "nobody-abstains": "an-old-leader-that-comes-back-learns-from-its-start-order",
}


def test_there_are_planted_faults_in_every_area_and_each_has_a_scenario() -> None:
    faults = all_planted()
    assert len(faults) >= 25
    assert {fault.area for fault in faults} <= set(AREAS)
    assert {fault.scenario for fault in faults} <= set(SCENARIOS)


def test_the_page_names_every_planted_fault() -> None:
    text = PAGE.read_text()
    missing = [fault.name for fault in all_planted() if f"| `{fault.name}` |" not in text]
    assert not missing, f"docs/detection.md is old, run `make detection`: {missing}"


@pytest.mark.parametrize(("fault", "script"), BY_SCRIPTS.items(), ids=BY_SCRIPTS)
def test_a_script_finds_the_fault_it_was_written_for(fault: str, script: str) -> None:
    assert script in SCRIPTS
    assert script in scripts_that_find(fault)


@pytest.mark.parametrize("fault", SLOWEST)
def test_random_schedules_find_the_slowest_faults_again(fault: str) -> None:
    runs = (search(fault, run * APART, LIMIT) for run in range(3))
    assert any(found.seeds is not None for found in runs), by_name()[fault].what


def test_the_median_counts_a_run_without_success_as_the_longest() -> None:
    fault = all_planted()[0]

    def row(*seeds: int | None) -> Row:
        searches = tuple(Search(fault=fault.name, seeds=each, rule="r") for each in seeds)
        return Row(fault=fault, scripts=(), searches=searches)

    assert row(9, 1, None, 4, None).median == 9
    assert row(9, 1, 2, 4, None).median == 4
    assert row(9, None, None, 4, None).median is None
    assert not row(9, None, None, 4, None).is_found


def test_the_slowest_are_read_off_the_page_as_it_is_written() -> None:
    first, second, third = all_planted()[:3]
    rows = [
        Row(
            fault=fault,
            scripts=("figure-8",),
            searches=(Search(fault=fault.name, seeds=seeds, rule="a rule"),) * 5,
        )
        for fault, seeds in ((first, 3), (second, 1234), (third, None))
    ]
    text = page(rows, limit=2000, jobs=1, took_s=60)
    assert slowest_on(text, 2) == [second.name, first.name]
    assert "3 found, 0 not found" in text

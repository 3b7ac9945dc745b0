"""The runs of failures of several vantages are one window where they overlap."""

from __future__ import annotations

import pytest

from tests.unit.analysis.made_up_probes import EVERY_NS, SECOND, island, vantage
from zonequake_analysis.inputs.run_folder import RecordedEvent
from zonequake_analysis.measures.availability.probes import Island
from zonequake_analysis.measures.availability.windows import availability

Run = tuple[str, float, float]
"""A vantage's name, and its last success before and the next one after, in seconds."""
PROBED_LATE = vantage("late", first_s=200, last_s=300)
"""A vantage that began to probe when everything was over."""


def failures(name: str, begin_s: float, end_s: float) -> Island:
    return island(begin_s, end_s, name=name, failed=5, inside_ns=EVERY_NS)


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        # Both fail: a success of either bounds the outage.
        ([("a", 10, 20), ("b", 10.1, 20.1)], (10.1, 20, 9.8, True)),
        # But one of them certainly had no answer for longer than between these successes.
        ([("a", 10, 20), ("b", 12, 21)], (10, 21, 9.8, True)),
        ([("a", 10, 20), ("b", 19.5, 30)], (10, 30, 10.3, True)),
        # One of two fails.
        ([("a", 10, 20)], (10, 20, 9.8, False)),
        # One fails, and then the other: there is no time in which both do.
        ([("a", 10, 20), ("b", 20, 25)], (10, 25, 9.8, False)),
        # A success of one takes nothing from what the other saw, also if it took so long that the
        # next probe had begun.
        ([("a", 0, 101), ("b", 0.5, 46), ("b", 46.5, 100)], (0, 101, 100.8, False)),
        ([("a", 0, 101), ("b", 0.5, 46.5), ("b", 46.25, 100)], (0, 101, 100.8, False)),
        ([("a", 0, 1), ("b", 0.5, 10.5), ("a", 10, 11)], (0, 11, 9.8, False)),
    ],
)
def test_what_vantages_saw_at_once_is_one_window(
    runs: list[Run], expected: tuple[float, float, float, bool]
) -> None:
    vantages = [vantage("a"), vantage("b"), PROBED_LATE]
    (found,) = availability(vantages, [failures(*run) for run in runs], []).windows
    start_s, end_s, certain_s, total = expected
    assert (found.start_ns, found.end_ns) == (start_s * SECOND, end_s * SECOND)
    assert found.certain_ns == found.proven_ns == certain_s * SECOND
    assert found.total is total
    assert found.failed == 5 * len(runs)


@pytest.mark.parametrize("second_s", [21, 19])
def test_runs_of_one_vantage_are_two_windows(second_s: float) -> None:
    """The success between them may have taken so long that the next probe had begun."""
    runs = [failures("a", 10, 20), failures("b", 10, 15), failures("a", second_s, 30)]
    first, second = availability([vantage("a"), vantage("b")], runs, []).windows
    assert (first.end_ns, second.start_ns) == (20 * SECOND, second_s * SECOND)
    assert (first.total, second.total) == (True, False)


@pytest.mark.parametrize(
    ("others", "certain_s", "proven_s"),
    [
        # What happened while it did not probe is not known.
        ([], 12.9, 7.9),
        # Another vantage looked meanwhile, and had no answer either.
        ([failures("b", 15, 35)], 19.8, 7.9),
        # One that was silent itself takes nothing from what the first one saw.
        ([island(12, 14, name="b", silent=True)], 12.9, 7.9),
    ],
)
def test_nothing_is_certain_of_a_silence_in_an_outage(
    others: list[Island], certain_s: float, proven_s: float
) -> None:
    proof = RecordedEvent(kind="pod.event", time=32 * SECOND, data={"phase": "Failed"})
    runs = [failures("a", 10, 40), island(23, 30, name="a", silent=True), *others]
    (found,) = availability([vantage("a"), vantage("b")], runs, [proof]).windows
    assert found.certain_ns == certain_s * SECOND
    assert found.proven_ns == proven_s * SECOND


@pytest.mark.parametrize(
    ("silent", "total"),
    [((5, 25), True), ((10.05, 19.95), True), ((5, 15), False), ((10.1, 25), False)],
)
def test_a_vantage_that_was_silent_all_the_time_did_not_look(
    silent: tuple[float, float], total: bool
) -> None:
    """The first probe fails at 10.1 s, and the last one at 19.9 s."""
    runs = [failures("a", 10, 20), island(*silent, name="b", silent=True)]
    (found,) = availability([vantage("a"), vantage("b")], runs, []).windows
    assert found.total is total
    assert (found.start_ns, found.end_ns) == (10 * SECOND, 20 * SECOND)

"""What metrics' names say, how values are shown, and which times are compared."""

from __future__ import annotations

import pytest

from zonequake_analysis.inputs.prometheus.metric_names import family, is_counter, is_quiet, unit
from zonequake_analysis.inputs.run_folder import RecordedEvent
from zonequake_analysis.measures.availability.fault_times import Repetition
from zonequake_analysis.measures.availability.windows import Unavailability
from zonequake_analysis.measures.rebalances import FaultLanding
from zonequake_analysis.metrics.spans import (
    MOST_FAULTS,
    MOST_SHOWN,
    MOST_WINDOWS,
    Spans,
    Stretch,
    spans_of,
)
from zonequake_analysis.report.moved_metrics import in_unit

SECOND_NS = 10**9


def test_what_is_sent_to_newcomers_is_one_family_by_whatever_name() -> None:
    names = ("catch_up_bytes_total", "catch_up_sent_bytes", "catch_up_fraction")
    assert {family(f"zonequake_store_{name}") for name in names} == {"zonequake_store_catch_up"}
    assert family("zonequake_store_commit_seconds_bucket") == "zonequake_store_commit"
    assert family("zonequake_store_commit_index") == "zonequake_store_commit_index"


@pytest.mark.parametrize(
    ("metric", "measure", "expected"),
    [
        ("zonequake_store_catch_up_bytes_total", "rate", "bytes per second"),
        ("zonequake_store_cpu_seconds_total", "rate", "seconds per second"),
        ("zonequake_store_commit_seconds", "p99", "seconds"),
        ("zonequake_store_commit_seconds_count", "rate", "times per second"),
        ("zonequake_store_term", "level", ""),
    ],
)
def test_a_unit_is_what_the_name_ends_with(metric: str, measure: str, expected: str) -> None:
    assert unit(metric, measure) == expected


def test_counters_and_metrics_that_say_nothing_are_told_by_their_names() -> None:
    assert is_counter("a_total")
    assert not is_counter("a_bytes")
    assert is_quiet("go_goroutines")
    assert is_quiet("zonequake_load_latency_seconds_created")
    assert not is_quiet("zonequake_store_term")


@pytest.mark.parametrize(
    ("value", "name", "expected"),
    [
        (0.0123, "seconds", "12.3 ms"),
        (0.35, "seconds per second", "0.35 s/s"),
        (2_500_000.0, "bytes per second", "2.5 MB/s"),
        (12.0, "bytes", "12 B"),
        (123.45, "times per second", "123.5/s"),
        (3.0, "", "3"),
        (None, "bytes", "–"),
    ],
)
def test_a_value_is_shown_with_its_unit(value: float | None, name: str, expected: str) -> None:
    assert in_unit(value, name) == expected


def fault(start_s: float | None, recovered_s: float | None = None) -> FaultLanding:
    return repeated("kill", *([] if start_s is None else [(start_s, recovered_s)]))


def repeated(name: str, *times: tuple[float, float | None]) -> FaultLanding:
    """A fault that began at each of these seconds, and was over; the n-th time it hit node n."""

    def ns(seconds: float | None) -> int | None:
        return None if seconds is None else int(seconds * SECOND_NS)

    each = [
        Repetition(
            start_ns=int(start_s * SECOND_NS),
            over_ns=ns(over_s),
            targets=(f"zq-default-{number}",),
        )
        for number, (start_s, over_s) in enumerate(times)
    ]
    start_s, over_s = (times[0][0], times[-1][1]) if times else (None, None)
    return FaultLanding(
        name=name,
        times=max(1, len(times)),
        effective=len(times),
        type="pod_kill",
        targets=each[0].targets if each else (),
        each=tuple(each),
        start_ns=ns(start_s),
        effective_ns=ns(start_s),
        stop_ns=None,
        recovered_ns=ns(over_s),
        over_ns=ns(over_s),
        asked="",
        landed="",
        progress=None,
        partition=None,
        missed="",
    )


def window(start_s: float, length_s: float = 0.2) -> Unavailability:
    return Unavailability(
        zone="z1",
        partition=3,
        function="write",
        start_ns=int(start_s * SECOND_NS),
        end_ns=int((start_s + length_s) * SECOND_NS),
        certain_ns=int(length_s * SECOND_NS),
        proven_ns=0,
        failed=1,
        vantages=("load-0",),
        total=True,
        causes=(),
    )


def spans(
    faults: list[FaultLanding], windows: list[Unavailability], events: list[RecordedEvent]
) -> Spans:
    return spans_of(
        faults=faults,
        windows=windows,
        events=events,
        start_ns=10 * SECOND_NS,
        end_ns=5000 * SECOND_NS,
        wall_offset_ns=1000 * SECOND_NS,
        scrape_ms=1000,
    )


def test_the_quiet_phase_ends_with_the_first_fault_and_is_no_longer_than_ten_minutes() -> None:
    assert spans([fault(40)], [], []).quiet == Stretch(start_ms=1_010_000, end_ms=1_040_000)
    before = RecordedEvent(kind="run.phase", time=25 * SECOND_NS, data={"phase": "before"})
    assert spans([fault(40)], [], [before]).quiet == Stretch(start_ms=1_025_000, end_ms=1_040_000)
    assert spans([fault(2000)], [], []).quiet == Stretch(start_ms=2_400_000, end_ms=3_000_000)


def test_a_window_before_the_first_fault_is_not_quiet() -> None:
    assert spans([fault(40)], [window(30)], []).quiet == Stretch(
        start_ms=1_010_000, end_ms=1_030_000
    )
    assert spans([fault(5)], [], []).quiet is None


def test_a_short_window_is_widened_by_a_scrape_and_names_its_leaders() -> None:
    events = [
        RecordedEvent(
            kind="leader.change",
            time=at_s * SECOND_NS,
            zone="z1",
            partition=partition,
            data={"leader": leader},
        )
        for at_s, partition, leader in (
            (1, 3, "old"),
            (20, 3, "before"),
            (21, 4, "other"),
            (50, 3, "next"),
            (60, 3, "later"),
        )
    ]
    (one,) = spans([], [window(50, 0.2)], events).spans
    assert (one.during.start_ms, one.during.end_ms) == (1_049_000, 1_052_200)
    assert one.after.start_ms == one.during.end_ms
    assert one.nodes == ("before", "next")


def test_faults_that_never_began_have_no_span_and_what_is_left_out_is_counted() -> None:
    faults, windows = MOST_FAULTS + 6, MOST_WINDOWS + 16
    many = spans(
        [fault(None), *[fault(40 + n) for n in range(faults)]],
        [window(50 + n) for n in range(windows)],
        [],
    )
    kinds = [one.kind for one in many.spans]
    assert (kinds.count("fault"), kinds.count("window")) == (MOST_FAULTS, MOST_WINDOWS)
    assert many.left_out == 6 + 16
    assert [one.number for one in many.spans] == list(range(len(many.spans)))


def test_each_time_of_a_repeated_fault_is_a_span_with_its_own_nodes() -> None:
    kills = repeated("kill-all", *[(100 + 20 * n, 105 + 20 * n) for n in range(20)])
    found = spans([repeated("cut", (130, 132)), kills], [], [])
    assert [one.name for one in found.spans[:4]] == [
        "kill-all #1",
        "kill-all #2",
        "cut",
        "kill-all #3",
    ]
    assert [one.name for one in found.spans if one.name.startswith("kill")] == [
        f"kill-all #{n}" for n in range(1, 21)
    ]
    third = found.spans[3]
    assert third.nodes == ("zq-default-2",)
    assert third.during == Stretch(start_ms=1_139_000, end_ms=1_147_000)
    assert found.left_out == 0
    assert found.quiet == Stretch(start_ms=1_010_000, end_ms=1_100_000)


def test_of_too_many_repetitions_the_last_are_left_out_and_no_fault_as_a_whole() -> None:
    often = repeated("often", *[(100 + n, 101 + n) for n in range(2 * MOST_FAULTS)])
    twice = repeated("twice", (4000, 4001), (4100, 4101))
    found = spans([often, twice], [], [])
    names = [one.name for one in found.spans]
    assert names == [*(f"often #{n}" for n in range(1, MOST_FAULTS - 1)), "twice #1", "twice #2"]
    assert found.left_out == MOST_FAULTS + 2


def test_the_longest_are_shown_and_one_of_each_fault() -> None:
    kills = repeated("kill", *[(100 + 20 * n, 101 + 20 * n + n % 19) for n in range(20)])
    cut = repeated("cut", (4000, 4000.5))
    lasts = repeated("lasts", (4500, None))
    found = spans([kills, cut, lasts], [window(50 + 2 * n, n / 100) for n in range(20)], [])
    by_name = {one.name: one.shown for one in found.spans if one.kind == "fault"}
    hidden = [name for name, shown in by_name.items() if not shown]
    assert hidden == [f"kill #{n}" for n in (1, 2, 3, 4, 5, 20)]
    assert len(by_name) - len(hidden) == MOST_SHOWN
    windows = [one for one in found.spans if one.kind == "window"]
    assert [one.shown for one in windows] == [n < MOST_SHOWN for n in range(20)]

"""The report's part on metrics: series around their spans, and nodes beside the clients."""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from xml.etree import ElementTree as xml

import duckdb
import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark.report.made_up_pages import made_up_judgement
from zonequake_analysis.metrics.changes import CHANGES, _compare, _looked, _Named
from zonequake_analysis.metrics.shown_changes import MIN_SCORE, ShownChanges
from zonequake_analysis.metrics.spans import (
    MOST_FAULTS,
    MOST_SHOWN,
    MOST_WINDOWS,
    Span,
    Spans,
    Stretch,
)
from zonequake_analysis.metrics.tasks.compared import About
from zonequake_analysis.metrics.tasks.curve import MOST_POINTS, Curve, curve
from zonequake_analysis.metrics.tasks.steps import points
from zonequake_analysis.report import svg
from zonequake_analysis.report.moved_metrics import in_unit, more_spans, span_cards
from zonequake_analysis.report.page import render_page
from zonequake_analysis.spark_pass.in_tasks import to_bytes
from zonequake_analysis.storage.location import Location

START_MS = 1_700_000_000_000
AROUND = Stretch(start_ms=START_MS, end_ms=START_MS + 1800_000)
DURING = Stretch(start_ms=START_MS + 600_000, end_ms=START_MS + 1200_000)
MOST_CHART_BYTES = 500_000
"""Of all charts of a page, of which the rest may have up to 2.5 MB."""


def drawn(
    value: Callable[[int], float],
    seconds: range = range(1800),
    *,
    marker_at: int | None = None,
    counter: bool = False,
) -> Curve:
    """A sample a second; at `marker_at` the one that ends a series."""
    t_ms = np.array([START_MS + 1000 * s for s in seconds])
    known = np.array([s != marker_at for s in seconds])
    values = np.where(known, [value(s) for s in seconds], np.nan)
    samples = points(t_ms, values, known, counter=counter, scrape_ms=1000)
    return curve(samples, AROUND, by_rate=counter, scrape_ms=1000)


def seconds(line: Curve) -> list[float]:
    return [(t_ms - START_MS) / 1000 for t_ms in line.t_ms]


def test_few_points_have_every_peak_and_every_dip() -> None:
    line = drawn(lambda s: {601: 99.0, 1199: -99.0}.get(s, float(s % 7)))
    assert len(line.t_ms) <= MOST_POINTS
    at = dict(zip(seconds(line), line.value, strict=True))
    assert (at[601.0], at[1199.0]) == (99.0, -99.0)
    assert seconds(line) == sorted(seconds(line))
    assert line.begins.count(True) == 1


def test_a_gap_is_as_long_as_it_was_and_a_late_scrape_is_none() -> None:
    there = [s for s in range(1800) if not 700 <= s < 740 and s not in (900, 901)]
    t_ms = np.array([START_MS + 1000 * s for s in there])
    samples = points(
        t_ms,
        np.ones(len(there)),
        np.ones(len(there), bool),
        counter=False,
        scrape_ms=1000,
    )
    line = curve(samples, AROUND, by_rate=False, scrape_ms=1000)
    assert [at for at, begins in zip(seconds(line), line.begins, strict=True) if begins] == [0, 740]
    assert seconds(line)[line.begins.index(True, 1) - 1] == 699
    assert len(line.t_ms) <= MOST_POINTS


def test_hundreds_of_gaps_are_no_more_points() -> None:
    line = drawn(float, range(0, 1800, 5))
    assert len(line.t_ms) <= MOST_POINTS
    assert all(line.begins), "nothing is known between any two of them"


def test_a_series_that_ended_and_began_again_is_two_lines() -> None:
    line = drawn(float, range(600, 640), marker_at=610)
    assert [at for at, begins in zip(seconds(line), line.begins, strict=True) if begins] == [
        600,
        611,
    ]


def test_a_counter_is_drawn_by_its_rate() -> None:
    line = drawn(lambda s: 5.0 * s, range(600, 640), counter=True)
    assert set(line.value) == {5.0}
    assert seconds(line)[0] == 601


def chart(line: Curve, unit: str = "seconds") -> xml.Element:
    text = svg.curve_chart(line, DURING, START_MS - 10_000, lambda v: in_unit(v, unit))
    return xml.fromstring(text)


def test_a_chart_has_its_scale_its_unit_its_seconds_and_the_time_of_the_fault() -> None:
    found = chart(drawn(lambda s: 0.5 if 600 <= s < 1200 else 0.002))
    words = [one.text for one in found.iter("text")]
    assert words == ["500 ms", "2 ms", "10.0 s", "610.0 s", "1210 s", "1810 s"]
    (box,) = (one for one in found.iter("rect") if one.get("class") == "fault")
    width = float(found.attrib["viewBox"].split()[2])
    left, wide = float(box.attrib["x"]), float(box.attrib["width"])
    assert [left / width, wide / width] == pytest.approx([1 / 3, 1 / 3], rel=0.01)
    (line,) = (one.attrib["d"] for one in found.iter("path"))
    assert {int(y) for y in line.removeprefix("M").split()[1::2]} == {16, 72}


def test_a_line_ends_at_a_gap_and_a_single_sample_is_a_dot() -> None:
    line = Curve(
        start_ms=AROUND.start_ms,
        end_ms=AROUND.end_ms,
        t_ms=[START_MS, START_MS + 900_000, START_MS + 1_790_000, START_MS + 1_795_000],
        value=[1.0, 3.0, 2.0, 2.0],
        begins=[True, True, True, False],
    )
    (path,) = (one.attrib["d"] for one in chart(line).iter("path"))
    assert path == "M0 72h0M170 16h0M338 44 339 44"


def test_a_series_without_a_number_is_an_empty_chart() -> None:
    nothing = Curve(start_ms=AROUND.start_ms, end_ms=AROUND.end_ms, t_ms=[], value=[], begins=[])
    words = [one.text for one in chart(nothing).iter("text")]
    assert words[:2] == ["no number", None]


def test_each_of_the_strongest_of_a_span_has_its_chart() -> None:
    cards = span_cards(made_up_judgement(partitions=3))
    assert [card.kind for card in cards] == ["fault", "fault", "window"]
    for card in cards:
        assert card.moved
        for row in card.moved:
            found = xml.fromstring(row.chart)
            words = [one.text for one in found.iter("text")]
            assert f"{card.from_s:.1f} s" in words
            assert f"{card.to_s:.1f} s" in words
    (row,) = (row for row in cards[0].moved if row.metric == "zonequake_store_loop_lag_seconds")
    assert row.chart.count("M") >= 2, "nothing is known while the node was not scraped"


def test_charts_of_as_many_rows_as_a_page_has_are_small() -> None:
    cards = span_cards(made_up_judgement(partitions=3, busy=True))
    for kind in ("fault", "window"):
        begins = [card.from_s for card in cards if card.kind == kind]
        assert len(begins) == MOST_SHOWN
        assert begins == sorted(begins)
    charts = [row.chart for card in cards for row in card.moved]
    assert len(charts) == 32 * 10
    assert max(one.count(" ") for one in charts) > MOST_POINTS
    assert sum(len(one.encode()) for one in charts) < MOST_CHART_BYTES


def test_what_is_drawn_is_as_long_before_a_span_as_after_it() -> None:
    span = Span(
        number=0,
        name="kill",
        kind="fault",
        during=DURING,
        after=Stretch(start_ms=DURING.end_ms, end_ms=AROUND.end_ms),
    )
    assert span.around == AROUND


def fault(number: int, start_s: int) -> Span:
    from_ms, length_ms = START_MS + start_s * 1000, 20_000
    return Span(
        number=number,
        name=f"kill-{number}",
        kind="fault",
        during=Stretch(start_ms=from_ms, end_ms=from_ms + length_ms),
        after=Stretch(start_ms=from_ms + length_ms, end_ms=from_ms + 2 * length_ms),
    )


QUIET = Stretch(start_ms=START_MS, end_ms=START_MS + 100_000)
TWO_FAULTS = Spans(quiet=QUIET, spans=(fault(0, 100), fault(1, 500)))


def test_samples_from_before_each_span_are_looked_at() -> None:
    looked = _looked(TWO_FAULTS, {"zq-0": 1000})
    for span in TWO_FAULTS.spans:
        assert any(
            one.start_ms <= span.around.start_ms and span.around.end_ms <= one.end_ms
            for one in looked
        )


def compared(folder: Path, spans: Spans) -> ShownChanges:
    """A level and a counter that move in both faults; of the counter its rate is drawn."""

    def broken(second: int) -> bool:
        return 100 <= second < 120 or 500 <= second < 520

    level = [9.0 if broken(s) else 1.0 for s in range(600)]
    total = list(accumulate(2.0 if broken(s) else 50.0 for s in range(600)))
    samples = pa.table(
        {
            "series": [0] * 600 + [1] * 600,
            "t_ms": [START_MS + s * 1000 for s in range(600)] * 2,
            "value": level + total,
            "stale": [False] * 1200,
        }
    )
    series = {
        number: _Named(
            about=About(
                metric=metric,
                labels={},
                target="zq-0",
                family=metric,
                unit="",
                unit_of_rate="times per second",
                scrape_ms=1000,
                counter=metric.endswith("_total"),
            ),
            histogram=None,
            le=None,
        )
        for number, metric in enumerate(("level", "served_total"))
    }
    last_ms = START_MS + 599_000
    made = _compare(series, spans, last_ms, Location.of(folder), 0, [to_bytes(samples)])
    return msgspec.msgpack.decode(made, type=ShownChanges)


def test_a_task_returns_the_curves_of_its_strongest_rows(tmp_path: Path) -> None:
    shown = compared(tmp_path, TWO_FAULTS)
    assert len(shown.strongest) == 4
    for row in shown.strongest:
        around = TWO_FAULTS.spans[row.span].around
        assert row.curve is not None
        assert (row.curve.start_ms, row.curve.end_ms) == (around.start_ms, around.end_ms)
        assert row.curve.t_ms[0] == around.start_ms
        usual, other = (1.0, 9.0) if row.metric == "level" else (50.0, 2.0)
        assert {row.curve.value[0], row.curve.value[-1]} == {usual}
        assert other in row.curve.value


def test_a_span_that_the_report_does_not_show_has_its_rows_in_the_table_alone(
    tmp_path: Path,
) -> None:
    first, second = TWO_FAULTS.spans
    spans = Spans(quiet=QUIET, spans=(first, replace(second, shown=False)))
    shown = compared(tmp_path, spans)
    assert [row.span for row in shown.strongest] == [0, 0]
    (file,) = tmp_path.glob("*.parquet")
    rows = pq.read_table(file).to_pylist()
    assert sorted((row["span"], row["metric"]) for row in rows if row["score"] >= MIN_SCORE) == [
        (span, metric) for span in (0, 1) for metric in ("level", "served_total")
    ]
    drawn = _looked(TWO_FAULTS, {"zq-0": 1000})[-1]
    not_drawn = _looked(spans, {"zq-0": 1000})[-1]
    assert not_drawn.start_ms - drawn.start_ms == 20_000, "what was before is only drawn"


def test_the_report_says_where_what_it_does_not_show_stands_and_how_to_read_it(
    tmp_path: Path,
) -> None:
    judged = made_up_judgement(partitions=3, busy=True)
    facts = judged.evidence.metrics
    assert facts is not None
    assert facts.spans is not None
    more = more_spans(facts)
    assert more is not None
    assert more.words == (
        f"{MOST_FAULTS - MOST_SHOWN} more faults and {MOST_WINDOWS - MOST_SHOWN} more windows"
    )
    columns = CHANGES.replace("map<string,string>", "MAP(VARCHAR, VARCHAR)")
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE metric_changes ({columns})")
    for span in facts.spans.spans:
        for score in (MIN_SCORE - 0.1, MIN_SCORE, None):
            connection.execute(
                "INSERT INTO metric_changes (span, span_name, score) VALUES (?, ?, ?)",
                [span.number, span.name, score],
            )
    found = connection.execute(more.query).fetchall()
    assert [row[0] for row in found] == [s.name for s in facts.spans.spans if not s.shown]
    assert more_spans(replace(facts, spans=TWO_FAULTS)) is None
    page = render_page(tmp_path, judged, told=lambda _: None)
    assert f"{more.words} were compared" in page
    assert html.escape(more.query, quote=False) in page


def test_the_nodes_requests_and_their_queue_stand_beside_what_clients_saw() -> None:
    card, *_ = span_cards(made_up_judgement(partitions=3))
    assert [row.metric for row in card.load] == [
        "p50 that clients saw",
        "p99 that clients saw",
        "p50 of requests in the node",
        "p99 of requests in the node",
        "requests waiting",
        "p99 of commits (fsync)",
        "lag of the loop",
        "CPU",
        "requests",
    ]
    clients, node = card.load[1], card.load[3]
    assert (clients.of, node.of) == ("operations of the load", "zq-default-0")
    assert [clients.during, node.during] == ["1.59 s", "836 ms"]
    assert [row.after for row in (clients, node)] == ["32.1 ms", "8.94 ms"]

"""What `kubectl zq plan` foretells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from zonequake_chaos.plugin.forecast import Step, forecast
from zonequake_chaos.plugin.forecast_screen import spec_changes
from zonequake_chaos.plugin.sight import Sight
from zonequake_operator import affinity
from zonequake_operator.model import Timers, ZoneSpec
from zonequake_operator.wire import to_rfc3339

NOW_MS = 1_800_000_000_000


def placed(nodes: str, partitions: int, replicas: int) -> dict[int, str]:
    """Where the operator's own rule puts each partition."""
    sets = affinity.rendezvous(tuple(nodes), partitions, replicas)
    return {number: "".join(sorted(names)) for number, names in enumerate(sets)}


def foretold(sight: Sight, **changes: object) -> list[Step]:
    zone = sight.zones[0]
    assert isinstance(zone.zone.spec, ZoneSpec)
    return forecast(zone.snapshot(sight), replace(zone.zone.spec, **changes))  # type: ignore[arg-type]


def test_nothing_moves_in_a_zone_that_stays_as_it_is(sight: Callable[..., Sight]) -> None:
    (step,) = foretold(sight(placed("abc", 8, 3), spec={"replicas": 3}))
    assert (step.after_ms, step.moves) == (0, ())


def test_more_replicas_are_copied_to_where_the_rule_puts_them(sight: Callable[..., Sight]) -> None:
    before, after = placed("abcd", 8, 2), placed("abcd", 8, 3)
    (step,) = foretold(
        sight(before, nodes="abcd", data_nodes="abcd", spec={"replicas": 2}), replicas=3
    )
    assert {move.partition: "".join(move.after) for move in step.moves} == after
    assert all(len(move.copies) == 1 and not move.erased for move in step.moves)


def test_an_armed_timer_is_foretold_for_the_time_when_it_fires(
    sight: Callable[..., Sight],
) -> None:
    status = {"scaleUp": {"nodes": ["d"], "armedAt": to_rfc3339(NOW_MS - 10_000)}}
    now, later = foretold(
        sight(
            placed("abc", 8, 3),
            nodes="abcd",
            status=status,
            spec={"replicas": 3, "dataNodesAutoAdjustScaleUp": 30},
        )
    )
    assert (now.after_ms, now.moves) == (0, ())
    assert later.after_ms == 20_000
    assert later.data_nodes == ("a", "b", "c", "d")
    gets_one = {number for number, nodes in placed("abcd", 8, 3).items() if "d" in nodes}
    assert {move.partition for move in later.moves} == gets_one


def test_a_shorter_timer_brings_the_moves_forward(sight: Callable[..., Sight]) -> None:
    status = {"scaleUp": {"nodes": ["d"], "armedAt": to_rfc3339(NOW_MS - 10_000)}}
    (step,) = foretold(
        sight(
            placed("abc", 8, 3),
            nodes="abcd",
            status=status,
            spec={"replicas": 3, "dataNodesAutoAdjustScaleUp": 30},
        ),
        timers=Timers(scale_up_s=0),
    )
    assert step.after_ms == 0
    assert step.moves


def test_a_filter_that_matches_nobody_moves_nothing_and_says_why(
    sight: Callable[..., Sight],
) -> None:
    (step,) = foretold(sight(placed("abc", 8, 3), spec={"replicas": 3}), filter='"nobody"')
    assert step.data_nodes == ()
    assert step.moves == ()


def test_a_filter_that_cannot_be_read_is_a_problem(sight: Callable[..., Sight]) -> None:
    (step, *_) = foretold(sight(placed("abc", 8, 3), spec={"replicas": 3}), filter="(((")
    assert step.problem is not None
    assert "(((" in step.problem


def test_a_forecast_writes_nothing_into_what_was_seen(sight: Callable[..., Sight]) -> None:
    seen = sight(placed("abcd", 8, 2), nodes="abcd", data_nodes="abcd", spec={"replicas": 2})
    before = dict(seen.zones[0].partitions)
    foretold(seen, replicas=3)
    assert seen.zones[0].partitions == before


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({"replicas": 3}, {"replicas": 5}, ["replicas: 3 -> 5"]),
        ({}, {"paused": True}, ["paused: - -> True"]),
        ({"replicas": 3}, {"replicas": 3}, []),
    ],
)
def test_only_fields_that_differ_are_named(
    before: dict[str, object], after: dict[str, object], said: list[str]
) -> None:
    assert spec_changes(before, after) == said

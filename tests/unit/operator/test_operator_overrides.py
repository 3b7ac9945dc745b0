"""Override rules of `distribution-zones`: what a later request leaves of an earlier one."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from zonequake_operator.resources.model import Timers, ZoneSpec
from zonequake_operator.resources.overrides import AUTO_ADJUST, SCALE_DOWN, SCALE_UP, override
from zonequake_operator.resources.parsing import parse_zone_spec


def timers(spec: dict[str, Any]) -> Timers:
    parsed = parse_zone_spec(spec)
    assert isinstance(parsed, ZoneSpec)
    return parsed.timers


def test_only_the_altered_timer_is_overridden() -> None:
    spec = override({SCALE_UP: 300, SCALE_DOWN: 300_000}, {SCALE_UP: 500})
    assert spec == {SCALE_UP: 500, SCALE_DOWN: 300_000}


def test_auto_adjust_overrides_both() -> None:
    assert override({SCALE_UP: 300, SCALE_DOWN: 300_000}, {AUTO_ADJUST: 1000}) == {
        AUTO_ADJUST: 1000
    }


def test_a_filter_leaves_the_timers_alone() -> None:
    for before in ({SCALE_UP: 5}, {SCALE_UP: 5, SCALE_DOWN: 6}, {AUTO_ADJUST: 7}, {}):
        assert override(before, {"dataNodesFilter": '"SSD"'}) == {
            **before,
            "dataNodesFilter": '"SSD"',
        }


def test_one_timer_of_an_auto_adjust_zone_gives_the_other_its_default() -> None:
    assert timers(override({AUTO_ADJUST: 100}, {SCALE_UP: 5})) == Timers(
        scale_up_s=5, scale_down_s=None
    )
    assert timers(override({AUTO_ADJUST: 100}, {SCALE_DOWN: 5})) == Timers(
        scale_up_s=0, scale_down_s=5
    )


def test_a_field_goes_back_to_its_default() -> None:
    assert override({SCALE_UP: 5, "dataNodesFilter": '"US"'}, {"dataNodesFilter": None}) == {
        SCALE_UP: 5
    }
    assert override({AUTO_ADJUST: 5}, {SCALE_UP: None}) == {AUTO_ADJUST: 5}


@pytest.mark.parametrize("length", [1, 2, 3])
def test_no_sequence_of_requests_leads_to_a_forbidden_pair(length: int) -> None:
    requests = [{SCALE_UP: 1}, {SCALE_DOWN: 2}, {SCALE_UP: 3, SCALE_DOWN: 4}, {AUTO_ADJUST: 5}, {}]
    for chosen in itertools.product(requests, repeat=length):
        spec: dict[str, Any] = {}
        for changes in chosen:
            spec = override(spec, changes)
            assert changes.items() <= spec.items()
            assert not (AUTO_ADJUST in spec and (SCALE_UP in spec or SCALE_DOWN in spec))

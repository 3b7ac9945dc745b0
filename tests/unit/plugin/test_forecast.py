"""What `kubectl zq plan` foretells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest
from rich.console import Console

from zonequake_ctl.zq.screens.forecast import Forecast, ForecastStep, forecast
from zonequake_ctl.zq.screens.forecast_screen import forecast_screen, spec_changes
from zonequake_ctl.zq.screens.namespace_view import NamespaceView
from zonequake_operator.nodes import affinity
from zonequake_operator.resources.model import Timers, ZoneSpec
from zonequake_operator.resources.stored_shapes import to_rfc3339
from zonequake_protocol.admin import ConfigurationReport, PeerName, ReplicaRole

NOW_MS = 1_800_000_000_000


def placed(nodes: str, partitions: int, replicas: int) -> dict[int, str]:
    """Where the operator's own rule puts each partition."""
    sets = affinity.rendezvous(tuple(nodes), partitions, replicas)
    return {number: "".join(sorted(names)) for number, names in enumerate(sets)}


def foretold(view: NamespaceView, **changes: object) -> tuple[ForecastStep, ...]:
    zone = view.zones[0]
    assert isinstance(zone.zone.spec, ZoneSpec)
    return forecast(zone.snapshot(view), msgspec.structs.replace(zone.zone.spec, **changes)).steps


def test_nothing_moves_in_a_zone_that_stays_as_it_is(view: Callable[..., NamespaceView]) -> None:
    (step,) = foretold(view(placed("abc", 8, 3), spec={"replicas": 3}))
    assert (step.after_ms, step.moves) == (0, ())


def test_more_replicas_are_copied_to_where_the_rule_puts_them(
    view: Callable[..., NamespaceView],
) -> None:
    before, after = placed("abcd", 8, 2), placed("abcd", 8, 3)
    (step,) = foretold(
        view(before, nodes="abcd", data_nodes="abcd", spec={"replicas": 2}), replicas=3
    )
    assert {move.partition: "".join(move.after) for move in step.moves} == after
    assert all(len(move.copies) == 1 and not move.erased for move in step.moves)


def test_an_armed_timer_is_foretold_for_the_time_when_it_fires(
    view: Callable[..., NamespaceView],
) -> None:
    status = {"scaleUp": {"nodes": ["d"], "armedAt": to_rfc3339(NOW_MS - 10_000)}}
    now, later = foretold(
        view(
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


def test_a_shorter_timer_brings_the_moves_forward(view: Callable[..., NamespaceView]) -> None:
    status = {"scaleUp": {"nodes": ["d"], "armedAt": to_rfc3339(NOW_MS - 10_000)}}
    (step,) = foretold(
        view(
            placed("abc", 8, 3),
            nodes="abcd",
            status=status,
            spec={"replicas": 3, "dataNodesAutoAdjustScaleUp": 30},
        ),
        timers=Timers(scale_up_s=0),
    )
    assert step.after_ms == 0
    assert step.moves


def test_a_filter_that_matches_no_node_moves_nothing_and_says_why(
    view: Callable[..., NamespaceView],
) -> None:
    (step,) = foretold(view(placed("abc", 8, 3), spec={"replicas": 3}), filter='"nobody"')
    assert step.data_nodes == ()
    assert step.moves == ()


def test_a_filter_that_cannot_be_read_is_a_problem(view: Callable[..., NamespaceView]) -> None:
    (step, *_) = foretold(view(placed("abc", 8, 3), spec={"replicas": 3}), filter="(((")
    assert step.problem is not None
    assert "(((" in step.problem


def test_a_forecast_writes_nothing_into_what_was_seen(view: Callable[..., NamespaceView]) -> None:
    seen = view(placed("abcd", 8, 2), nodes="abcd", data_nodes="abcd", spec={"replicas": 2})
    before = dict(seen.zones[0].partitions)
    foretold(seen, replicas=3)
    assert seen.zones[0].partitions == before


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({"replicas": 3}, {"replicas": 5}, ["replicas: 3 -> 5"]),
        ({"replicas": 3}, {"replicas": 3, "paused": True}, ["paused: - -> True"]),
        ({}, {"replicas": 2, "partitions": 8}, ["new: partitions 8, replicas 2"]),
        ({"replicas": 3}, {"replicas": 3}, []),
    ],
)
def test_only_fields_that_differ_are_named(
    before: dict[str, object], after: dict[str, object], said: list[str]
) -> None:
    assert spec_changes(before, after) == said


def stopped(view: Callable[..., NamespaceView], **more: object) -> NamespaceView:
    """A HighAvailability partition whose nodes all stopped, after a reset to a."""
    waiting = {"role": ReplicaRole.WAITING, "configuration": None, "leader": None}
    chain = [{"nodes": ["a", "b", "c"], "term": 1, "index": 5}, {"nodes": ["a"], "token": 3}]
    return view(
        {0: "abc"},
        spec={"consistencyMode": "HighAvailability", "replicas": 3},
        keys={0: {"stable": {"nodes": ["a"]}, "chain": chain}},
        changes={(0, node): waiting for node in "abc"},
        **more,
    )


def test_what_rests_on_replicas_that_wait_names_them_and_foretells_nothing(
    view: Callable[..., NamespaceView],
) -> None:
    seen = stopped(view)
    spec = seen.zones[0].spec
    assert spec is not None
    foretold = forecast(seen.zones[0].snapshot(seen), spec)
    assert foretold.unseen >= {("a", "z.12345678.0")}
    assert foretold.steps[0].moves == ()
    assert "waits for 1 more of a to report" in foretold.steps[0].waits[0]


def test_what_waiting_replicas_hold_decides_as_it_does_for_the_operator(
    view: Callable[..., NamespaceView],
) -> None:
    seen = stopped(view)
    replicas = seen.zones[0].groups[0].replicas
    peers = ConfigurationReport(
        peers=[PeerName(node=n, incarnation="1") for n in "abc"], token=1, index=1
    )
    looked_at = {
        node: {
            "z.12345678.0": msgspec.structs.replace(
                replicas[node], configuration=peers, last_user_term=1, last_user_index=index
            )
        }
        for node, index in (("a", 9), ("b", 20), ("c", 20))
    }
    (step, *_) = foretold(replace(seen, inspected=looked_at))
    (move,) = step.moves
    assert (move.partition, move.reset_to) == (0, "a")
    assert step.waits == ()


def test_an_armed_reset_is_foretold_as_what_it_is(view: Callable[..., NamespaceView]) -> None:
    timer = {"nodes": ["b", "c"], "armedAt": to_rfc3339(NOW_MS - 2_000)}
    seen = view(
        {0: "abc"},
        nodes="a",
        spec={"consistencyMode": "HighAvailability", "replicas": 3},
        status={"reset": {**timer, "revision": 1, "topologyVersion": 1}},
        changes={(0, "a"): {"role": ReplicaRole.FOLLOWER, "leader": None, "had_leader": True}},
    )
    now, later = foretold(seen)
    assert now.moves == ()
    assert later.after_ms == 3_000
    (move,) = later.moves
    assert (move.reset_to, move.after) == ("a", ("a",))
    spec = seen.zones[0].spec
    assert spec is not None
    console = Console(width=120, no_color=True, highlight=False)
    with console.capture() as captured:
        shown = Forecast(steps=(now, later))
        console.print(
            forecast_screen("z", changes=[], spec=spec, foretold=shown, sizes={}, show_all=False)
        )
    said = captured.get()
    assert "RESET partition 0 of a, b, c: goes on from a alone, and what that lacks" in said
    assert "give up replicas" not in said


def test_a_data_node_that_is_away_is_named_where_copies_go_to_it(
    view: Callable[..., NamespaceView],
) -> None:
    seen = view(placed("abc", 8, 2), nodes="ab", data_nodes="abc", spec={"replicas": 2})
    (step, *_) = foretold(seen, replicas=3)
    assert step.away == ("c",)
    assert any("c" in move.copies for move in step.moves)


def test_a_partition_without_its_majority_is_not_promised_a_move(
    view: Callable[..., NamespaceView],
) -> None:
    spec = view({0: "abc"}).zones[0].spec
    assert spec is not None
    console = Console(width=160, no_color=True, highlight=False)
    with console.capture() as captured:
        step = ForecastStep(after_ms=0, data_nodes=("a", "b", "c"), created={})
        shown = forecast_screen(
            "z",
            changes=[],
            spec=spec,
            foretold=Forecast(steps=(step,)),
            sizes={},
            show_all=False,
            lost=[1, 2],
        )
        console.print(shown)
    assert "2 partitions (1, 2) have lost their majority: nothing moves there" in captured.get()

"""What people see, as plain text."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rich.console import Console, RenderableType

from zonequake_ctl.zq.screens.namespace_view import NamespaceView
from zonequake_ctl.zq.screens.screen import screen
from zonequake_kube.objects import PodView
from zonequake_operator.resources.stored_shapes import to_rfc3339

NOW_MS = 1_800_000_000_000


def text_of(found: RenderableType) -> list[str]:
    console = Console(width=120, no_color=True, highlight=False)
    with console.capture() as captured:
        console.print(found)
    return [" ".join(line.split()) for line in captured.get().splitlines()]


def test_the_first_line_is_the_verdict(view: Callable[..., NamespaceView]) -> None:
    assert text_of(screen(view({0: "abc", 1: "abc"})))[0] == "Zone z all 2 partitions are served"
    lost = text_of(screen(view({0: "abc", 1: "bcd"}, nodes="abcd", silent="ab")))
    assert lost[0] == "Zone z 2 of 2 partitions are NOT served"
    led = text_of(screen(view({0: "abc", 1: "abd"}, nodes="abcd", silent="bc")))
    assert led[0] == "Zone z 1 of 2 partitions are NOT served", "its leader doesn't know it yet"
    paused = text_of(screen(view({0: "abc"}, spec={"paused": True})))
    assert paused[0] == "Zone z all 1 partitions are served, PAUSED"
    unknown = text_of(screen(view({0: "abc"}, silent="abc")))
    assert unknown[0] == "Zone z unknown: no data node could be asked"


def test_without_a_word_of_the_nodes_the_stored_states_are_shown(
    view: Callable[..., NamespaceView],
) -> None:
    keys = {0: {"leader": "a"}, 1: {"leader": "b", "state": "Degraded"}}
    lines = text_of(screen(view({0: "abc", 1: "bca"}, silent="abc", keys=keys)))
    assert "Partitions 1 Available 1 Degraded" in lines
    assert any(line.startswith("b yes no 1 ?") for line in lines)


def test_a_namespace_without_zones_says_so(view: Callable[..., NamespaceView]) -> None:
    empty = NamespaceView(now_ms=0, namespace="ns", topology=view({0: "a"}).topology, zones=())
    assert text_of(screen(empty)) == ["There are no zones in namespace ns."]


def test_a_namespace_without_zones_shows_its_data_nodes(
    view: Callable[..., NamespaceView],
) -> None:
    pods = {
        name: PodView(
            name=name,
            uid=name,
            pool="default",
            ready=name == "a",
            phase="Running",
            deleting=False,
            container="store",
            restarts=2,
        )
        for name in "ba"
    }
    topology = view({0: "a"}).topology
    installed = NamespaceView(now_ms=0, namespace="ns", topology=topology, zones=(), pods=pods)
    assert text_of(screen(installed))[1:] == ["a ready, 2 restarts", "b unready, 2 restarts"]


def test_timers_say_when_and_for_whom(view: Callable[..., NamespaceView]) -> None:
    def armed(node: str, ago_s: int, **more: object) -> dict[str, object]:
        return {"nodes": [node], "armedAt": to_rfc3339(NOW_MS - ago_s * 1000), **more}

    status = {
        "scaleUp": armed("d", 10),
        "scaleDown": armed("c", 4),
        "reset": armed("c", 4, revision=3, topologyVersion=2),
    }
    spec = {"dataNodesAutoAdjustScaleUp": 30, "partitionDistributionResetTimeout": 60}
    lines = text_of(screen(view({0: "abc"}, nodes="abcd", status=status, spec=spec)))
    assert "Timers in 20 s scale-up adds d (armed 10 s ago)" in lines
    assert "never, its time-out is Infinite: scale-down removes c (armed 4 s ago)" in lines
    assert any("in 56 s reset of partitions without a majority" in line for line in lines)
    row = next(line for line in lines if line.startswith("d "))
    assert row.startswith("d not yet yes")


def test_a_move_shows_who_comes_who_goes_and_how_far_it_is(
    view: Callable[..., NamespaceView], progress: Callable[[str, int, int], Mapping[str, object]]
) -> None:
    keys = {0: {"pending": {"nodes": ["a", "b", "d"]}, "planned": {"nodes": ["b", "d"]}}}
    changes = {(0, "a"): progress("d", 12_000_000, 48_000_000)}
    lines = text_of(screen(view({0: "abc"}, nodes="abcd", keys=keys, changes=changes)))
    assert lines[0].endswith(", 1 of them moving")
    assert "0 a b c +d -c CATCHING_UP d 25%, 12.0 MB of 48.0 MB of the log b d" in lines
    assert lines[-1] == "12.0 MB of 48.0 MB are copied (25%)"


def test_a_data_node_that_came_back_is_in_the_zone_while_its_timer_runs(
    view: Callable[..., NamespaceView],
) -> None:
    status = {"scaleUp": {"nodes": ["c"], "armedAt": to_rfc3339(NOW_MS - 10_000)}}
    lines = text_of(
        screen(view({0: "abc"}, status=status, spec={"dataNodesAutoAdjustScaleUp": 30}))
    )
    assert "Timers in 20 s scale-up confirms c (armed 10 s ago)" in lines
    assert any(line.startswith("c yes yes") for line in lines)


def test_a_move_to_a_node_that_is_away_says_for_whom_it_waits(
    view: Callable[..., NamespaceView],
) -> None:
    keys = {0: {"pending": {"nodes": ["a", "b", "d"]}}}
    lines = text_of(screen(view({0: "abc"}, nodes="abcd", silent="d", keys=keys)))
    assert "0 a b c +d -c waits for d" in lines


def test_many_moves_are_counted_not_listed(view: Callable[..., NamespaceView]) -> None:
    many = dict.fromkeys(range(40), "abc")
    keys = {number: {"pending": {"nodes": ["a", "b", "d"]}} for number in many}
    lines = text_of(screen(view(many, nodes="abcd", keys=keys)))
    assert sum("about to begin" in line for line in lines) == 12
    assert "and 28 more" in lines
    assert len(lines) < 30, "one screen"
